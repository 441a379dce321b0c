"""A study as tables: a row for each trial, or for each report, and both as data frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from etude.core.events import Usage
from etude.results.machines import Machines
from etude.results.reports import Reports

Row = dict[str, Any]

WHOLE: Final = frozenset({"same_as", "promotes"})
"""Columns that are whole numbers, be there any or not."""


class Trial(Protocol):
    """A trial, as far as its row needs it; see ``TrialResult``."""

    number: int
    started_at: float | None
    ended_at: float | None
    usage: Usage | None


def used(machines: Machines) -> dict[int, Row]:
    """Return what each trial took whose machine was tuned, as plain data: an energy is never without its label."""
    return {
        use.trial: {
            "train_s": use.seconds,
            "joules": use.energy.joules,
            "energy": use.energy.label.value,
            "setting": dict(use.setting),
        }
        for use in machines.uses
    }


def with_times(rows: Iterable[Row], trials: Iterable[Trial], tuned: Mapping[int, Row]) -> Iterator[Row]:
    """Yield rows of trials with when they ran and what they took; a name that is taken already says what it is.

    Args:
        rows: One for each trial.
        trials: The trials.
        tuned: What ``used`` gives.
    """
    nothing = dict.fromkeys(next(iter(tuned.values()), {}))
    for trial, row in zip(trials, rows, strict=False):  # of a study at work more may have come
        took = trial.usage
        cost = {
            "started_at": trial.started_at,
            "ended_at": trial.ended_at,
            "duration_s": took.wall_s if took is not None else None,
            "cpu_s": took.cpu_s if took is not None else None,
            "memory_mb": took.memory_mb if took is not None else None,
            **tuned.get(trial.number, nothing),
        }
        yield {**row, **{f"usage.{name}" if name in row else name: value for name, value in cost.items()}}


def of_reports(reports: Reports, trials: int, *, times: bool, simulated: bool) -> Iterator[Row]:
    """Yield a row for each report that counts, by trial and in order.

    Args:
        reports: The reports.
        trials: How many trials there are.
        times: Whether to say when.
        simulated: Whether none of it was measured, which each row then says.
    """
    mark = {"simulated": True} if simulated else {}
    for number in range(trials):
        for report in reports.of(number):
            row = {"trial": number, "step": report.step, **({"at": report.at} if times else {})}
            taken = {*row, *mark}
            yield {**row, **{f"metrics.{n}" if n in taken else n: v for n, v in report.metrics.items()}, **mark}


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Return all columns in the order in which they first occur."""
    return list(dict.fromkeys(name for row in rows for name in row))


def frame_of(columns: Mapping[str, list[Any]]) -> Any:
    """Return columns as a pandas DataFrame; whole numbers and truth values stay what they are where some are missing.

    Args:
        columns: Name -> values, with None for those that are missing.
    """
    import pandas as pd

    kinds = {name: kind for name, column in columns.items() if (kind := _kind(name, column)) is not None}
    return pd.DataFrame(columns).astype(kinds)


def _kind(name: str, column: Sequence[Any]) -> str | None:
    """Return the type that can have gaps, where pandas would take another one for the gaps."""
    types = {type(value) for value in column if value is not None}
    if name in WHOLE and not types:
        return "Int64"
    if types == {int} and (name in WHOLE or None in column):
        return "Int64" if all(value is None or -(2**63) <= value < 2**63 for value in column) else None
    return "boolean" if types == {bool} and None in column else None
