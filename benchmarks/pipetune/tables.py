"""Tables of what an epoch of a workload takes with each setting: measured ones in a file, and made-up ones."""

from __future__ import annotations

import functools
import itertools
import json
import math
import random
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from etude.system.knobs import Setting, Value
from etude.system.probing import Axes, Axis

FILE: Final = Path(__file__).resolve().parent.parent / "data" / "pipetune_epochs.json"
"""What ``python -m benchmarks.system_tables`` has measured."""

MADE_UP: Final = "made up"
"""The type of tables that nobody measured."""

REPEATS: Final = 7
NOISE: Final = 0.02
"""How far epochs of made-up tables spread, as a share."""


@dataclass(frozen=True)
class Row:
    """What epochs took with one setting.

    Attributes:
        setting: The setting, with all knobs that were set.
        epoch_s: Seconds of each epoch after the first one.
        joules: Of each of these, modelled; None if nobody knows.
        first_epoch_s: Seconds of the first epoch, which pays for what comes only once.
    """

    setting: Setting
    epoch_s: tuple[float, ...]
    joules: tuple[float, ...] | None
    first_epoch_s: float

    @functools.cached_property
    def seconds(self) -> float:
        """The median of its epochs."""
        return statistics.median(self.epoch_s)

    @property
    def extra_s(self) -> float:
        """By how much the first one takes longer."""
        return max(0.0, self.first_epoch_s - self.seconds)


@dataclass(frozen=True)
class Table:
    """What epochs of a workload take with each setting.

    Attributes:
        name: The workload's.
        kind: Its type, such as ``I``, or ``MADE_UP``.
        default: The setting that it has if nobody changes it.
        rows: Of each setting, by how it is spelled.
    """

    name: str
    kind: str
    default: Setting
    rows: Mapping[str, Row] = field(default_factory=dict)

    def row(self, setting: Setting) -> Row:
        """Return the row of a setting; knobs that it does not name are as by default."""
        return self.rows[spelled({**self.default, **setting})]

    def late_s(self, setting: Setting, before: Setting | None) -> float:
        """Return by how much an epoch takes longer than epochs with its setting do, for what begins in it.

        The first epoch of a trial pays for all that comes once. Workers that stay are begun in a later epoch as well,
        where the one before had none or others: that costs what a first epoch with them paid more than one by default.

        Args:
            setting: Of the epoch.
            before: Of the one before it; None for the first one of a trial.
        """
        row = self.row(setting)
        if before is None:
            return row.extra_s
        there = self.row(before).setting
        if not row.setting.get(STAY) or all(row.setting.get(name) == there.get(name) for name in (WORKERS, STAY)):
            return 0.0
        return max(0.0, row.extra_s - self.row({}).extra_s)

    @property
    def best(self) -> Row:
        """The row of the setting whose epochs take least."""
        return min(self.rows.values(), key=lambda row: row.seconds)

    @property
    def gain(self) -> float:
        """How many times the default's throughput the best setting has."""
        return self.row({}).seconds / self.best.seconds

    @property
    def best_change(self) -> Setting:
        """What the best setting changes of the default; nothing, if that is best."""
        return self._changed(self.best.setting)

    def changes(self) -> tuple[dict[str, Value], ...]:
        """Return all settings but the default, each by what it changes of that."""
        changed = [self._changed(row.setting) for row in self.rows.values()]
        return tuple(setting for setting in changed if setting)

    def _changed(self, setting: Setting) -> dict[str, Value]:
        return {name: value for name, value in setting.items() if self.default.get(name) != value}

    def axes(self) -> Axes:
        """Return how its settings are tried: threads and workers, which share the cores, jointly.

        Workers that are begun anew in each epoch are left out: where epochs are short they look bad for what is no
        fault of theirs, and hide what those bring that stay. Most threads come first, and of these half as many
        workers: they bring most where code asks for one and none, and what comes later is cut short if it is much
        slower than the best so far.
        """
        most = max(_threads(row.setting) for row in self.rows.values())

        def order(change: Setting) -> tuple[int, float]:
            setting = {**self.default, **change}
            return -_threads(setting), abs(int(setting.get(WORKERS) or 0) - most / 2)

        joint = [one for one in self.changes() if one.get(STAY, not one.get(WORKERS))]
        return Axes((Axis(tuple(sorted(joint, key=order)), ordered=False),))


WORKERS: Final = "loader_workers"
STAY: Final = "persistent_workers"


