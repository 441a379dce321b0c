"""Many tuning jobs on one machine, simulated from what epochs take with each setting."""
