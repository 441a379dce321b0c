"""What came of a study as tables for notebooks: its best trials, its arms, its trainings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from etude.core import markup
from etude.core.history import History
from etude.core.ranking import front, ranked
from etude.core.text import count, show
from etude.core.totals import parameters
from etude.results.summary import INSET, SHOWN

SHOWN_IN_TABLES: Final = 20
"""Trials that a table shows of a Pareto front, or of a training with many seeds."""


class Arm(Protocol):
    """What came of an arm."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def values(self) -> Mapping[int, float]:
        """The metric by seed; NaN of runs that came to no number."""
        ...

    @property
    def mean(self) -> float:
        """Their mean."""
        ...

    @property
    def effect(self) -> float:
        """What it cost to take this away."""
        ...

    @property
    def changes(self) -> Sequence[str]:
        """What was done to the model, in words."""
        ...

    @property
    def parameters(self) -> int | None:
        """How many the model has."""
        ...


class Training(Protocol):
    """A trial of a final training."""

    @property
    def number(self) -> int:
        """Its number."""
        ...

    @property
    def seed(self) -> int:
        """Its training seed."""
        ...

    @property
    def state(self) -> str:
        """Where it stands."""
        ...

    @property
    def start(self) -> str | None:
        """The weights that it began with, in words; None of random ones."""
        ...

    @property
    def values(self) -> Mapping[str, float]:
        """Each metric by name; empty unless it finished."""
        ...


def without_insets(lines: Iterable[str]) -> list[str]:
    """Return those lines that are no part of a table in plain text."""
    return [line for line in lines if not line.startswith(INSET)]


def best_table(history: History) -> str:
    """Return the best trials of a search, or those of its Pareto front."""
    metrics, names = history.metrics, parameters(history)
    finished = [trial for trial in history.finished if trial.arm is None]  # an ablation looks for no best one
    best = ranked(finished, metrics)[:SHOWN] if len(metrics.names) == 1 else front(finished, metrics)[:SHOWN_IN_TABLES]
    rows = [[t.number, *metrics.values(t).values(), *(t.params.get(name) for name in names)] for t in best]
    return markup.table(["trial", *metrics.names, *names], [[show(value) for value in row] for row in rows])


def arms_table(arms: Sequence[Arm], *, metric: str) -> str:
    """Return the arms of an ablation, the base first, whose effect on itself is none.

    Args:
        arms: What came of them.
        metric: The name of what is told of them.
    """
    sized, changed = any(arm.parameters is not None for arm in arms), any(arm.changes for arm in arms)
    head = ["arm", f"mean {metric}", "seeds", "effect"]
    head += ["parameters"] * sized + ["what is done"] * changed
    rows = []
    for nth, arm in enumerate(arms):
        row = [arm.name, _number(arm.mean), str(sum(map(math.isfinite, arm.values.values())))]
        row += [_number(arm.effect) if nth else ""]
        row += [f"{arm.parameters:,}" if arm.parameters is not None else ""] * sized
        rows.append(row + ["; ".join(arm.changes)] * changed)
    return markup.table(head, rows)


def trainings_table(trials: Sequence[Training], *, metrics: Sequence[str]) -> str:
    """Return the trials of a final training: with which seed, from which weights, and what came of it.

    Args:
        trials: All of them, by number.
        metrics: The names of what is told of them.
    """
    shown = trials[:SHOWN_IN_TABLES]
    rows = [
        [str(t.number), str(t.seed), t.start or "random weights", t.state]
        + [show(t.values[name]) if name in t.values else "" for name in metrics]
        for t in shown
    ]
    more = f"... and {count(len(trials) - len(shown), 'trial')} more." if len(trials) > len(shown) else ""
    told = markup.table(["trial", "seed", "begins with", "state", *metrics], rows)
    return told + markup.lines([more]) if more else told


def _number(value: float) -> str:
    return show(value) if math.isfinite(value) else "?"
