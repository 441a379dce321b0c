"""What can be told of a study's numbers: tests, intervals, verdicts, and what could be found at all."""
