"""Which rank trains which examples: ``etude.partitions.Stripes(warmup=10, interval=15)``, and others."""

from __future__ import annotations

from etude.fit.importance.orders import moved
from etude.fit.importance.partitions import (
    Blocks,
    Partition,
    Random,
    RandomSubsets,
    SnakeStripes,
    StickyStripes,
    Stripes,
)
from etude.fit.importance.schedule import Schedule, Stage

__all__ = [
    "Blocks",
    "Partition",
    "Random",
    "RandomSubsets",
    "Schedule",
    "SnakeStripes",
    "Stage",
    "StickyStripes",
    "Stripes",
    "moved",
]
