"""The paper on weights from tuning trials: its raw runs, its printed numbers, and what we make of both."""
