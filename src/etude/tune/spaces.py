"""What a search may vary: domains of single parameters, and spaces made of them.

A *domain* is the set of values of one parameter. A *space* gives each name a domain, and a
*configuration* is one flat dict out of it. A choice may carry parameters of its own, which occur
only where their branch was chosen, and then stand beside the choice:

    Space.of({"optimizer": choice({"sgd": {"momentum": uniform(0, 1)}, "adam": {}}), "width": [32, 64]})

    {"optimizer": "sgd", "momentum": 0.3, "width": 64}
    {"optimizer": "adam", "width": 32}

All of it is plain, hashable data. Whoever proposes configurations hands ``Space.build`` a function
that picks one value at a time; which parameters are active is decided here and nowhere else.
"""

# ruff: noqa: D102 - what the methods of domains do is said once, in Domain
from __future__ import annotations

import itertools
import keyword
import math
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Final, Protocol, TypeAlias, final

from etude.core.errors import SpaceError

Value: TypeAlias = "bool | int | float | str | tuple[Value, ...] | None"
"""What a parameter can be: plain, so that it can be compared, hashed, sent and written down."""

Pick: TypeAlias = "Callable[[str, Domain], Value]"
"""Picks a value for the parameter at a path, such as ``"optimizer=sgd/momentum"``."""

_LARGEST: Final = sys.float_info.max / 2  # so that the width of a range is a float as well


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
    low, high = _number(call, "low", low), _number(call, "high", high)
    _check_order(call, Uniform(high, low, step))
    if step is not None:
        step = _number(call, "step", step, positive=True)
        if step < 4 * math.ulp(max(abs(low), abs(high))):
            raise SpaceError(
                f"{call} has a step too small for floats to tell neighbours apart. Pass a larger step, or none."
            )
        steps = (high - low) / step
        if abs(steps - round(steps)) > max(1e-9, 4 * math.ulp(steps)):
            raise _misfit(call, low, high, step)
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
    low, high = _number(call, "low", low, positive=True), _number(call, "high", high, positive=True)
    _check_order(call, LogUniform(high, low))
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
    low = _number(call, "low", low, whole=True, positive=log)
    high = _number(call, "high", high, whole=True, positive=log)
    step = _number(call, "step", step, whole=True, positive=True)
    if log and step != 1:
        raise SpaceError(f"{call} has log and step, which contradict each other. Leave one of them out.")
    _check_order(call, Integers(high, low, log, step))
    if (high - low) % step:
        raise _misfit(call, low, high, step)
    return Integers(low, high, bool(log), step)


