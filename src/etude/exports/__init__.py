"""A study for other people's tools: one module for each of them, found by its name in ``targets``."""
