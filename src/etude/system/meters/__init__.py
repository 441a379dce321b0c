"""What tells how much energy an epoch took: counters, power meters, or a model of it."""
