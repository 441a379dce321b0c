"""The paper on importance-aware partitions: its raw runs, its printed numbers, and what we make of both."""
