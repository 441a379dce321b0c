"""What can be seen of a change without running it: whether it can be read, and whether it keeps to the rules."""
