"""A study as an export takes it, and what an export says when it is done: plain values, whichever verb made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from etude.core.events import Params
from etude.core.lifecycle import State
from etude.core.text import count
from etude.tune.spaces import Space


class Point(NamedTuple):
    """What a trial reported at once.

    Attributes:
        step: How many times the study's metric had been reported.
        at: Seconds since 1970, or since the study began if it is simulated.
        metrics: What was reported.
    """

    step: int
    at: float
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Trial:
    """A trial as it stands.

    Attributes:
        number: Its number, from 0.
        params: Its configuration.
        seed: Its training seed.
        state: Where it stands.
        values: Each of the study's metrics; empty unless it finished.
        returned: What the training function returned beside them.
        points: The reports that count, in order: those of its newest attempt, and what that one went on from.
        facts: What else there is to say of it, by name; only what is so.
        attempt: Its newest attempt, from 1; 0 before the first.
        queued_at: When it was queued, in seconds as those of ``Point``.
        started_at: When its newest attempt was handed out; None before the first.
        ended_at: When something ended for it last; None before that.
    """

    number: int
    params: Params
    seed: int
    state: State
    values: Mapping[str, float] = field(default_factory=dict)
    returned: Mapping[str, Any] = field(default_factory=dict)
    points: Sequence[Point] = ()
    facts: Mapping[str, str | int | float] = field(default_factory=dict)
    attempt: int = 1
    queued_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None

    @property
    def begins_at(self) -> float:
        """When it began; of one that never did, when it ended or was queued."""
        return next(at for at in (self.started_at, self.ended_at, self.queued_at) if at is not None)

    @property
    def last_step(self) -> int:
        """The step of its last report; 0 without any."""
        return self.points[-1].step if self.points else 0


@dataclass(frozen=True)
class Study:
    """A study as it stands.

    Attributes:
        name: What it is called.
        identity: What tells it from another one of that name.
        modes: Metric -> ``"max"`` or ``"min"``, the main one first.
        watched: The metric whose reports are counted as steps.
        trials: All of them, by number.
        space: What was searched; None if nothing was, or a later version wrote it.
        facts: What else there is to say of it, by name.
    """

    name: str
    identity: str
    modes: Mapping[str, str]
    watched: str
    trials: Sequence[Trial]
    space: Space | None = None
    facts: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def parameters(self) -> list[str]:
        """The names of all parameters that a trial has, each once."""
        return list(dict.fromkeys(name for trial in self.trials for name in trial.params))

    @property
    def reported(self) -> list[str]:
        """The names of all metrics that there are, reported or returned as numbers, each once."""
        named = dict.fromkeys(self.modes)
        for trial in self.trials:
            for point in trial.points:
                named |= dict.fromkeys(point.metrics)
            named |= dict.fromkeys(numbers_of(trial))
        return list(named)


@dataclass(frozen=True)
class Exported:
    """What an export did. Print it.

    Attributes:
        to: The tool that it was for.
        into: Where the study is now, as that tool takes it.
        name: What it is called there.
        trials: How many trials are there.
        look: The command that shows it.
        notes: What is not there as it is here, in sentences: names that had to change, values that have no place.
    """

    to: str
    into: str
    name: str
    trials: int
    look: str = ""
    notes: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where it is, and the command that shows it, as lines."""
        look = f"\nLook at it: {self.look}" if self.look else ""
        return f"{self.name} is in {self.into}, {count(self.trials, 'trial')}.{look}"

    def __str__(self) -> str:
        return "\n".join([self.place, *(f"Note: {note}" for note in self.notes)])


def numbers_of(trial: Trial) -> dict[str, float]:
    """Return what a finished trial came to, as far as it is numbers: its metrics, and what it returned beside them.

    Example:
        >>> numbers_of(Trial(0, {}, 0, State.FINISHED, {"score": 0.5}, {"steps": 3, "note": "so", "on": True}))
        {'score': 0.5, 'steps': 3.0}
    """
    beside = {name: float(value) for name, value in trial.returned.items() if type(value) in (int, float)}
    return {**trial.values, **beside}


def words_of(trial: Trial) -> dict[str, Any]:
    """Return what a trial returned that is no number."""
    return {name: value for name, value in trial.returned.items() if type(value) not in (int, float)}


def ended_with(trial: Trial) -> dict[str, float]:
    """Return those of its numbers that its last reports do not say already.

    Example:
        >>> points = [Point(1, 0.0, {"score": 0.25, "loss": 2.0}), Point(2, 1.0, {"score": 0.5})]
        >>> ended_with(Trial(0, {}, 0, State.FINISHED, {"score": 0.5}, {"steps": 3}, points))
        {'steps': 3.0}
    """
    last: dict[str, float] = {}
    for point in trial.points:
        last |= point.metrics
    return {name: value for name, value in numbers_of(trial).items() if not same(last.get(name), value)}


def same(one: float | None, other: float) -> bool:
    """Say whether two values are the same; NaN is the same as NaN."""
    return one == other or (one is not None and one != one and other != other)  # noqa: PLR0124
