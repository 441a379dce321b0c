"""Studies at work: the shells in which the driver runs, real or in virtual time, and the workers as these see them."""
