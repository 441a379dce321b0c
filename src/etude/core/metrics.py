"""The numbers that judge a trial, each with the direction in which it is better, and the budget that they came of."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from etude.core.errors import ConfigError

Mode = Literal["max", "min"]
MODES: Final = ("max", "min")


class Result(Protocol):
    """What came of a trial."""

    @property
    def value(self) -> float | None:
        """The main metric."""
        ...

    @property
    def extra(self) -> Mapping[str, object]:
        """What was returned beside it."""
        ...


@dataclass(frozen=True)
class Fidelity:
    """A parameter that says how much a trial may cost: values that came of different budgets do not compare.

    Attributes:
        name: The parameter.
        rungs: Its budgets, the smallest first.
    """

    name: str
    rungs: tuple[int | float, ...]

    def rung(self, params: Mapping[str, object]) -> int:
        """Return which of the budgets a configuration has, from 0; -1 if none of them."""
        budget = params.get(self.name)
        return self.rungs.index(budget) if budget in self.rungs else -1


class Metrics:
    """What a study measures.

    Attributes:
        modes: Name -> ``"max"`` if larger is better, ``"min"`` if smaller is. The first is the main one.
        watched: The one whose reports are counted as steps, make the trials' curves and reach the stopper.
        fidelity: The parameter whose value is the trials' budget, if there is one.
    """

    __slots__ = ("_signs", "fidelity", "main", "modes", "watched")

    def __init__(
        self, modes: Mapping[str, Mode], *, watched: str | None = None, fidelity: Fidelity | None = None
    ) -> None:
        self.modes: Mapping[str, Mode] = dict(modes)
        self.main = next(iter(self.modes))
        self.watched = self.main if watched is None else watched
        self.fidelity = fidelity
        self._signs = {name: -1.0 if mode == "max" else 1.0 for name, mode in self.modes.items()}

    @classmethod
    def read(cls, metric: str | Mapping[str, Mode], mode: Mode | None) -> Metrics:
        """Read what an experiment is given as ``metric`` and ``mode``.

        Raises:
            ConfigError: They name no metric, or no direction.
        """
        if isinstance(metric, Mapping):
            if not metric or mode is not None:
                raise ConfigError(
                    f"metric={dict(metric)!r} with mode={mode!r} cannot be. A mapping gives each metric its own mode: "
                    'metric={"accuracy": "max", "latency_s": "min"}, without mode=.'
                )
            given = dict(metric)
        else:
            _check_name(metric)
            given = {metric: mode}  # type: ignore[dict-item]
        for name, its_mode in given.items():
            _check_name(name)
            if its_mode not in MODES:
                meant = [mode for mode in MODES if str(its_mode).lower().startswith(mode)] or MODES
                raise ConfigError(
                    f"mode={its_mode!r} says neither that larger values of {name!r} are better nor that smaller ones "
                    f"are. Pass {' or '.join(f'mode={mode!r}' for mode in meant)}."
                )
        return cls(given)

    def watching(self, name: str | None) -> Metrics:
        """Return the same metrics with another one watched; the same if ``name`` is None."""
        return self if name is None else Metrics(self.modes, watched=name, fidelity=self.fidelity)

    def at(self, fidelity: Fidelity | None) -> Metrics:
        """Return the same metrics, of trials that have budgets."""
        return Metrics(self.modes, watched=self.watched, fidelity=fidelity)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, the main one first."""
        return tuple(self.modes)

    def loss(self, value: float, name: str | None = None) -> float:
        """Return a value of a metric, the watched one if left out, so that less is better. NaN is worst."""
        return math.inf if math.isnan(value) else self._signs[name or self.watched] * value

    def rank(self, value: float | None) -> tuple[bool, float]:
        """Return what orders values of the main metric, the best first; NaN is worse than infinity, and so is none."""
        if value is None or math.isnan(value):
            return (True, 0.0)
        return (False, self.loss(value, self.main))

    def values(self, finished: Result) -> dict[str, float]:
        """Return all metrics of a finished trial: its value, and what it returned beside that."""
        given = {self.main: finished.value, **{name: finished.extra.get(name) for name in self.names[1:]}}
        return {name: value if isinstance(value, float) else math.nan for name, value in given.items()}

    def losses(self, values: Mapping[str, float]) -> tuple[float, ...]:
        """Return one loss for each metric, in their order."""
        return tuple(self.loss(values[name], name) for name in self.names)

    def __repr__(self) -> str:
        return ", ".join(f"{name} ({mode})" for name, mode in self.modes.items())


def check_watched(metric: object) -> None:
    """Refuse what cannot name the metric that a stopper watches; None is for the only one there is.

    Raises:
        ConfigError: It is no name.
    """
    if metric is not None:
        _check_name(metric)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name:
        return
    several = ' Several are a dict: metric={"accuracy": "max", "latency_s": "min"}.'
    raise ConfigError(
        f"metric={name!r} is no name. Pass the name of what train returns or reports."
        + (several if isinstance(name, Collection) and name else "")
    )
