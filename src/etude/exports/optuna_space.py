"""Configurations as Optuna has them: a value and a distribution for each parameter.

A domain of the study's space is the distribution that says the same. A parameter without one, such as those of a final
training, has the range or the list of what its trials have. A name that stands for different domains in different
branches of a choice is written with its branch, since Optuna has one domain for each name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from etude.core.errors import SpaceError
from etude.core.events import Params
from etude.exports.names import fitted, renamed
from etude.exports.told import Study
from etude.tune.domains import Domain, Integers, Listed, LogUniform, Uniform
from etude.tune.flat import flat, unfolded
from etude.tune.spaces import Space
from etude.tune.values import key

WHOLE: Final = 2**53
"""Optuna keeps numbers as floats: whole ones from here on are written as texts."""

LONGEST: Final = 512
"""Letters of a name in Optuna's databases."""

Configuration = tuple[dict[str, Any], dict[str, BaseDistribution]]
"""Values and distributions by name."""


class Configurations:
    """The configurations of a study's trials.

    Attributes:
        notes: What is to be told of them.
    """

    def __init__(self, study: Study) -> None:
        self._space = study.space if study.space is not None else Space({})
        self._flat = flat(self._space)
        self._several = _several(self._flat)
        self._known: dict[tuple[str, Domain], _Column] = {}
        self._rows = [self._row(trial.params) for trial in study.trials]
        seen: dict[str, list[Any]] = {}
        for row in self._rows:
            for name, (domain, value) in row.items():
                if domain is None:
                    seen.setdefault(name, []).append(value)
        self._free = {name: _seen(values) for name, values in seen.items()}
        self._names = fitted((name for row in self._rows for name in row), lambda name: name[:LONGEST])
        self.notes = tuple(self._told())

    def of(self, number: int) -> Configuration:
        """Return that of a trial."""
        values: dict[str, Any] = {}
        distributions: dict[str, BaseDistribution] = {}
        for name, (domain, value) in self._rows[number].items():
            column = self._free[name] if domain is None else self._column(name, domain)
            values[self._names[name]] = column.inner(value)
            distributions[self._names[name]] = column.distribution
        return values, distributions

    def _row(self, params: Params) -> dict[str, tuple[Domain | None, Any]]:
        """Return domain and value of each parameter by the name that it has at Optuna; no domain for what has none."""
        rest = unfolded(self._space, params)
        found: dict[str, tuple[Domain | None, Any]] = {}

        def pick(path: str, domain: Domain) -> Any:
            name = path.rpartition("/")[2]
            value = rest[name]
            found[path if name in self._several else name] = (domain if _fits(domain, value) else None, value)
            return value

        try:
            self._flat.build(pick)
        except (KeyError, SpaceError):  # it is no configuration of the space: one that was given
            found.clear()
        named = {name.rpartition("/")[2] for name in found}
        return {**found, **{name: (None, value) for name, value in rest.items() if name not in named}}

    def _column(self, name: str, domain: Domain) -> _Column:
        column = self._known.get((name, domain))
        if column is None:
            column = self._known[name, domain] = _of_domain(domain)
        return column

    def _told(self) -> Iterator[str]:
        yield from renamed(self._names, "parameter", target="Optuna")
        as_text = {name for name, column in self._free.items() if column.as_text}
        for row in self._rows:
            as_text |= {name for name, (domain, _) in row.items() if domain and self._column(name, domain).as_text}
        if as_text:
            told = ", ".join(map(repr, sorted(as_text)))
            yield f"Optuna does not take every value as a choice, so there some are texts, among those of {told}."


class _Column:
    """A parameter at Optuna: its distribution, and how its values are written there."""

    def __init__(self, distribution: BaseDistribution, inner: Callable[[Any], Any], *, as_text: bool = False) -> None:
        self.distribution = distribution
        self.inner = inner
        self.as_text = as_text


def _several(space: Space) -> frozenset[str]:
    """Return the names that stand for more than one domain."""
    domains: dict[str, set[Domain]] = {}
    for name, domain in space.domains():
        domains.setdefault(name, set()).add(domain)
    return frozenset(name for name, found in domains.items() if len(found) > 1)


def _fits(domain: Domain, value: Any) -> bool:
    """Say whether Optuna can have this value as one of a number's range; a list it can always have."""
    return isinstance(domain, Listed) or not isinstance(value, int) or abs(value) < WHOLE


def _of_domain(domain: Domain) -> _Column:
    match domain:
        case Integers(low=low, high=high, log=log, step=step):
            return _Column(IntDistribution(low, high, log=log, step=step), int)
        case LogUniform(low=low, high=high):
            return _Column(FloatDistribution(low, high, log=True), float)
        case Uniform(low=low, high=high, step=step):
            return _Column(_stepped(low, high, step), float)
        case Listed(values=values):
            return _listed(values)
    raise AssertionError(f"no domain of a flat space: {domain!r}")


def _stepped(low: float, high: float, step: float | None) -> FloatDistribution:
    """Return a range with its steps, or without where Optuna, which counts in decimals, would not come to its end."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return FloatDistribution(low, high, step=step)
    except (UserWarning, ValueError):
        return FloatDistribution(low, high)


def _seen(values: Sequence[Any]) -> _Column:
    """Return what a parameter without a domain is, by all values that there are."""
    if all(type(value) is int and abs(value) < WHOLE for value in values):
        return _Column(IntDistribution(min(values), max(values)), int)
    if all(type(value) is float or (type(value) is int and abs(value) < WHOLE) for value in values):
        return _Column(FloatDistribution(float(min(values)), float(max(values))), float)
    return _listed(list({key(value): value for value in values}.values()))


def _listed(values: Sequence[Any]) -> _Column:
    """Return a list of choices: what Optuna has no form for is a text, and all are where two would be the same."""
    choices = [value if _is_plain(value) else repr(value) for value in values]
    if len(set(choices)) < len(choices):  # Python has True == 1 == 1.0
        choices = [repr(value) for value in values]
    inner: Mapping[object, Any] = {key(value): choice for value, choice in zip(values, choices, strict=True)}
    as_text = any(key(choice) not in inner for choice in choices)
    return _Column(CategoricalDistribution(choices), lambda value: inner[key(value)], as_text=as_text)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | float | str) or (isinstance(value, int) and abs(value) < WHOLE)
