"""How far weights are moved, to see whether a part that does nothing with the first ones does something with others."""

from __future__ import annotations

from typing import Final

MOVES: Final = (0.0, 1.0, 10.0)
"""Weights that learn are moved at random by so many times their spread. A scale that begins with 0 is a scale then, and
what only bounds numbers meets some beyond its bounds."""

USUAL: Final = 0.1
"""The spread of weights that are all the same."""
