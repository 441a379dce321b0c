"""Which rank trains which examples: ``etude.partitions.Stripes(warmup=10, interval=15)``, and others."""

from __future__ import annotations

from etude.fit.importance.partitions import (
    Blocks,
    Partition,
    Random,
    SnakeStripes,
    StickyStripes,
    Stripes,
    moved,
)
from etude.fit.importance.schedule import Schedule, Stage

__all__ = [
    "Blocks",
    "Partition",
    "Random",
    "Schedule",
    "SnakeStripes",
    "Stage",
    "StickyStripes",
    "Stripes",
    "moved",
]
