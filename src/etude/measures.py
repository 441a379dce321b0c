"""How important an example is, by what the criterion saw of it: ``etude.measures.EMA(decay=0.5)``, and others."""

from __future__ import annotations

from etude.fit.importance.measures import (
    EL2N,
    EMA,
    Confidence,
    Forgetting,
    Last,
    Mean,
    Measure,
    Variability,
    Variance,
)
from etude.fit.importance.records import Records

__all__ = [
    "EL2N",
    "EMA",
    "Confidence",
    "Forgetting",
    "Last",
    "Mean",
    "Measure",
    "Records",
    "Variability",
    "Variance",
]
