"""How a study at work stands, as a value; and that value as one line, or as a small picture.

A history is written by the driver's thread while we look at it. So a look copies what it needs, and
from there on everything is pure: the same snapshot, the same line.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from etude.core.events import Params
from etude.core.history import History, Trial
from etude.core.lifecycle import FINAL, LIVE, State
from etude.core.metrics import Metrics
from etude.core.ranking import best_of
from etude.core.text import seconds, show

if TYPE_CHECKING:
    from rich.table import Table

TOLD: Final = (State.FINISHED, State.STOPPED, State.FAILED, State.INVALID, State.RUNNING)
"""States that are told, in this order; an attempt that is stopping still runs."""

COLOURS: Final = {State.FINISHED: "green", State.STOPPED: "yellow", State.FAILED: "red", State.INVALID: "magenta"}
MOST_WORKERS: Final = 8
"""Workers that are shown line by line."""

FEWEST_ENDED: Final = 3
"""Trials that must have ended before their durations say anything."""

Z90: Final = 1.2816
"""The 90 % quantile of the normal distribution."""


@dataclass(frozen=True)
class AtWork:
    """A worker with a trial.

    Attributes:
        worker: Its name.
        trial: The trial's number.
        step: How many times the trial has reported the metric.
        value: The last of these reports; None before the first.
        elapsed_s: Seconds since the attempt started.
    """

    worker: str
    trial: int
    step: int
    value: float | None
    elapsed_s: float


@dataclass(frozen=True)
class Best:
    """The best finished trial so far: its value, number and configuration."""

    value: float
    trial: int
    params: Params


@dataclass(frozen=True)
class Snapshot:
    """How a study stands at one moment.

    Attributes:
        name: The study's name.
        metric: Its metric.
        trials: How many trials it is going to have; never fewer than it has.
        counts: State -> how many trials are in it; only states that occur.
        best: The best trial so far; None before the first has finished.
        at_work: The workers that have a trial, by trial.
        elapsed_s: Seconds since this run of the study began.
        left_s: Seconds that it will still take, as an interval that holds the truth four times in five;
            None while nobody can tell.
    """

    name: str
    metric: str
    trials: int
    counts: Mapping[State, int]
    best: Best | None
    at_work: tuple[AtWork, ...]
    elapsed_s: float
    left_s: tuple[float, float] | None

    @property
    def ended(self) -> int:
        """How many trials are in a final state."""
        return sum(n for state, n in self.counts.items() if state in FINAL)


def snapshot(history: History, *, name: str, trials: int, workers: int, since_s: float, now_s: float) -> Snapshot:
    """Return how a study stands. The history may be growing meanwhile.

    Args:
        history: The study so far.
        name: The study's name.
        trials: How many trials this run of it asks for; it may have more from earlier ones.
        workers: How many run at a time.
        since_s: When this run of the study began, by the driver's clock.
        now_s: The time, by the same clock.
    """
    known = list(history.trials)  # in one step, so that no other thread comes in between
    trials = max(trials, len(known))
    at_work = sorted(_at_work(known, now_s), key=lambda work: work.trial)
    counts = Counter(State.RUNNING if trial.state in LIVE else trial.state for trial in known)
    ended = sum(n for state, n in counts.items() if state in FINAL)
    durations = [t.ended_at - t.started_at for t in known if t.state in FINAL and t.started_at and t.ended_at]
    running = [work.elapsed_s for work in at_work]
    return Snapshot(
        name=name,
        metric=history.metrics.main,
        trials=trials,
        counts=counts,
        best=_best(list(history.finished), history.metrics),
        at_work=tuple(at_work),
        elapsed_s=now_s - since_s,
        left_s=time_left(durations, running, waiting=trials - ended - len(running), workers=workers),
    )


def time_left(
    durations: Sequence[float], running: Sequence[float], *, waiting: int, workers: int
) -> tuple[float, float] | None:
    """Return an interval for the seconds until the last trial has ended; None while nobody can tell.

    Trials are taken to be alike. The work that is left is normally distributed about its mean, with the
    spread of the trials themselves and, since that mean is only estimated, with the spread of the mean.
    What a running trial has left is what those that lasted longer than its age still took.

    Args:
        durations: Seconds that each ended trial took.
        running: Ages of the running trials, in seconds.
        waiting: How many trials have still to start.
        workers: How many run at a time.

    Returns:
        Its 10 % and 90 % quantiles.

    Example:
        >>> low, high = time_left([9.0, 10.0, 11.0] * 4, [5.0, 5.0], waiting=10, workers=2)
        >>> 50 < low < 60 < high < 70
        True
    """
    if len(durations) < FEWEST_ENDED:
        return None
    mean, spread = statistics.fmean(durations), statistics.stdev(durations)
    rests = [_rest(durations, age) for age in running]
    busy = max(1, min(workers, waiting + len(running)))
    waste = mean / 2 * (busy - 1) / busy if waiting > 0 else 0.0  # workers that wait for the last trial
    middle = max([(waiting * mean + sum(rests)) / busy + waste, *rests])
    left = waiting + len(running)
    half = Z90 * spread * math.sqrt(left + left**2 / len(durations)) / busy
    return max(0.0, middle - half), middle + half


def line(look: Snapshot) -> str:
    """Return a snapshot as one line of plain text."""
    best = look.best
    told = f"; best {look.metric} {show(best.value)} in trial {best.trial}" if best is not None else ""
    counted = ", ".join(f"{look.counts[state]} {state}" for state in TOLD if look.counts.get(state))
    return f"{look.name}: {look.ended} of {look.trials} trials ({counted or 'none yet'}){told}; {_times(look)}"


def render(look: Snapshot) -> Table:
    """Return a snapshot as a picture that rich can print, in a terminal or in a notebook."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    head = Table.grid(padding=(0, 2))
    counted = [(f"{look.counts[s]} {s}", COLOURS.get(s, "")) for s in TOLD if look.counts.get(s)]
    bar = ProgressBar(look.trials, look.ended, width=24, complete_style="green", finished_style="green")
    told = (Text(text, style=style) for text, style in counted)
    head.add_row(Text(look.name, style="bold"), bar, f"{look.ended}/{look.trials}", *told)
    body = Table.grid()
    body.add_row(head)
    if look.best is not None:
        params = ", ".join(f"{name}={show(value)}" for name, value in look.best.params.items())
        best = f"best {look.metric} {show(look.best.value)} in trial {look.best.trial}: {params}"
        body.add_row(Text(best, no_wrap=True, overflow="ellipsis"))
    work = Table.grid(padding=(0, 2))
    for one in look.at_work[:MOST_WORKERS]:
        value = "" if one.value is None else show(one.value)
        cells = (f"  {one.worker}", f"trial {one.trial}", f"step {one.step}", value, seconds(one.elapsed_s))
        work.add_row(*(Text(cell, style="dim") for cell in cells))
    if len(look.at_work) > MOST_WORKERS:
        work.add_row(Text(f"  ... {len(look.at_work) - MOST_WORKERS} more", style="dim"))
    if look.at_work:
        body.add_row(work)
    body.add_row(Text(_times(look)))
    return body


