"""What a search varied, as columns of plain numbers: the space that its journal has, and its trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from etude.analyse.columns import Column
from etude.core.errors import SpaceError
from etude.tune.domains import Domain, Integers, LogUniform, Ordered, Uniform
from etude.tune.flat import flat, unfolded
from etude.tune.spaces import Choice, Space
from etude.tune.values import label


def columns_of(question: Mapping[str, Any], params: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Return a column for each parameter that a search varied; none if what was asked has no space, or one of others.

    Args:
        question: What was asked, as the journal has it.
        params: The configurations, a row for each.
    """
    try:
        whole = Space.from_dict(question["space"])
    except (KeyError, TypeError, SpaceError):  # of a later version, with domains that are not known here
        return ()
    space = flat(whole)
    rows = [_row(space, unfolded(whole, one)) for one in params]
    domains: dict[str, Domain] = {}
    for row in rows:
        domains |= {path: domain for path, (domain, _) in row.items()}
    return tuple(_column(path, domain, [row.get(path) for row in rows]) for path, domain in domains.items())


def _row(space: Space, params: Mapping[str, Any]) -> dict[str, tuple[Domain, Any]]:
    """Return domain and value of each parameter of a configuration that has more than one value, by path."""
    found: dict[str, tuple[Domain, Any]] = {}

    def pick(path: str, domain: Domain) -> Any:
        value = params[path.rpartition("/")[2]]
        if domain.size != 1:
            found[path] = (domain, value)
        return value

    try:
        space.build(pick)
    except (KeyError, SpaceError):  # it is no configuration of this space: one that was given to start with
        return {}
    return found


def _column(path: str, domain: Domain, row: Sequence[tuple[Domain, Any] | None]) -> Column:
    import numpy as np

    values = [one[1] if one is not None else None for one in row]
    places = np.array([_place(domain, one[1]) if one is not None else math.nan for one in row], dtype=np.float64)
    labels = tuple(label(value) for value in domain.values) if isinstance(domain, Choice) else ()
    uneven = isinstance(domain, Integers) and domain.log
    return Column(path, places, values, labels, None if uneven else domain.size)


def _place(domain: Domain, value: Any) -> float:
    """Return where a value lies: of a choice the number of its value, else the place that ``from_unit`` finds it at."""
    found = math.nan
    match domain:
        case Choice():
            found = domain.index(value)
        case Ordered(values=values):
            found = (domain.index(value) + 0.5) / len(values)
        case Integers(low=low, high=high, log=True):
            found = _by_magnitude(value, low - 0.5, high + 0.5)
        case LogUniform(low=low, high=high):
            found = _by_magnitude(value, low, high)
        case Integers(low=low, step=step) | Uniform(low=low, step=float(step)):
            found = (round((value - low) / step) + 0.5) / (domain.size or 1)
        case Uniform(low=low, high=high):
            found = (value - low) / (high - low)
    return float(found)


def _by_magnitude(value: float, low: float, high: float) -> float:
    return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
