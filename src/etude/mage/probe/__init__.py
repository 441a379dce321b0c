"""Sees what a program does, from inside and without touching it."""
