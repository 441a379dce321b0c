"""What an epoch of a workload takes with each setting: measured tables in a file, and made-up ones to try it with."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from etude.system.knobs import Key, Setting, key, setting_of

FILE: Final = Path(__file__).resolve().parent.parent / "data" / "pipetune_epochs.json"


@dataclass(frozen=True)
class Row:
    """What epochs took with one setting.

    Attributes:
        epoch_s: Seconds of each epoch after the first.
        first_epoch_s: Of the first one, which pays for what comes only once.
        seconds: The median of ``epoch_s``.
        extra_s: By how much the first one takes longer.
    """

    epoch_s: tuple[float, ...]
    first_epoch_s: float
    seconds: float = field(init=False)
    extra_s: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", statistics.median(self.epoch_s))
        object.__setattr__(self, "extra_s", max(0.0, self.first_epoch_s - self.seconds))


@dataclass(frozen=True)
class Table:
    """What epochs of a workload take.

    Attributes:
        name: The workload's.
        kind: Its type: I, II or III, as in table 3 of the paper.
        rows: By what a setting changes of the default.
    """

    name: str
    kind: str
    rows: Mapping[Key, Row]

    @property
    def changes(self) -> tuple[Setting, ...]:
        """All settings but the default."""
        return tuple(setting for one in self.rows if (setting := setting_of(one)))

    @property
    def gain(self) -> float:
        """How many times the default's throughput the best setting has."""
        return self.rows[key({})].seconds / self.rows[key(self.best)].seconds

    @property
    def best(self) -> Setting:
        """The setting whose epochs take least."""
        best: Key = min(self.rows, key=lambda one: self.rows[one].seconds)
        return setting_of(best)


def read(file: Path = FILE) -> list[Table]:
    """Return the tables of a file."""
    found = []
    for name, told in json.loads(file.read_text())["workloads"].items():
        default = told["settings"][told["default"]]["setting"]
        rows = {
            key({knob: value for knob, value in one["setting"].items() if default.get(knob) != value}): Row(
                tuple(one["epoch_s"]), one["first_epoch_s"]
            )
            for one in told["settings"].values()
        }
        found.append(Table(name, told["type"], rows))
    return found


MADE_UP: Final = {
    "A": ("I", 0.9),
    "B": ("I", 0.8),
    "C": ("II", 0.7),
    "D": ("II", 1.0),
    "E": ("III", 0.5),
    "F": ("III", 0.6),
}
"""Nobody measured these: name -> type, and the share of the default's time that the best setting takes."""


def made_up() -> list[Table]:
    """Return tables that nobody measured, with four settings each."""
    draw = random.Random(0)
    tables = []
    for name, (kind, share) in MADE_UP.items():
        seconds = {key({}): 1.0, key({"threads": 1}): share, key({"loader_workers": 2}): 1.1, key({"threads": 4}): 1.3}
        rows = {
            setting: Row(tuple(one * draw.gauss(1, 0.01) for _ in range(5)), one + 0.2)
            for setting, one in seconds.items()
        }
        tables.append(Table(f"made up {name}", kind, rows))
    return tables
