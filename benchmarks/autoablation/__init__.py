"""The three experiments of the paper on AutoAblation, run with the examples of this repository."""
