"""What sets the knobs of the host: clock, power of GPUs, and limits by control groups."""
