"""Values, lifecycle, driver: the machine without wires. Imports nothing of ours and no framework."""
