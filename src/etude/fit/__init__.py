"""The final training run: which weights it may start from, and what that saves."""
