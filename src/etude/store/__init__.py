"""What outlives a process: the journal of a study, who may write it, and what was recorded at its start."""
