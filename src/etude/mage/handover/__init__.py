"""Accepted variants become an ordinary ablation, sources of their own, and words about what was found."""
