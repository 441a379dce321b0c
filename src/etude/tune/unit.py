"""Where a configuration is in a space: each parameter from 0 to 1, so that distances mean something."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, Final

from etude.core.numbers import is_finite
from etude.tune.domains import Domain, Integers, LogUniform, Ordered, Uniform
from etude.tune.flat import flat, unfolded
from etude.tune.spaces import Choice, Space
from etude.tune.values import label

APART: Final = math.sqrt(0.5)
"""A choice has a coordinate for each of its values, this for the chosen one: two choices are 1 apart."""


def placed(space: Space, params: Mapping[str, Any]) -> dict[str, float]:
    """Return where a configuration is; a value beyond its domain is beyond 0 or 1.

    Parameters with one value, those that the configuration does not have, and values that are no number where the
    domain has numbers, have no place.

    Example:
        >>> from etude.tune.domains import loguniform
        >>> placed(Space({"lr": loguniform(0.01, 1.0), "opt": ["sgd", "adam"]}), {"lr": 0.1, "opt": "sgd"})
        {'lr': 0.5, 'opt=sgd': 0.7071067811865476, 'opt=adam': 0.0}
    """
    space, params = flat(space), unfolded(space, params)
    found: dict[str, float] = {}
    for name, domain in space.domains():
        if name not in params or domain.size == 1 or name in found:
            continue
        value = params[name]
        if isinstance(domain, Choice):
            for choice in domain.values:
                found[f"{name}={label(choice)}"] = APART if domain.contains(value) and choice == value else 0.0
        elif (place := _place(domain, value)) is not None:
            found[name] = place
    return found


def _place(domain: Domain, value: Any) -> float | None:
    match domain:
        case Ordered(values=values):
            return domain.index(value) / (len(values) - 1) if domain.contains(value) else None
        case Uniform(low=low, high=high) | Integers(low=low, high=high, log=False) if is_finite(value):
            return float((value - low) / (high - low))
        case LogUniform(low=low, high=high) | Integers(low=low, high=high) if is_finite(value):
            tiny = sys.float_info.min
            return (math.log(max(value, tiny)) - math.log(low)) / (math.log(high) - math.log(low))
    return None