def choice(values: Sequence[Value] | Mapping[Any, Mapping[str, object]]) -> Choice:
    """Return a choice of one of ``values``, which have no order.

    Args:
        values: A list of plain values, or a mapping from each value to the parameters that exist
            only where it is chosen: ``{"sgd": {"momentum": uniform(0, 1)}, "adam": {}}``.

    Raises:
        SpaceError: There are no values, one stands there twice, or one is not plain.

    Example:
        >>> choice(["relu", "gelu", None]).contains("tanh")
        False
        >>> optimizer = choice({"sgd": {"momentum": uniform(0, 1)}, "adam": {}})
        >>> optimizer.sub_spaces["sgd"]
        Space({'momentum': uniform(0.0, 1.0)})
    """
    if isinstance(values, Mapping):
        return Choice(_listed("choice", list(values)), tuple(Space(branch) for branch in values.values()))
    return Choice(_listed("choice", values))


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
    return Ordered(_listed("ordered", values))


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

    @property
    def sub_spaces(self) -> Mapping[Value, Space]:
        """For each value that brings parameters of its own, their space."""
        return {}

    def contains(self, value: object) -> bool:
        """Say whether ``value`` belongs to the domain; types count, so True is not 1."""
        return self.why_not(value) is None

    def to_dict(self) -> dict[str, Any]:
        """Return this domain as plain data that survives JSON: its kind and its fields."""
        return {"kind": type(self).__name__.lower(), **vars(self)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Domain:
        """Return the domain that ``to_dict`` made ``data`` of; raise SpaceError if it was not that."""
        arguments = dict(data)
        try:
            if "values" in arguments:
                arguments["values"] = [_decoded(value) for value in arguments["values"]]
            if spaces := [Space.from_dict(branch) for branch in arguments.pop("branches", [])]:
                arguments["values"] = dict(zip(arguments["values"], spaces, strict=True))
            calls: list[Callable[..., Domain]] = [uniform, loguniform, integers, choice, ordered]
            return {call.__name__: call for call in calls}[arguments.pop("kind")](**arguments)
        except (KeyError, TypeError, ValueError) as error:
            raise SpaceError(
                f"{data!r} cannot be read as a domain: {error!r}. Read it with the Étude that wrote it."
            ) from error

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
            return _between(self.low, self.high, u)
        return self._at(_index(u, self.size))

    def grid(self, n: int) -> tuple[float, ...]:
        if self.size is None:
            return tuple(dict.fromkeys(_between(self.low, self.high, u) for u in _fractions(n)))
        return tuple(self._at(i) for i in _spread(0, self.size - 1, n))

    def why_not(self, value: object) -> str | None:
        fault = _outside(value, self.low, self.high)
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
        return _between(self.low, self.high, u, log=True)

    def grid(self, n: int) -> tuple[float, ...]:
        return tuple(dict.fromkeys(map(self.from_unit, _fractions(n))))

    def why_not(self, value: object) -> str | None:
        return _outside(value, self.low, self.high)


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
            value = round(_between(self.low - 0.5, self.high + 0.5, u, log=True))
            return min(max(value, self.low), self.high)
        return self.low + _index(u, self.size) * self.step

    def grid(self, n: int) -> tuple[int, ...]:
        if self.log:
            return _spread(self.low, self.high, n, log=True)
        return tuple(self.low + i * self.step for i in _spread(0, self.size - 1, n))

    def why_not(self, value: object) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return f"is a {type(value).__name__}, not a whole number"
        off = (value - self.low) % self.step
        aside = f"is not {self.low} plus whole steps of {self.step}" if off else None
        return _outside(value, self.low, self.high) or aside


@dataclass(frozen=True, repr=False)
class _Listed(Domain):
    """A domain written down value by value. Values are the same only if their types are, too."""

    values: tuple[Value, ...] = field(compare=False)  # Python has True == 1 == 1.0, so keys are compared
    _keys: tuple[object, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_keys", tuple(_key(value) for value in self.values))

    @property
    def size(self) -> int:
        return len(self.values)

    def from_unit(self, u: float) -> Value:
        return self.values[_index(u, self.size)]

    def grid(self, n: int) -> tuple[Value, ...]:  # a list is never thinned
        return self.values

    def index(self, value: object) -> int:
        """Return the place of ``value`` in ``values``; raise ValueError if it has none."""
        return self._keys.index(_key(value))

    def why_not(self, value: object) -> str | None:
        return None if _key(value) in self._keys else f"is none of {', '.join(map(repr, self.values))}"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": type(self).__name__.lower(), "values": [_encoded(value) for value in self.values]}

    def __repr__(self) -> str:
        return f"{type(self).__name__.lower()}({list(self.values)!r})"


@final
@dataclass(frozen=True, repr=False)
class Choice(_Listed):
    """One of several values without an order, each of which may bring a space; see ``choice``."""

    branches: tuple[Space, ...] = ()

    @property
    def sub_spaces(self) -> Mapping[Value, Space]:
        return dict(zip(self.values, self.branches, strict=True)) if self.branches else {}

    def to_dict(self) -> dict[str, Any]:
        branches = {"branches": [branch.to_dict() for branch in self.branches]} if self.branches else {}
        return {**super().to_dict(), **branches}

    def __repr__(self) -> str:
        branches = {label: dict(space) for label, space in self.sub_spaces.items()}
        return f"choice({branches})" if branches else super().__repr__()


@final
@dataclass(frozen=True, repr=False)
class Ordered(_Listed):
    """One of several values in a meaningful order; see ``ordered``."""


class Random(Protocol):
    """A source of numbers in [0, 1), such as ``random.Random`` or ``numpy.random.Generator``."""

    def random(self) -> float:
        """Return the next number."""
        ...


@final
@dataclass(frozen=True, init=False, repr=False)
class Space(Mapping[str, Domain]):
    """Domains by name, in an order that counts: a mapping that cannot change.

    Iteration and item access show the names that are not inside of a branch; ``names`` has all.

    Args:
        given: For each name a domain, a list (a choice) or a plain value (fixed). It may be empty,
            as a branch without parameters is; ``Space.of`` is the door for whole spaces.

    Raises:
        SpaceError: A name cannot be one or occurs twice, or what it stands for is no domain.
    """

    _parameters: tuple[tuple[str, Domain], ...]

    def __init__(self, given: Mapping[str, object]) -> None:
        if not isinstance(given, Mapping):
            raise SpaceError(
                f"{given!r} is a {type(given).__name__}, not a mapping from names to domains. "
                'Write {"lr": etude.loguniform(1e-4, 1.0)}, or {} for no parameters.'
            )
        parameters = tuple((_name(name), _domain(name, what)) for name, what in given.items())
        object.__setattr__(self, "_parameters", parameters)
        _check_collisions(self)

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Space:
        """Return the space that a user wrote down.

        Args:
            given: A space, or for each name a domain, a list (a choice) or a plain value (fixed).
                A name may be dotted: ``"optimizer.lr"``.

        Raises:
            SpaceError: It is empty, a name cannot be one or occurs twice, or something is no domain.

        Example:
            >>> Space.of({"lr": uniform(0, 1), "width": [32, 64], "optimizer.name": "sgd"})
            Space({'lr': uniform(0.0, 1.0), 'width': choice([32, 64]), 'optimizer.name': choice(['sgd'])})
        """
        space = given if isinstance(given, Space) else cls(given)
        if not space:
            raise SpaceError(
                "The space is empty, so there is nothing to search. "
                'Name at least one parameter, such as {"lr": etude.loguniform(1e-4, 1.0)}.'
            )
        return space

    def build(self, pick: Pick) -> dict[str, Value]:
        """Return the configuration that comes out if ``pick`` is asked for each active parameter.

        Args:
            pick: Gets the path of a parameter, which no other parameter has, and its domain;
                returns a value of that domain. It is asked in the order of the space.

        Raises:
            SpaceError: ``pick`` returned a value from outside of the domain.

        Example:
            >>> space = Space.of({"optimizer": choice({"sgd": {"momentum": uniform(0, 1)}, "adam": {}})})
            >>> space.build(lambda path, domain: print(path) or domain.from_unit(0))
            optimizer
            optimizer=sgd/momentum
            {'optimizer': 'sgd', 'momentum': 0.0}
        """
        return self._picked(pick, prefix="")

    def sample(self, rng: Random) -> dict[str, Value]:
        """Return a random configuration; draws exactly one number from ``rng`` per active parameter."""
        return self.build(lambda _, domain: domain.from_unit(rng.random()))

    def grid(self, n: int) -> Iterator[dict[str, Value]]:
        """Return all combinations of at most ``n`` spread values per number, and all values of choices.

        Raises:
            SpaceError: ``n`` is below 1.

        Example:
            >>> list(Space.of({"lr": uniform(0, 1), "width": [32, 64]}).grid(2))[:3]
            [{'lr': 0.0, 'width': 32}, {'lr': 0.0, 'width': 64}, {'lr': 1.0, 'width': 32}]
        """
        if n < 1:
            raise SpaceError(f"A grid of n={n} points per parameter has no points at all. Pass n of at least 1.")
        return self._combined(n)

    def contains(self, params: Mapping[str, Any]) -> bool:
        """Say whether ``params`` is a configuration of this space."""
        return self.why_not(params) is None

    def why_not(self, params: Mapping[str, Any]) -> str | None:
        """Return the first reason why ``params`` is no configuration of this space, or None.

        Example:
            >>> Space.of({"lr": uniform(0, 1)}).why_not({"lr": 2.0})
            'lr=2.0 is above 1.0'
        """
        active: set[str] = set()
        fault = self._fault(params, active)
        return fault or next((self._stray(name, params) for name in params if name not in active), None)

    @property
    def size(self) -> int | None:
        """The number of different configurations, or None if there is no end to them."""
        total = 1
        for _, domain in self._parameters:
            sizes = [space.size for space in domain.sub_spaces.values()] or [domain.size]
            finite = [size for size in sizes if size is not None]
            if len(finite) < len(sizes):
                return None
            total *= sum(finite)
        return total

    @property
    def names(self) -> tuple[str, ...]:
        """All names that can occur, each once, in the order of the space."""
        return tuple(dict.fromkeys(name for name, _ in self.domains()))

    @property
    def always(self) -> frozenset[str]:
        """The names that occur in every configuration."""
        branching = [d.sub_spaces.values() for _, d in self._parameters if d.sub_spaces]
        return frozenset(self).union(*(frozenset.intersection(*(b.always for b in bs)) for bs in branching))

    def domains(self) -> Iterator[tuple[str, Domain]]:
        """Yield every name with every domain it has, including those inside of branches."""
        for name, domain in self._parameters:
            yield name, domain
            for space in domain.sub_spaces.values():
                yield from space.domains()

    def to_dict(self) -> dict[str, Any]:
        """Return this space as plain data that survives JSON, its order included."""
        return {"parameters": [[name, domain.to_dict()] for name, domain in self._parameters]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Space:
        """Return the space that ``to_dict`` made ``data`` of; raise SpaceError if it was not that."""
        try:
            parameters = {name: Domain.from_dict(domain) for name, domain in data["parameters"]}
        except (KeyError, TypeError, ValueError) as error:
            raise SpaceError(
                f"{data!r} cannot be read as a space: {error!r}. Read it with the Étude that wrote it."
            ) from error
        return cls(parameters)

    def __getitem__(self, name: str) -> Domain:
        return dict(self._parameters)[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __repr__(self) -> str:
        return f"Space({dict(self._parameters)})"

    def _picked(self, pick: Pick, *, prefix: str) -> dict[str, Value]:
        config: dict[str, Value] = {}
        for name, domain in self._parameters:
            value = config[name] = pick(prefix + name, domain)
            if fault := domain.why_not(value):
                raise SpaceError(
                    f"{prefix}{name} was picked as {value!r}, which {fault}. "
                    f"Whoever picks, such as a sampler, must return a value of {domain}."
                )
            if branch := domain.sub_spaces.get(value):
                config |= branch._picked(pick, prefix=f"{prefix}{name}={_label(value)}/")
        return config

    def _combined(self, n: int) -> Iterator[dict[str, Value]]:
        columns: list[list[dict[str, Value]]] = []
        for name, domain in self._parameters:
            branches = [(value, domain.sub_spaces.get(value)) for value in domain.grid(n)]
            columns.append(
                [{name: v, **rest} for v, branch in branches for rest in (branch._combined(n) if branch else [{}])]
            )
        for row in itertools.product(*columns):
            yield {name: value for part in row for name, value in part.items()}

    def _fault(self, params: Mapping[str, Any], active: set[str]) -> str | None:
        """Return what is wrong with the active parameters, whose names are added to ``active``."""
        for name, domain in self._parameters:
            if name not in params:
                return f"{name} is missing"
            value = params[name]
            if fault := domain.why_not(value):
                return f"{name}={value!r} {fault}"
            active.add(name)
            branch = domain.sub_spaces.get(value)
            if branch and (fault := branch._fault(params, active)):
                return fault
        return None

    def _stray(self, name: str, params: Mapping[str, Any]) -> str:
        """Return why ``name``, which is not active in the otherwise faultless ``params``, is out of place."""
        for parent, domain in self._parameters:
            homes = [label for label, space in domain.sub_spaces.items() if name in space.names]
            if homes and params[parent] in homes:
                return domain.sub_spaces[params[parent]]._stray(name, params)
            if homes:
                wanted = " or ".join(f"{parent}={label!r}" for label in homes)
                return f"{name} belongs to {wanted}, but {parent} is {params[parent]!r}"
        return f"{name} is not in the space, which has {', '.join(self.names)}"


def _number(call: str, name: str, value: Any, *, whole: bool = False, positive: bool = False) -> Any:
    """Return ``value`` as the float, or if ``whole`` the int, that it is."""
    if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
        wanted, other = ("a whole number", "etude.uniform") if whole else ("a number", "etude.choice")
        raise SpaceError(
            f"{call} has {name}={value!r}, a {type(value).__name__}, where {wanted} belongs. "
            f"Pass {wanted}, or use {other}."
        )
    number: int | float = int(value) if isinstance(value, Integral) else float(value)
    if not abs(number) <= _LARGEST:  # so written, it catches NaN as well
        raise SpaceError(
            f"{call} has {name}={value!r}, and nothing can be drawn evenly from a range without an end. "
            "Pass a finite number."
        )
    if positive and number <= 0:
        why = "never leads from low to high" if name == "step" else "has no logarithm"
        raise SpaceError(f"{call} has {name}={value!r}, which {why}. Pass a {name} above 0.")
    return number if whole else float(number)


def _check_order(call: str, swapped: Uniform | LogUniform | Integers) -> None:
    """Refuse bounds that are equal or reversed; ``swapped`` is the domain with its bounds exchanged."""
    if swapped.low == swapped.high:
        raise SpaceError(
            f"{call} has equal bounds, so there is nothing to search. "
            f"For a fixed value write the value itself: {swapped.low!r}."
        )
    if swapped.low < swapped.high:
        raise SpaceError(f"{call} has its bounds reversed, so no value lies between them. Write {swapped}.")


def _misfit(call: str, low: float, high: float, step: float) -> SpaceError:
    """Return the error for a step that does not lead to ``high``, with the highs that it leads to."""
    below = low + (high - low) // step * step
    fitting = [h if isinstance(h, int) else float(f"{h:.12g}") for h in (below, below + step) if h > low]
    return SpaceError(
        f"{call} has a step that does not fit: no whole number of steps leads from {low} to {high}. "
        f"Pass {' or '.join(f'high={h}' for h in fitting)}, or another step."
    )


def _listed(kind: str, values: object) -> tuple[Value, ...]:
    """Return the plain, distinct values that were listed for a domain of this kind."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise SpaceError(
            f"{kind}({values!r}) is given a {type(values).__name__}, not a list. "
            + _mend(values, f"Write a list, such as {kind}([1, 2]).")
        )
    if not values:
        raise SpaceError(f"{kind}([]) has no values, so none can be picked. List at least one.")
    plain = tuple(_plain(value) for value in values)
    counts = Counter(map(_key, plain))
    for value in plain:
        if counts[_key(value)] > 1:
            raise SpaceError(f"{kind}({list(plain)!r}) has {value!r} more than once, which would favour it. Leave one.")
    return plain


def _plain(value: Any) -> Value:
    """Return ``value``, which is None, a bool, an int, a finite float, a str or a tuple of such."""
    if isinstance(value, float) and not math.isfinite(value):
        raise SpaceError(
            f"The value {value!r} cannot be written to a study's journal. "
            f"Choose by a label, such as {str(value)!r}, and convert it inside the function."
        )
    if type(value) is tuple:
        return tuple(_plain(part) for part in value)
    if value is None or type(value) in (bool, int, float, str):
        return value  # type: ignore[no-any-return]
    raise SpaceError(
        f"The value {value!r} is of type {type(value).__name__!r}, which is not plain "
        "(None, bool, int, float, str, or a tuple of those). "
        + _mend(value, "Choose by a label, such as its name, and build the object inside the function.")
    )


def _mend(given: object, otherwise: str) -> str:
    """Return the advice for something that is nearly right, or else the advice ``otherwise``."""
    if isinstance(given, range) and len(given) > 1 and given.step > 0:
        return f"Write etude.{Integers(given[0], given[-1], step=given.step)}."
    if isinstance(given, set | frozenset):
        return "Write a list, which has the same order in every run."
    if hasattr(given, "tolist"):
        return "Call its .tolist()."
    return "Write a tuple." if isinstance(given, list) else otherwise


def _name(name: object) -> str:
    """Return ``name``, which can be the name of a parameter."""
    if isinstance(name, str) and all(part.isidentifier() for part in name.split(".")):
        return name
    raise SpaceError(
        f"{name!r} cannot be the name of a parameter, since no function could ask for it. "
        "Write an identifier, or several joined by dots: 'lr', 'optimizer.lr'."
    )


def _domain(name: str, given: object) -> Domain:
    """Return the domain that ``given`` stands for in a space."""
    try:
        if isinstance(given, Domain):
            return given
        if isinstance(given, list):
            return choice(given)
        if isinstance(given, Mapping):
            raise SpaceError(
                "A mapping is no domain, since a configuration is flat. "
                f'Write dots ("{name}.lr"), or wrap it in etude.choice if its keys are alternatives.'
            )
        if isinstance(given, range | set | frozenset):
            raise SpaceError(f"{given!r} is no domain. " + _mend(given, "Write a list."))
        return choice([given])  # type: ignore[list-item]
    except SpaceError as error:
        raise SpaceError(f"{name}: {error}") from None


def _check_collisions(space: Space) -> None:
    """Refuse a name inside of a branch that something outside of that choice has as well."""
    taken = set(space)
    for parent, domain in space.items():
        inner = {name for branch in domain.sub_spaces.values() for name in branch.names}
        for name in sorted(inner & taken):
            raise SpaceError(
                f"{name!r} is in a branch of {parent!r} and outside of it as well. "
                "A configuration is flat, so it has room for one of them. Rename one."
            )
        taken |= inner


def _key(value: object) -> object:
    """Return what is equal for the same values only: Python has True == 1 == 1.0."""
    return (tuple, *map(_key, value)) if isinstance(value, tuple) else (type(value), value)


def _label(value: Value) -> str:
    """Return ``value`` as part of a path: names as they are, everything else unmistakably quoted."""
    bare = isinstance(value, str) and value.isidentifier() and not keyword.iskeyword(value)
    return str(value) if bare else repr(value)


def _encoded(value: Value) -> Any:
    return {"tuple": [_encoded(part) for part in value]} if isinstance(value, tuple) else value


def _decoded(data: Any) -> Value:
    return tuple(_decoded(part) for part in data["tuple"]) if isinstance(data, dict) else data


def _outside(value: object, low: float, high: float) -> str | None:
    """Return how ``value`` misses the range from ``low`` to ``high``, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"is a {type(value).__name__}, not a number"
    if low <= value <= high:
        return None
    return f"is below {low}" if value < low else f"is above {high}" if value > high else "is not a number"


def _between(low: float, high: float, u: float, *, log: bool = False) -> float:
    """Return the number at ``u`` in [0, 1] from ``low`` to ``high``: exact at the ends, never outside."""
    value = low ** (1 - u) * high**u if log else low * (1 - u) + high * u
    return min(max(value, low), high)


def _index(u: float, size: int) -> int:
    """Return the place of ``u`` in [0, 1) among ``size`` equal parts."""
    return min(int(u * size), size - 1)  # rounding could reach the size itself


def _fractions(n: int) -> list[float]:
    """Return ``n`` evenly spread numbers from 0 to 1; a single one lies in the middle."""
    return [i / (n - 1) for i in range(n)] if n > 1 else [0.5]


def _spread(low: int, high: int, n: int, *, log: bool = False) -> tuple[int, ...]:
    """Return ``n`` distinct whole numbers from ``low`` to ``high``, or all of them if there are fewer."""
    n = min(n, high - low + 1)
    spread: list[int] = []
    for i, u in enumerate(_fractions(n)):
        lowest = spread[-1] + 1 if spread else low
        spread.append(min(max(round(_between(low, high, u, log=log)), lowest), high - (n - 1 - i)))
    return tuple(spread)
