"""Where generated code runs, and what it cannot reach from there."""
