"""Domains that stand for themselves: ranges of numbers, and lists whose order means something.

A *domain* is the set of values of one parameter. The choice is not here: its values may bring
parameters of their own, so it belongs to the spaces (``etude.tune.spaces``).
"""

# ruff: noqa: D102 - what the methods of domains do is said once, in Domain
from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, final

from etude.core.errors import SpaceError
from etude.tune.bounds import check_order, misfit, number
from etude.tune.ranges import between, fractions, index_at, outside, spread
from etude.tune.values import Value, encoded, key, listed


def uniform(low: float, high: float, *, step: float | None = None) -> Uniform:
    """Return the numbers from ``low`` to ``high``, each as likely as the other.

    Args:
        low: Smallest value.
        high: Largest value; it belongs to the domain.
        step: Distance between neighbouring values, counted from ``low``; None for all numbers.

    Raises:
        SpaceError: The bounds are not finite numbers in order, or ``step`` does not lead to ``high``.

    Example:
        >>> uniform(0, 1, step=0.25).grid(10)
        (0.0, 0.25, 0.5, 0.75, 1.0)
    """
    call = str(Uniform(low, high, step))
    low, high = number(call, "low", low), number(call, "high", high)
    check_order(call, low, high, swapped=Uniform(high, low, step))
    if step is not None:
        step = number(call, "step", step, positive=True)
        if step < 4 * math.ulp(max(abs(low), abs(high))):
            raise SpaceError(
                f"{call} has a step too small for floats to tell neighbours apart. Pass a larger step, or none."
            )
        steps = (high - low) / step
        if abs(steps - round(steps)) > max(1e-9, 4 * math.ulp(steps)):
            raise misfit(call, low, high, step)
    return Uniform(low, high, step)


def loguniform(low: float, high: float) -> LogUniform:
    """Return the numbers from ``low`` to ``high``, each order of magnitude as likely as the other.

    Args:
        low: Smallest value, above 0.
        high: Largest value; it belongs to the domain.

    Raises:
        SpaceError: The bounds are not finite numbers above 0 in order.

    Example:
        >>> [round(lr, 6) for lr in loguniform(1e-3, 10).grid(5)]
        [0.001, 0.01, 0.1, 1.0, 10.0]
    """
    call = str(LogUniform(low, high))
    low, high = number(call, "low", low, positive=True), number(call, "high", high, positive=True)
    check_order(call, low, high, swapped=LogUniform(high, low))
    return LogUniform(low, high)


def integers(low: int, high: int, *, log: bool = False, step: int = 1) -> Integers:
    """Return the whole numbers from ``low`` to ``high``, both ends included.

    Args:
        low: Smallest value.
        high: Largest value; it belongs to the domain.
        log: Make each order of magnitude as likely as the other; needs ``low`` of at least 1.
        step: Distance between neighbouring values, counted from ``low``; 1 with ``log``.

    Raises:
        SpaceError: The bounds are not whole numbers in order, or do not go with ``log`` or ``step``.

    Example:
        >>> integers(1, 9, step=2).grid(10), integers(1, 1000, log=True).grid(4)
        ((1, 3, 5, 7, 9), (1, 10, 100, 1000))
    """
    call = str(Integers(low, high, log, step))
    low = number(call, "low", low, whole=True, positive=log)
    high = number(call, "high", high, whole=True, positive=log)
    step = number(call, "step", step, whole=True, positive=True)
    if log and step != 1:
        raise SpaceError(f"{call} has log and step, which contradict each other. Leave one of them out.")
    check_order(call, low, high, swapped=Integers(high, low, log, step))
    if (high - low) % step:
        raise misfit(call, low, high, step)
    return Integers(low, high, bool(log), step)


def ordered(values: Sequence[Value]) -> Ordered:
    """Return a choice of one of ``values``, whose order means something, as in small < medium < large.

    Args:
        values: Plain values, in their order. A sampler sees the index.

    Raises:
        SpaceError: There are no values, one stands there twice, or one is not plain.

    Example:
        >>> ordered(["small", "medium", "large"]).from_unit(0.5)
        'medium'
    """
    return Ordered(listed("ordered", values))


