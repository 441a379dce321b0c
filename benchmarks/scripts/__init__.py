"""Scripts as people write them, one for each framework: the same file serves every verb on every engine."""
