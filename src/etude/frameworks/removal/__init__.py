"""Taking layers out of PyTorch models, so that the rest still runs: trace, plan, apply, check."""
