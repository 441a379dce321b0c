"""Where the numbers of a profile come from, a module each: the kernel's counters, /proc, GPUs, and calls of our own."""
