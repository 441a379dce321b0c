"""What came of a study: read from its journal, as values and in a few lines for people."""
