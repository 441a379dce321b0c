"""Curve sources: what a trial of a simulated study reports, and how long that takes, without running it.

A curve source is called with a configuration and a training seed, and gives a trial's course: one step after the
other as ``(seconds, {metric: value})``. The seconds are those since the step before; a step without metrics only
takes time. What a generator returns at the end is read like what a training function returns. Any function of that
form will do; here are two that need none: recorded runs, and a synthetic family.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, Self, final

from etude.core.errors import ConfigError, ResultError
from etude.core.events import Params
from etude.core.metrics import Metrics
from etude.core.numbers import amount, share, whole
from etude.core.streams import stream
from etude.core.text import brief, count
from etude.engines.steps import read_step

Step = tuple[float, Mapping[str, float]]
Course = Iterable[Step] | Generator[Step, None, Any]
CurveSource = Callable[[Params, int], Course]
"""Takes a configuration, defaults included, and a training seed."""

Unit = Callable[[Params], dict[str, float]]
"""Places a configuration: parameter -> where in its domain, from 0 to 1. What is no part of it is left out."""


class NeedsSpace(Protocol):
    """A curve source that has to know what is searched before it can be asked."""

    def within(self, unit: Unit, metrics: Metrics) -> CurveSource:
        """Return the source for a study.

        Args:
            unit: Places a configuration in the study's space.
            metrics: What the study measures.
        """
        ...


@dataclass(frozen=True)
class Record:
    """A run that was recorded.

    Attributes:
        params: Its configuration.
        steps: Its course, as a curve source gives it.
        returned: What it returned; None if its last report counts.
    """

    params: Params
    steps: tuple[Step, ...]
    returned: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, given: Mapping[str, Any] | Record) -> Record:
        """Read a record as users write it: ``params``, ``seconds`` of each step, ``metrics`` with a list for each.

        Raises:
            ConfigError: It is none.
        """
        if isinstance(given, Record):
            return given
        try:
            params, seconds, metrics = dict(given["params"]), list(given["seconds"]), dict(given["metrics"])
            lengths = {len(values) for values in metrics.values()}
        except (KeyError, TypeError, ValueError):
            raise ConfigError(
                f"A record is {brief(given)}, which is none. Write {{'params': {{...}}, 'seconds': [...], 'metrics': "
                "{'loss': [...]}}: one number for each step, the seconds since the step before."
            ) from None
        if not seconds or lengths != {len(seconds)}:
            raise ConfigError(
                f"The record of {params} has seconds for {count(len(seconds), 'step')}, and metrics for "
                f"{sorted(lengths)} of them. Give as many values of each as there are steps, at least one."
            )
        columns = zip(*metrics.values(), strict=True)
        steps = ((s, dict(zip(metrics, values, strict=True))) for s, values in zip(seconds, columns, strict=True))
        try:
            return cls(params, tuple(map(read_step, steps)))
        except ResultError as error:
            raise ConfigError(f"The record of {params} cannot be gone along. {error}") from None


@final
class RecordedCurves:
    """Let each trial go as the recorded run did that is nearest to it, or as several nearest did on average.

    Near is in the unit cube of the study's space: how far apart two values are in their domain, from 0 to 1, on a
    logarithmic scale where the domain has one; two choices are the same (0) or not (1). Parameters that are not
    searched do not count.

    Args:
        records: Recorded runs; each a dict with ``params``, ``seconds`` (of each step, since the step before) and
            ``metrics`` (name -> the values of all steps), or a ``Record``.
        neighbours: How many of the nearest are averaged, each with one over its distance as its weight and as far
            as the shortest of them goes. 1 keeps to what was really measured.
        steps: Name of the parameter that says after how many steps a trial ends, such as ``"epochs"``; by default
            it goes as far as its record.

    Raises:
        ConfigError: There is no record, or none is averaged.

    Example:
        >>> slow = {"params": {"lr": 0.1}, "seconds": [2.0, 2.0], "metrics": {"loss": [0.9, 0.8]}}
        >>> fast = {"params": {"lr": 0.9}, "seconds": [1.0, 1.0], "metrics": {"loss": [0.5, 0.3]}}
        >>> curves = RecordedCurves([slow, fast])
    """

    def __init__(
        self, records: Iterable[Mapping[str, Any] | Record], *, neighbours: int = 1, steps: str | None = None
    ) -> None:
        self.records = tuple(map(Record.read, records))
        if not self.records:
            raise ConfigError("RecordedCurves([]) has no records, so no trial could go like one. Give at least one.")
        self.neighbours = whole("neighbours", neighbours, 1, "somebody has to be near")
        self.steps = steps

    @classmethod
    def of(cls, search: Any, *, neighbours: int = 1, steps: str | None = None) -> Self:
        """Return the curves of a past study of Étude's: ``RecordedCurves.of(etude.open("digits"))``.

        Only trials that ran to their end are taken: how one that was stopped would have gone on is not known.

        Args:
            search: The study.
            neighbours: As above.
            steps: As above.

        Raises:
            ConfigError: No trial of it ran to its end.
        """
        own = [t for t in search.trials if t.same_as is None and t.reused_from is None]
        ran = [t for t in own if t.state == "finished" and not t.halted]
        if not ran:
            raise ConfigError(
                f"Study {search.name!r} has no trial that ran to its end, so there is no curve to go by. "
                "Give a study in which some finished."
            )
        return cls(map(recorded, ran), neighbours=neighbours, steps=steps)

    def within(self, unit: Unit, metrics: Metrics) -> CurveSource:
        """Return the source for a study.

        Args:
            unit: Gives of a configuration where it lies in the space of the study: name -> a number from 0 to 1.
            metrics: The metrics of the study, with their directions.

        Returns:
            A function of a configuration and a training seed, which gives that trial's course: for each step the
            seconds that it takes, and what it reports.
        """
        return _Nearest(self, unit)

    def __repr__(self) -> str:
        plain = [[r.params, r.steps, r.returned] for r in self.records]
        digest = hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()[:12]
        more = f", neighbours={self.neighbours}" if self.neighbours > 1 else ""
        more += f", steps={self.steps!r}" if self.steps is not None else ""
        return f"RecordedCurves(<{count(len(self.records), 'record')}, {digest}>{more})"


class _Nearest:
    """Recorded curves, in a space."""

    def __init__(self, source: RecordedCurves, unit: Unit) -> None:
        import numpy as np

        self._source = source
        self._unit = unit
        placed = [unit(record.params) for record in source.records]
        self._names = list(dict.fromkeys(name for place in placed for name in place))
        # Who does not have a parameter stands beyond its domain: as far from everybody as can be, but not from
        # others that do not have it either.
        self._places = np.array([[place.get(name, ABSENT) for name in self._names] for place in placed])

    def __call__(self, params: Params, seed: int) -> Course:
        import numpy as np

        place = self._unit(params)
        here = np.array([place.get(name, ABSENT) for name in self._names])
        apart = np.minimum(np.abs(self._places - here), 1.0)
        distances = np.sqrt((apart**2).sum(axis=1))
        nearest = np.argsort(distances, kind="stable")[: self._source.neighbours]
        records = [self._source.records[i] for i in nearest]
        if len(records) > 1 and distances[nearest[0]] > 0.0:
            weights = 1.0 / distances[nearest]
            course = _averaged(records, [float(w) for w in weights / weights.sum()])
        else:
            course = records[0]
        return _went(course, params, self._source.steps)


ABSENT: Final = -1.0
"""Where a configuration stands that does not have a parameter."""


def _averaged(records: Sequence[Record], weights: Sequence[float]) -> Record:
    steps: list[Step] = []
    for each in zip(*(record.steps for record in records), strict=False):
        seconds = sum(weight * step[0] for weight, step in zip(weights, each, strict=True))
        names = [name for name in each[0][1] if all(name in metrics for _, metrics in each)]
        metrics = {
            name: sum(weight * step[1][name] for weight, step in zip(weights, each, strict=True)) for name in names
        }
        steps.append((seconds, metrics))
    return Record(records[0].params, tuple(steps))


def _went(record: Record, params: Params, steps: str | None) -> Generator[Step, None, Any]:
    limit = len(record.steps) if steps is None else _limit(params, steps)
    yield from record.steps[:limit]
    return record.returned if limit >= len(record.steps) else None


def _limit(params: Params, steps: str) -> int:
    """Return how many steps a configuration says."""
    limit = params.get(steps)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ConfigError(
            f"steps={steps!r} should say how many steps a trial has, and the configuration has "
            f"{steps}={limit!r}. Name a parameter that is a whole number from 1."
        )
    return limit


def recorded(trial: Any) -> Record:
    """Return the course of a trial of a past study that ran to its end."""
    return Record(dict(trial.params), course_of(trial), {**trial.metrics, **trial.values})


def course_of(trial: Any) -> tuple[Step, ...]:
    """Return what the newest attempt of a trial reported, and when, and how long it took from there to its end."""
    moments, said = _said(trial)
    return (*_steps(moments, said), (max(0.0, trial.ended_at - moments[-1]), {}))


def reported(trial: Any) -> tuple[Step, ...]:
    """Return what the newest attempt of a trial has reported so far, and when."""
    return _steps(*_said(trial))


def _said(trial: Any) -> tuple[list[float], list[Mapping[str, float]]]:
    """Return when the newest attempt began, and when it reported what."""
    reports = [report for report in trial.reports if report.attempt == trial.attempts]
    return [trial.started_at, *(report.at for report in reports)], [dict(report.metrics) for report in reports]


def _steps(moments: Sequence[float], said: Sequence[Mapping[str, float]]) -> tuple[Step, ...]:
    between = (max(0.0, later - earlier) for earlier, later in itertools.pairwise(moments))
    return tuple(zip(between, said, strict=True))


@final
@dataclass(frozen=True, kw_only=True)
class SyntheticCurves:
    """Power laws with noise, some of which cross, and some of which diverge.

    A configuration is the better the nearer it is to a point of the space that ``seed`` draws. Its loss falls as
    ``final + drop * step ** -rate``, from near 1. Reports of a metric that is to be large are 1 minus that.

    Args:
        steps: How many steps a trial has; or the name of the parameter that says so, such as ``"epochs"``.
        seconds: How long a step takes in the middle of the configurations.
        spread: How much that differs between configurations: the sigma of a log-normal distribution.
        noise: Standard deviation of what is added to each loss.
        crossing: From 0 to 1: how much slower the better configurations fall, so that early reports mislead.
        diverging: Share of the configurations whose loss turns to NaN at some step.
        seed: Which family. A configuration has the same curve in each study with this seed and the same training seed.

    Source:
        Domhan et al. 2015, "Speeding up Automatic Hyperparameter Optimization of Deep Neural Networks by
        Extrapolation of Learning Curves", for power laws as a form of learning curves; the rest is ours.
    """

    steps: int | str = 30
    seconds: float = 10.0
    spread: float = 0.5
    noise: float = 0.01
    crossing: float = 0.0
    diverging: float = 0.0
    seed: int = 0
    _unit: Unit = field(default=lambda params: {}, repr=False, compare=False)
    _signs: tuple[tuple[str, bool], ...] = field(default=(("loss", False),), repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.steps, str):
            whole("steps", self.steps, 1, "a trial without steps would never report")
        amount("seconds", self.seconds, above=True)
        for name in ("spread", "noise"):
            amount(name, getattr(self, name))
        for name in ("crossing", "diverging"):
            share(name, getattr(self, name))
        whole("seed", self.seed)

    def within(self, unit: Unit, metrics: Metrics) -> CurveSource:
        """Return the source for a study.

        Args:
            unit: Gives of a configuration where it lies in the space of the study: name -> a number from 0 to 1.
            metrics: The metrics of the study, with their directions.

        Returns:
            A function of a configuration and a training seed, which gives that trial's course: for each step the
            seconds that it takes, and what it reports.
        """
        return replace(self, _unit=unit, _signs=tuple((name, mode == "max") for name, mode in metrics.modes.items()))

    def __call__(self, params: Params, seed: int) -> Iterator[Step]:
        """Yield the course of a configuration."""
        place = {name: at for name, at in self._unit(params).items() if name != self.steps}
        draws = stream(self.seed, "curve", seed, repr(sorted(place.items())))
        best = (stream(self.seed, "best", name).random() for name in place)
        far = sum((at - at_best) ** 2 for at, at_best in zip(place.values(), best, strict=True))
        final = 0.05 + 0.6 * math.sqrt(far / max(1, len(place)))
        rate = 0.8 * (1.0 - self.crossing) + self.crossing * (0.2 + 1.5 * final)
        pace = self.seconds * math.exp(draws.gauss(0.0, self.spread))
        steps = _limit(params, self.steps) if isinstance(self.steps, str) else self.steps
        diverges_at = 1 + draws.randrange(max(steps, 1)) if draws.random() < self.diverging else math.inf
        for step in range(1, steps + 1):
            loss = final + (1.0 - final) * step**-rate + self.noise * draws.gauss(0.0, 1.0)
            if step >= diverges_at:
                loss = math.nan
            yield pace, {name: 1.0 - loss if larger else loss for name, larger in self._signs}
