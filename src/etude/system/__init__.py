"""Tunes the machine while a model trains: knobs, profiles, energy, and what past trainings taught."""
