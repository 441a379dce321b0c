"""Whether a variant is what was planned: facts of two runs, held against its claims and against all else."""
