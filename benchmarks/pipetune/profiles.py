"""Profiles of runs of the workloads: measured ones in a file, and made-up ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from etude.system.profile import Profile

FILE: Final = Path(__file__).resolve().parent.parent / "data" / "pipetune_profiles.jsonl"
"""What ``python -m benchmarks.system_profiles`` has measured."""

DIGITS: Final = 6


@dataclass(frozen=True)
class Run:
    """A run with the default setting, of which the first epochs were profiled.

    Attributes:
        workload: What was trained.
        nth: Number of the run among those of the workload.
        params: The hyperparameters that were not as by default.
        profiles: Of its first epoch, and of the one after it.
    """

    workload: str
    nth: int
    params: Mapping[str, float]
    profiles: tuple[Profile, ...]

    def line(self) -> str:
        """Return it as a line of a file."""
        told = asdict(self)
        for profile in told["profiles"]:
            profile["rates"] = {name: _rounded(rate) for name, rate in sorted(profile["rates"].items())}
            profile["seconds"] = _rounded(profile["seconds"])
        return json.dumps(told)


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def add(runs: Iterable[Run], machine: Mapping[str, Any], file: Path) -> None:
    """Add runs to a file; its first line says on which machine they were measured."""
    lines = [run.line() for run in runs]
    if not file.is_file():
        lines.insert(0, json.dumps({"machine": dict(machine)}))
    with file.open("a") as out:
        out.writelines(f"{line}\n" for line in lines)


def read(file: Path = FILE) -> tuple[Run, ...]:
    """Return the runs of a file; none if there is no such file."""
    if not file.is_file():
        return ()
    return tuple(
        Run(one["workload"], one["nth"], one["params"], tuple(Profile(**told) for told in one["profiles"]))
        for one in map(json.loads, file.read_text().splitlines()[1:])
    )


def made_up(names: Sequence[str], *, runs: int, seed: int = 0) -> tuple[Run, ...]:
    """Return runs that nobody measured: a dozen rates of each workload, and each run a few percent beside them."""
    draw = random.Random(seed)
    found = []
    for name in names:
        own = {f"rate {n}": 10 ** draw.uniform(-3, 3) for n in range(12)}
        for nth in range(runs):
            rates = {rate: value * draw.gauss(1, 0.03) for rate, value in own.items()}
            found.append(Run(name, nth, {}, (Profile({"steps": 1.0, **rates}, "made up", 1.0),)))
    return tuple(found)