@dataclass(frozen=True, repr=False)
class Domain(ABC):
    """The values that one parameter can have. Immutable, comparable and hashable."""

    @property
    @abstractmethod
    def size(self) -> int | None:
        """The number of values, or None for a continuum."""

    @abstractmethod
    def from_unit(self, u: float) -> Value:
        """Return the value at ``u`` in [0, 1): equally spread ``u`` give the domain's distribution."""

    @abstractmethod
    def grid(self, n: int) -> tuple[Value, ...]:
        """Return distinct values, ends included: at most ``n`` numbers, or all values of a list."""

    @abstractmethod
    def why_not(self, value: object) -> str | None:
        """Return what ``value`` does wrong, such as ``"is above 1.0"``, or None if it belongs here."""

    def contains(self, value: object) -> bool:
        """Say whether ``value`` belongs to the domain; types count, so True is not 1."""
        return self.why_not(value) is None

    def to_dict(self) -> dict[str, Any]:
        """Return this domain as plain data that survives JSON: its kind and its fields."""
        return {"kind": type(self).__name__.lower(), **vars(self)}

    def __repr__(self) -> str:
        """Return the call that makes this domain; what stands at its default is left out."""
        shown = [(part, getattr(self, part.name)) for part in fields(self)]
        arguments = [
            repr(value) if part.default is MISSING else f"{part.name}={value!r}"
            for part, value in shown
            if value != part.default
        ]
        return f"{type(self).__name__.lower()}({', '.join(arguments)})"


@final
@dataclass(frozen=True, repr=False)
class Uniform(Domain):
    """All numbers of a range, or those a whole number of steps from its start; see ``uniform``."""

    low: float
    high: float
    step: float | None = None

    @property
    def size(self) -> int | None:
        return None if self.step is None else round((self.high - self.low) / self.step) + 1

    def from_unit(self, u: float) -> float:
        if self.size is None:
            return between(self.low, self.high, u)
        return self._at(index_at(u, self.size))

    def grid(self, n: int) -> tuple[float, ...]:
        if self.size is None:
            return tuple(dict.fromkeys(between(self.low, self.high, u) for u in fractions(n)))
        return tuple(self._at(i) for i in spread(0, self.size - 1, n))

    def why_not(self, value: object) -> str | None:
        fault = outside(value, self.low, self.high)
        if fault or self.step is None or not isinstance(value, int | float):
            return fault
        off = abs(value - self._at(round((value - self.low) / self.step)))
        return f"is not {self.low} plus whole steps of {self.step}" if off > 1e-9 * self.step else None

    def _at(self, i: int) -> float:  # the last one is high itself, whatever the steps add up to
        return self.high if i + 1 == self.size else self.low + i * (self.step or 0.0)


@final
@dataclass(frozen=True, repr=False)
class LogUniform(Domain):
    """All numbers of a positive range, evenly by order of magnitude; see ``loguniform``."""

    low: float
    high: float

    @property
    def size(self) -> None:
        return None

    def from_unit(self, u: float) -> float:
        return between(self.low, self.high, u, log=True)

    def grid(self, n: int) -> tuple[float, ...]:
        return tuple(dict.fromkeys(map(self.from_unit, fractions(n))))

    def why_not(self, value: object) -> str | None:
        return outside(value, self.low, self.high)


@final
@dataclass(frozen=True, repr=False)
class Integers(Domain):
    """The whole numbers of a range, ends included; see ``integers``."""

    low: int
    high: int
    log: bool = False
    step: int = 1

    @property
    def size(self) -> int:
        return (self.high - self.low) // self.step + 1

    def from_unit(self, u: float) -> int:
        if self.log:  # each integer stands for the half unit on either side
            value = round(between(self.low - 0.5, self.high + 0.5, u, log=True))
            return min(max(value, self.low), self.high)
        return self.low + index_at(u, self.size) * self.step

    def grid(self, n: int) -> tuple[int, ...]:
        if self.log:
            return spread(self.low, self.high, n, log=True)
        return tuple(self.low + i * self.step for i in spread(0, self.size - 1, n))

    def why_not(self, value: object) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return f"is a {type(value).__name__}, not a whole number"
        off = (value - self.low) % self.step
        aside = f"is not {self.low} plus whole steps of {self.step}" if off else None
        return outside(value, self.low, self.high) or aside


@dataclass(frozen=True, repr=False)
class Listed(Domain):
    """A domain written down value by value. Values are the same only if their types are, too."""

    values: tuple[Value, ...] = field(compare=False)  # Python has True == 1 == 1.0, so keys are compared
    _keys: tuple[object, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_keys", tuple(key(value) for value in self.values))

    @property
    def size(self) -> int:
        return len(self.values)

    def from_unit(self, u: float) -> Value:
        return self.values[index_at(u, self.size)]

    def grid(self, n: int) -> tuple[Value, ...]:  # a list is never thinned
        return self.values

    def index(self, value: object) -> int:
        """Return the place of ``value`` in ``values``; raise ValueError if it has none."""
        return self._keys.index(key(value))

    def why_not(self, value: object) -> str | None:
        return None if key(value) in self._keys else f"is none of {', '.join(map(repr, self.values))}"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": type(self).__name__.lower(), "values": [encoded(value) for value in self.values]}

    def __repr__(self) -> str:
        return f"{type(self).__name__.lower()}({list(self.values)!r})"


@final
@dataclass(frozen=True, repr=False)
class Ordered(Listed):
    """One of several values in a meaningful order; see ``ordered``."""
