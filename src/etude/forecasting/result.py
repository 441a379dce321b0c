"""A forecast: what a study is expected to take with so many workers, to look at."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from etude.core import markup
from etude.core.text import count, seconds

CONFIDENCE: Final = 0.9
"""Share of the resamples that an interval holds."""

NEAR: Final = 1.1
"""A number of workers is enough if the study takes at most so many times as long as with any other."""


@dataclass(frozen=True)
class Interval:
    """A number that differs from resample to resample.

    Attributes:
        median: It is above this as often as below.
        low: It is below this in one of twenty.
        high: It is above this in one of twenty.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float], *, times: float = 1.0) -> Interval:
        """Return the interval that holds nine in ten of some values, each multiplied with a factor.

        Example:
            >>> Interval.of([1.0, 2.0, 3.0], times=10.0)
            Interval(median=20.0, low=11.0, high=29.0)
        """
        import numpy as np

        edge = (1.0 - CONFIDENCE) / 2.0
        median, low, high = np.quantile(values, [0.5, edge, 1.0 - edge])
        return cls(float(median) * times, float(low) * times, float(high) * times)


@dataclass(frozen=True)
class Row:
    """What a study is expected to take with so many workers.

    Attributes:
        workers: How many trials run at a time.
        time_s: Seconds from its start to its end, the start of the workers included.
        worker_hours: Hours of all workers together, from when they are there to the end, idle ones included.
        cost: What these cost; None without a price.
        alone_s: Seconds that it would take without early stopping.
        saves: Share of that time which early stopping saves; below 0 if it takes longer.
        stopped: Share of the trials that are stopped early, on average.
        loses_best: How likely the trial that would have been the best is stopped; None where a sampler proposes, since
            trials without early stopping are others then.
        gain_s: Seconds by which each further worker shortens the study, from the row before; None in the first.
        failed: Share of the trials that fail for good, since they are lost again and again, on average.
        misses: Share of the resamples that do not keep to ``deadline_s`` or ``max_cost``; None if neither is given.
    """

    workers: int
    time_s: Interval
    worker_hours: Interval
    cost: Interval | None
    alone_s: Interval
    saves: Interval
    stopped: float
    loses_best: float | None
    gain_s: float | None = None
    misses: float | None = None
    failed: float = 0.0


