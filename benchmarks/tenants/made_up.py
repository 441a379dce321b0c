"""Tables of what epochs take that nobody measured, to try the simulation with."""

from __future__ import annotations

import random
from typing import Final

from benchmarks.pipetune.tables import Row, Table, spelled
from etude.system.knobs import Setting

WORKLOADS: Final = {
    "A": ("I", 0.9),
    "B": ("I", 0.8),
    "C": ("II", 0.7),
    "D": ("II", 1.0),
    "E": ("III", 0.5),
    "F": ("III", 0.6),
}
"""Name -> type, and the share of the default's time that the best setting takes."""

DEFAULT: Final[Setting] = {"threads": 2, "loader_workers": 0}
TWO_WORKERS: Final[Setting] = {"loader_workers": 2, "persistent_workers": True}


def made_up() -> list[Table]:
    """Return tables with four settings each."""
    draw = random.Random(0)
    tables = []
    for name, (kind, share) in WORKLOADS.items():
        rows = {}
        costs: tuple[tuple[Setting, float], ...] = (
            ({}, 1.0),
            ({"threads": 1}, share),
            (TWO_WORKERS, 1.1),
            ({"threads": 4}, 1.3),
        )
        for change, seconds in costs:
            setting: Setting = {**DEFAULT, **change}
            epochs = tuple(seconds * draw.gauss(1, 0.01) for _ in range(5))
            rows[spelled(setting)] = Row(setting, epochs, None, seconds + 0.2)
        tables.append(Table(f"made up {name}", kind, DEFAULT, rows))
    return tables
