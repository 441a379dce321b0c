"""Adapters: what a framework needs so that a trial is seeded, placed and attached. Loaded by name."""
