"""The workloads on which PipeTune's comparison is made, how their epochs are measured, and what is made of that."""
