"""Model families, pairs of a model and a part of it, and oracles that judge a repaired model."""
