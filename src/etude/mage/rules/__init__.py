"""Variants that need no language model: a rule is sure of what it does, or does nothing."""
