"""Spaces as samplers see them: a plain parameter for each stage of one that changes, and nothing unknown to them.

A configuration of the flat space has ``lr.from0`` and ``lr.from10`` where that of the space has
``lr=((0, 0.1), (10, 0.01))``. So every sampler handles such parameters, those of users as well, and a model sees each
stage for itself.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from etude.core.errors import SpaceError
from etude.core.events import Params
from etude.core.prefixes import Prefixes
from etude.tune.domains import Domain, Ordered
from etude.tune.spaces import Choice, Space, branches_of
from etude.tune.stages import Piecewise, Upto


@functools.lru_cache(maxsize=64)
def flat(space: Space) -> Space:
    """Return a space with a plain parameter for each stage; the same if there is none that has stages.

    Raises:
        SpaceError: A parameter has the name of a stage.

    Example:
        >>> from etude.tune.spaces import piecewise
        >>> flat(Space({"lr": piecewise([0.1, 0.01], starts=(0, 10)), "width": [32, 64]}))
        Space({'lr.from0': choice([0.1, 0.01]), 'lr.from10': choice([0.1, 0.01]), 'width': choice([32, 64])})
    """
    if not any(isinstance(domain, Piecewise | Upto) for _, domain in space.domains()):
        return space
    parameters: dict[str, Domain] = {}
    for name, domain in space.items():
        match domain:
            case Piecewise(domain=inner, starts=starts):
                stages: dict[str, Domain] = {_stage(name, start): inner for start in starts}
                taken = sorted(stages.keys() & set(space.names))
                if taken:
                    raise SpaceError(f"{taken[0]!r} is what samplers call a stage of {name!r}. Rename that parameter.")
                parameters |= stages
            case Upto(values=values):
                parameters[name] = Ordered(values)
            case Choice(values=values, branches=branches):
                parameters[name] = Choice(values, tuple(map(flat, branches)))
            case _:
                parameters[name] = domain
    return Space(parameters)


def folded(space: Space, params: Mapping[str, Any]) -> Params:
    """Return the configuration of a space that one of the flat space stands for.

    Example:
        >>> from etude.tune.spaces import piecewise
        >>> folded(Space({"lr": piecewise([0.1, 0.01], starts=(0, 10))}), {"lr.from0": 0.1, "lr.from10": 0.01})
        {'lr': ((0, 0.1), (10, 0.01))}
    """
    if flat(space) is space:
        return dict(params)

    def pick(path: str, domain: Domain) -> Any:
        name = path.rpartition("/")[2]
        if isinstance(domain, Piecewise):
            return domain.at([params[_stage(name, start)] for start in domain.starts])
        return params[name]

    return space.build(pick)


def unfolded(space: Space, params: Mapping[str, Any]) -> Params:
    """Return a configuration of a space as one of the flat space; what is no part of it stays.

    Example:
        >>> from etude.tune.spaces import piecewise
        >>> unfolded(Space({"lr": piecewise([0.1, 0.01], starts=(0, 10))}), {"lr": ((0, 0.1), (10, 0.01)), "depth": 3})
        {'lr.from0': 0.1, 'lr.from10': 0.01, 'depth': 3}
    """
    if flat(space) is space:
        return dict(params)
    staged = [(name, domain) for name, domain in space.domains() if isinstance(domain, Piecewise)]
    found: Params = {}
    for name, value in params.items():
        if any(name == known and domain.contains(value) for known, domain in staged):
            found |= {_stage(name, start): held for start, held in value}
        else:
            found[name] = value
    return found


def prefixes_of(space: Space) -> Prefixes | None:
    """Return how trials of a space may share their beginnings; None if nothing says that they do.

    Raises:
        SpaceError: Several parameters say how many epochs there are.
    """
    domains = list(space.domains())
    stepped = frozenset(name for name, domain in domains if isinstance(domain, Piecewise))
    budgets: dict[str, set[int]] = {}
    for name, domain in domains:
        if isinstance(domain, Upto):
            budgets.setdefault(name, set()).update(v for v in domain.values if isinstance(v, int))
    if len(budgets) > 1:
        raise SpaceError(
            f"{' and '.join(map(repr, budgets))} are both said to be how many epochs a trial has (etude.upto), and "
            "that is one number. Make the others plain lists."
        )
    if not stepped and not budgets:
        return None
    budget = next(iter(budgets), None)
    values = tuple(sorted(budgets[budget])) if budget is not None else ()
    return Prefixes(stepped, budget, values, recur=all(_has_ends(domain) for _, domain in domains))


def boundaries(space: Space) -> frozenset[int]:
    """Return the epochs after which trials of a space may part."""
    found: set[int] = set()
    for _, domain in space.domains():
        match domain:
            case Piecewise(starts=starts):
                found.update(starts[1:])
            case Upto(values=values):
                found.update(at for v in values if isinstance(v, int) for at in (v - 1, v) if at)
    return frozenset(found)


def _has_ends(domain: Domain) -> bool:
    return domain.size is not None or bool(branches_of(domain))


def _stage(name: str, start: int) -> str:
    return f"{name}.from{start}"
