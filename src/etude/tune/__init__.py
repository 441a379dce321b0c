"""Hyperparameter search: spaces, samplers, stoppers, and the plan that joins them."""
