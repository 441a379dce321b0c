"""Several searches whose trials take turns in one study: a sampler for each, which knows nothing of the others.

Whose turn it is hangs on the number of a trial alone. All searches draw from the same streams, so that those that look
for the same begin with the same configurations.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, final

import msgspec

from etude.core.events import Params
from etude.tune import sampler as one
from etude.tune.domains import Domain
from etude.tune.flat import flat
from etude.tune.sampler import Request, Sampler, Told
from etude.tune.spaces import Choice, Space, branches_of


@final
class Separate:
    """Proposes for several searches.

    Args:
        sampler: What proposes; each search has one like it.
        spaces: What each of them may propose.
        order: For each trial, from the first one of the study on, the place of the search that it is of. Of later
            trials nothing is asked, and nothing is learned.
    """

    def __init__(self, sampler: Sampler, spaces: Sequence[Space], order: Sequence[int]) -> None:
        self._samplers = [copy.deepcopy(sampler) for _ in spaces]
        self._spaces = tuple(spaces)
        had = [0] * len(spaces)
        places = []
        for place in order:
            places.append((place, had[place]))
            had[place] += 1
        self._places = tuple(places)

    def space_of(self, k: int, space: Space) -> Space:
        """Return what trial ``k`` is a configuration of, as far as it is searched."""
        return self._spaces[self._places[k][0]] if k < len(self._places) else space

    def needs_process(self, k: int) -> bool:
        """Say whether proposal ``k`` hangs on what earlier ones of its search came to."""
        if k >= len(self._places):
            return False
        place, nth = self._places[k]
        return one.needs_process(self._samplers[place], nth)

    def recalls(self) -> bool:
        """Say whether proposals hang on earlier proposals."""
        return any(map(one.recalls, self._samplers))

    def tell(self, told: Told) -> None:
        """Tell the search that a trial is of; not of a configuration that it could not have proposed itself."""
        if told.trial >= len(self._places):
            return
        place, nth = self._places[told.trial]
        space = flat(self._spaces[place])
        params = {name: value for name, value in told.params.items() if name in space.names}
        if space.contains(params):
            mine = msgspec.structs.replace(told, trial=nth, params=params, losses=told.losses[:1])
            self._samplers[place].tell(mine)

    def suggest(self, request: Request) -> Params:
        """Ask the search that a trial is of; it goes by the main metric."""
        place, nth = self._places[request.k]
        return self._samplers[place].suggest(msgspec.structs.replace(request, k=nth, metrics=1))


def without(space: Space, given: Mapping[str, Any]) -> Space:
    """Return what is left to search once some parameters have their values; it may be nothing.

    Of a choice that has its value, the parameters of that branch are left.

    Example:
        >>> from etude.tune.spaces import choice, uniform
        >>> space = Space({"optimizer": choice({"sgd": {"momentum": uniform(0, 1)}, "adam": {}}), "width": [32, 64]})
        >>> without(space, {"optimizer": "sgd"})
        Space({'momentum': uniform(0.0, 1.0), 'width': choice([32, 64])})
        >>> without(space, {"width": 16, "momentum": 0.9})
        Space({'optimizer': choice(['sgd', 'adam'])})
    """
    left: dict[str, Domain] = {}
    for name, domain in space.items():
        branches = branches_of(domain)
        if name in given:
            for value, branch in branches.items():
                left |= dict(without(branch, given)) if value == given[name] else {}
        elif branches:
            rest = tuple(without(branch, given) for branch in branches.values())
            left[name] = Choice(tuple(branches), rest if any(rest) else ())
        else:
            left[name] = domain
    return Space(left)