@dataclass(frozen=True)
class Forecast:
    """What a study is expected to take, before it is started.

    Attributes:
        studies: Whose measured trials it goes by.
        measured: How many these are.
        begun: How many of them are known up to some step only.
        trials: How many trials the study will have.
        stopper: What stops trials early, as a call; empty if nothing does.
        sampler: What proposes them, as a call; empty if they are drawn from those measured.
        resamples: How often it was simulated for each row: each time with other trials and another seed.
        from_few: Which share of the uncertainty is there because so few trials were measured.
        table: One row for each number of workers.
        notes: What should be known about it, in sentences.
    """

    studies: tuple[str, ...]
    measured: int
    begun: int
    trials: int
    stopper: str
    sampler: str
    resamples: int
    from_few: float
    table: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def enough(self) -> Row:
        """The row with the fewest workers that take at most a tenth longer than the fastest row."""
        return enough(self.table)

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat dict for each number of workers."""
        return [_flat(row) for row in self.table]

    def frame(self) -> Any:
        """Return the rows as a pandas DataFrame; without pandas, as a list of dicts."""
        try:
            import pandas as pd
        except ImportError:
            return self.rows()
        return pd.DataFrame(self.rows())

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "table"}
        return {**plain, "confidence": CONFIDENCE, "enough": self.enough.workers, "rows": self.rows()}

    def head(self) -> list[str]:
        """Return the titles of the table for people."""
        row = self.table[0]
        early = ["without stopping", "saved", "best lost"] if self.stopper else []
        cost = ["cost"] if row.cost is not None else []
        misses = ["misses limit"] if row.misses is not None else []
        fail = ["fail for good"] if self._some_fail else []
        return ["workers", "time", *early, "worker-hours", *cost, "each more saves", *misses, *fail]

    @property
    def _some_fail(self) -> bool:
        return any(row.failed for row in self.table)

    def cells(self) -> list[list[str]]:
        """Return the table for people: medians, and in brackets the interval."""
        return [self._cells(row) for row in self.table]

    def _cells(self, row: Row) -> list[str]:
        early = [_times(row.alone_s), _shares(row.saves), _share(row.loses_best)] if self.stopper else []
        return [
            str(row.workers),
            _times(row.time_s),
            *early,
            _numbers(row.worker_hours),
            *([_numbers(row.cost)] if row.cost is not None else []),
            "" if row.gain_s is None else seconds(row.gain_s) if row.gain_s > 0 else "nothing",
            *([f"{row.misses:.0%}"] if row.misses is not None else []),
            *([f"{row.failed:.0%}"] if self._some_fail else []),
        ]

    def sentences(self) -> list[str]:
        """Return what came out, and how, without the table."""
        begun = f", {self.begun} of them known by their beginning alone" if self.begun else ""
        by = f"with stopper={self.stopper}" if self.stopper else "without early stopping"
        drawn = f", proposed by {self.sampler}" if self.sampler else ""
        best = self.enough
        lines = [
            f"Forecast of {count(self.trials, 'trial')} {by}{drawn}, from {count(self.measured, 'measured trial')} of "
            f"{' and '.join(self.studies)}{begun}.",
            f"Each row is the median of {self.resamples} simulated studies, each with a resample of the measured "
            f"trials and a seed of its own; brackets hold {CONFIDENCE:.0%} of them. Of that uncertainty, "
            f"{self.from_few:.0%} is there because only {self.measured} trials were measured, and the rest is chance.",
        ]
        most = max(row.workers for row in self.table)
        if best.workers < most:
            lines.append(
                f"{count(best.workers, 'worker')} would do: more, up to {most}, spare at most a tenth of the time."
            )
        elif len(self.table) > 1:
            lines.append(f"Up to {most} workers, more of them still help; beyond that nothing was simulated.")
        if self.stopper:
            risk = (
                f" The best trial is stopped in {best.loses_best:.0%} of the studies."
                if best.loses_best is not None
                else ""
            )
            lines.append(
                f"With {count(best.workers, 'worker')} early stopping would save {_shares(best.saves)} of the time and "
                f"stop {best.stopped:.0%} of the trials.{risk}"
            )
        return [*lines, *self.notes]

    def summary(self) -> str:
        """Return it in a few lines: the table, and what to know about it."""
        head, cells = self.head(), self.cells()
        widths = [max(len(line[i]) for line in (head, *cells)) for i in range(len(head))]
        table = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in (head, *cells)
        ]
        first, *rest = self.sentences()
        return "\n".join([first, "", *table, "", *rest])

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        first, *rest = self.sentences()
        return markup.block(markup.lines([first]), markup.table(self.head(), self.cells()), markup.lines(rest))


def enough(table: Sequence[Row]) -> Row:
    """Return the row with the fewest workers whose time is at most a tenth longer than the shortest of all."""
    shortest = min(row.time_s.median for row in table)
    return next(row for row in sorted(table, key=lambda row: row.workers) if row.time_s.median <= NEAR * shortest)


def _flat(row: Row) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for field in dataclasses.fields(row):
        value = getattr(row, field.name)
        if isinstance(value, Interval):
            flat |= {field.name: value.median, f"{field.name}_low": value.low, f"{field.name}_high": value.high}
        else:
            flat[field.name] = value
    return flat


def _times(given: Interval) -> str:
    return f"{seconds(given.median)} ({seconds(given.low)} to {seconds(given.high)})"


def _numbers(given: Interval) -> str:
    return f"{given.median:.3g} ({given.low:.3g} to {given.high:.3g})"


def _share(given: float | None) -> str:
    return "" if given is None else f"{given:.0%}"


def _shares(given: Interval) -> str:
    median, low, high = (f"{round(value, 2) + 0.0:.0%}" for value in (given.median, given.low, given.high))
    return f"{median} ({low} to {high})"
