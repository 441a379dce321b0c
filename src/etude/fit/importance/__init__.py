"""Which examples matter: what the criterion saw of each, its importance, and which rank trains it."""