def _threads(setting: Setting) -> int:
    return int(setting["threads"] or 1)


def spelled(setting: Setting) -> str:
    """Return a setting as the files have it: equal for settings that do the same.

    Example:
        >>> spelled({"threads": 2, "persistent_workers": True, "loader_workers": 0})
        'threads=2,loader_workers=0'
    """
    said = {name: value for name, value in setting.items() if value is not False and value is not None}
    if not said.get(WORKERS):
        said.pop(STAY, None)
    order = ("threads", WORKERS, STAY)
    names = sorted(said, key=lambda name: (order.index(name) if name in order else len(order), name))
    return ",".join(f"{name}={said[name]}" for name in names)


def settings(cores: int, *, threads: int, has_loader: bool) -> tuple[Setting, ...]:
    """Return the settings that make sense on a machine, the default first.

    Args:
        cores: How many cores there are.
        threads: How many threads the workload computes with by default.
        has_loader: Whether it loads data.
    """
    counts = sorted({cores, threads, *(1 << k for k in range(cores.bit_length()))})
    loading: list[dict[str, Value]] = [{}]
    if has_loader:
        loading = [{WORKERS: n} for n in (0, *counts)]
        loading += [{WORKERS: n, STAY: True} for n in counts]
    others = [n for n in counts if n != threads]
    return tuple({"threads": n, **how} for n, how in itertools.product((threads, *others), loading))


def read(file: Path = FILE) -> tuple[Table, ...]:
    """Return the tables of a file; none if there is no such file."""
    if not file.is_file():
        return ()
    return tuple(
        Table(
            name,
            told["type"],
            told["settings"][told["default"]]["setting"],
            {spelled(one["setting"]): _row(one) for one in told["settings"].values()},
        )
        for name, told in json.loads(file.read_text())["workloads"].items()
    )


def _row(told: Mapping[str, Any]) -> Row:
    joules = told["joules"]
    return Row(
        told["setting"], tuple(told["epoch_s"]), None if joules is None else tuple(joules), told["first_epoch_s"]
    )


def write(tables: Iterable[Table], machine: Mapping[str, Any], file: Path) -> None:
    """Write tables to a file, in the place of those of the same name; others in it stay."""
    there = json.loads(file.read_text())["workloads"] if file.is_file() else {}
    for table in tables:
        there[table.name] = {
            "type": table.kind,
            "default": spelled(table.default),
            "settings": {
                name: {
                    "setting": dict(row.setting),
                    "epoch_s": [round(one, 5) for one in row.epoch_s],
                    "joules": None if row.joules is None else [round(one, 3) for one in row.joules],
                    "first_epoch_s": round(row.first_epoch_s, 5),
                }
                for name, row in table.rows.items()
            },
        }
    file.write_text(json.dumps({"machine": dict(machine), "workloads": there}, indent=1) + "\n")


def made_up(seed: int) -> Table:
    """Return a table that nobody measured: 4 cores, what workers and threads bring drawn at random, and how it spreads.

    Threads scale by Amdahl's law. Loading goes on beside computing where there are workers, at the price of what hands
    batches over, and of starting them; who wants more cores than there are waits.
    """
    draw = random.Random(seed)
    cores = 4
    computing_s, parallel = draw.uniform(0.2, 2.0), draw.uniform(0.0, 0.98)
    loading_s = computing_s * math.exp(draw.uniform(math.log(0.02), math.log(2.0)))
    handing_s, starting_s = draw.uniform(0.0, 0.1) * computing_s, draw.uniform(0.005, 0.04)
    threads = draw.choice((cores, cores, 1))
    rows = {}
    for setting in settings(cores, threads=threads, has_loader=True):
        n, workers = int(setting["threads"] or 1), int(setting["loader_workers"] or 0)
        crowded = max(1.0, (n + min(workers, loading_s / computing_s)) / cores)
        computed_s = computing_s * (1 - parallel + parallel / n) * crowded
        seconds = computed_s + loading_s
        if workers:
            seconds = max(computed_s + handing_s, loading_s * crowded / workers)
            seconds += 0.0 if setting.get("persistent_workers") else starting_s * workers
        epochs = tuple(seconds * math.exp(draw.gauss(0, NOISE)) for _ in range(REPEATS))
        rows[spelled(setting)] = Row(setting, epochs, None, seconds + draw.uniform(0.0, 1.0))
    default = settings(cores, threads=threads, has_loader=True)[0]
    return Table(f"made up {seed}", MADE_UP, default, rows)
