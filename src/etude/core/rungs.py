"""How deep a repair cuts: the rungs of the ladder, from the one that changes least."""

from __future__ import annotations

from enum import IntEnum


class Rung(IntEnum):
    """What was done so that a model still runs without a component. A plan's rung is the deepest of its edits."""

    IDENTITY = 1
    """What went in comes out."""
    NEUTRAL = 2
    """A branch is dropped: its place is taken by the neutral element of the operation that joins it."""
    SPLICE = 3
    """What went in comes out, and the layers that read it were given as many inputs."""
    WIDTH = 4
    """As splice, and layers that are coupled to it by an addition or a product were given another width too."""
    ADAPTER = 5
    """An adapter without parameters gives what went in the shape of what came out."""
    LEARNED = 6
    """A learned adapter, on request."""