def _at_work(trials: Sequence[Trial], now_s: float) -> list[AtWork]:
    found = []
    for trial in trials:
        worker, curve, started_at = trial.worker, trial.curve, trial.started_at  # each may change any moment
        if worker is not None and started_at is not None:
            step = len(curve)
            value = curve[step - 1] if step else None
            found.append(AtWork(worker, trial.number, step, value, max(0.0, now_s - started_at)))
    return found


def _best(finished: Sequence[Trial], metrics: Metrics) -> Best | None:
    """Return the best trial; while all of them diverged there is none."""
    best = best_of([trial for trial in finished if trial.arm is None], metrics)  # an ablation looks for no best one
    if best is None or best.value is None or math.isnan(best.value):
        return None
    return Best(best.value, best.number, best.params)


def _rest(durations: Sequence[float], age: float) -> float:
    longer = [duration - age for duration in durations if duration > age]
    return statistics.fmean(longer) if longer else 0.0


def _times(look: Snapshot) -> str:
    told = f"elapsed {seconds(look.elapsed_s)}"
    if look.left_s is None or look.ended >= look.trials:
        return told
    low, high = (seconds(_coarse(value)) for value in look.left_s)
    return f"{told}, time left {low if low == high else f'{low} - {high}'}"


def _coarse(value: float) -> float:
    """Return a duration without digits that nobody can know."""
    step = next(step for most, step in ((10, 1), (60, 5), (600, 10), (math.inf, 60)) if value <= most)
    return max(1.0, round(value / step) * step)
