"""What ``benchmarks.weights_live`` trains, how it is measured, and what is made of it."""
