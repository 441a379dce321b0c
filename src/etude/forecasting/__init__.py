"""What a study will take, before it is started: measured trials, drawn again and again, in the simulator."""
