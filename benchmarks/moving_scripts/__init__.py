"""Training scripts as people have them, and the same ones moved here: tune, ablate and a fit on two ranks."""
