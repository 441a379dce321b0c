"""What viewers see of a study, and what of it is new since they looked last.

A board is a fold over facts, as the study itself is, and is dated by their numbers: ``since(n)`` holds every row that a
fact after the n-th has touched. So nothing is queued for anybody. A viewer that was away asks from where it stood, a
slow one gets several changes as one, and two at different points cost no more than one.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from etude.analyse.report.facts import Span
from etude.analyse.report.figure import thinned
from etude.core.events import AnyFact, Assigned, Queued, Reported, Resumed, Settled
from etude.core.history import History, Trial
from etude.core.lifecycle import FINAL, LIVE, State
from etude.core.metrics import Metrics
from etude.core.ranking import best_of, ranked
from etude.core.text import show
from etude.reported.work import Watched

COLUMNS: Final = (
    "trial", "state", "values", "params", "arm", "started", "ended", "attempts", "reports", "last", "worker", "reason",
)  # fmt: skip
"""What a row of a trial holds, in this order; times are in seconds since the study began."""

MOST_CURVES: Final = 200
"""Learning curves that are shown at first, besides those that grow."""

MOST_POINTS: Final = 200
"""Reports of a curve that are shown of a longer one, evenly."""


class Board:
    """What is shown of one study.

    Args:
        metrics: What the study measures.

    Attributes:
        history: The study as it stands.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.history = History(metrics)
        self._watched = Watched()
        self._touched: dict[int, int] = {}  # trial -> the last fact about it; the latest comes last
        self._grown: dict[int, array[int]] = {}  # live trial -> the facts that made its curve, which are its reports'
        self._names: dict[str, int] = {}  # parameter -> its place in a row
        self._ended: list[int] = []  # the facts that ended spans
        self._better: list[tuple[int, int]] = []  # fact and trial, each time that one was better than all before

    @property
    def seq(self) -> int:
        """The number of the last fact."""
        return self.history.seq

    def apply(self, fact: AnyFact) -> None:
        """Fold one fact in."""
        self.history.apply(fact)
        seq = self.history.seq
        self._watched.take(fact)
        if ended := len(self._watched.work.spans) - len(self._ended):
            self._ended += [seq] * ended
        number: int | None = getattr(fact, "trial", None)
        if number is None:
            return
        self._touched.pop(number, None)
        self._touched[number] = seq
        trial = self.history.trials[number]
        if isinstance(fact, Reported):
            self._grow(trial)
        elif isinstance(fact, Queued):
            for name in trial.params:
                self._names.setdefault(name, len(self._names))
        elif trial.state in FINAL or isinstance(fact, Assigned | Resumed):
            self._grown.pop(number, None)
        if isinstance(fact, Settled) and trial.state is State.FINISHED:
            self._compare(trial)

    def _grow(self, trial: Trial) -> None:
        """Note which fact a curve's newest report is."""
        if trial.reports and trial.state not in FINAL:
            grown = self._grown.setdefault(trial.number, array("q"))
            grown.extend([self.seq] * (trial.reports - len(grown)))

    def _compare(self, trial: Trial) -> None:
        """Note whether a trial that has just finished is better than all before."""
        metrics = self.history.metrics
        if len(metrics.names) > 1 or trial.arm is not None or trial.probe is not None:
            return
        before = [self.history.trials[self._better[-1][1]]] if self._better else []
        if trial not in before and best_of([*before, trial], metrics) is trial:
            self._better.append((self.seq, trial.number))

    # --- what is shown ------------------------------------------------------------------------------

    def since(self, seq: int) -> dict[str, Any]:
        """Return what viewers are to be told who know of ``seq`` facts; of everything if that is 0.

        Returns:
            Plain data: ``columns`` and ``parameters`` name what a row of ``trials`` holds; ``curves`` has for each
            trial after how many points ``values`` go on, and at which steps they are; ``spans`` are attempts that have
            ended since, ``under_way`` all that have not; ``best`` are trials that were better than all before.
        """
        touched = list(self._touched_since(seq))
        spans = self._watched.work.spans[bisect_right(self._ended, seq) :]
        return {
            "seq": self.seq,
            "columns": COLUMNS,
            "parameters": list(self._names),
            "trials": [self._row(self.history.trials[number]) for number in reversed(touched)],
            "curves": [self._curve(number, seq) for number in self._with_curves(touched, seq)],
            "spans": [_span(one) for one in spans],
            "under_way": [_span(one) for one in self._watched.under_way()],
            "best": [trial for at, trial in self._better if at > seq],
            "now": self._passed(self.history.at),
        }

    def _touched_since(self, seq: int) -> Iterator[int]:
        for number in reversed(self._touched):
            if self._touched[number] <= seq:
                return
            yield number

    def _row(self, trial: Trial) -> list[Any]:
        metrics = self.history.metrics
        values = metrics.values(trial) if trial.state is State.FINISHED else {}
        params: list[Any] = [None] * len(self._names)
        for name, value in trial.params.items():
            params[self._names[name]] = told(value)
        return [
            trial.number,
            trial.state.value,
            [told(values.get(name)) for name in metrics.names],
            params,
            trial.arm.name if trial.arm is not None else None,
            self._passed(trial.started_at),
            self._passed(trial.ended_at) if trial.state in FINAL else None,
            trial.attempt,
            trial.reports,
            told(trial.curve[-1]) if trial.reports else None,
            trial.worker,
            trial.reason or trial.because,
        ]

    def _passed(self, at: float | None) -> float | None:
        began = self._watched.work.began_at
        return round(at - began, 3) if at is not None and began is not None else None

    def _with_curves(self, touched: Sequence[int], seq: int) -> Iterable[int]:
        """Return whose curves are shown: of all, a few; else of those that have grown."""
        found = [number for number in touched if self.history.trials[number].reports]
        if seq > 0 or len(found) <= MOST_CURVES:
            return found
        live = [number for number in found if self.history.trials[number].state in LIVE]
        best = [trial.number for trial in ranked(list(self.history.finished), self.history.metrics)[: MOST_CURVES // 2]]
        chosen = dict.fromkeys([*live, *best])
        rest = [number for number in sorted(found) if number not in chosen]
        return [*chosen, *thinned(rest, MOST_CURVES - len(best))]

    def _curve(self, number: int, seq: int) -> dict[str, Any]:
        trial = self.history.trials[number]
        grown = self._grown.get(number)
        curve = trial.curve
        known = bisect_right(grown, seq) if grown is not None else 0
        steps = list(range(known + 1, len(curve) + 1))
        if len(steps) > MOST_POINTS:
            steps = thinned(steps, MOST_POINTS)
        return {"trial": number, "after": known, "steps": steps, "values": [told(curve[step - 1]) for step in steps]}


def _span(one: Span) -> list[Any]:
    return [one.worker, one.trial, one.attempt, round(one.start_s, 3), round(one.end_s, 3), one.how]


def told(value: Any) -> Any:
    """Return a value as JSON can have it: numbers as they are, other things as people read them."""
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if isinstance(value, Mapping):
        return {str(name): told(one) for name, one in value.items()}
    return show(value)
