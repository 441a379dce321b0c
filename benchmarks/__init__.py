"""Benchmarks of Étude, one module each: ``python -m benchmarks.handout``, or ``make bench NAME=handout``."""
