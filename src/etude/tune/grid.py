"""The grid: every combination, each once, and then the end."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final, final

from etude.core.events import Params
from etude.core.numbers import whole
from etude.core.streams import stream
from etude.tune.domains import Domain, Listed
from etude.tune.sampler import Request, Told
from etude.tune.spaces import Space, branches_of
from etude.tune.values import Value

MOST_POINTS: Final = 1_000_000
"""A grid with more points is refused: nobody would wait for its end."""


@final
@dataclass
class Grid:
    """Try every combination of the space once, those inside of branches included, and stop.

    The order is shuffled by the seed of the search. So whoever stops a grid half-way, or runs only so many ``trials``
    of it, has an even sample of the whole, with all values of every parameter in it; in the order of the space it
    would be all values of the last parameter, and only the first value of the first.

    Args:
        points: How many values of a number are tried, evenly spread with both ends (by order of magnitude where the
            domain is), or all it has if there are fewer. None: all values, which a continuum does not have. Lists are
            never thinned.

    Example:
        >>> from etude import integers, uniform
        >>> Grid().size(Space.of({"width": [32, 64], "depth": integers(1, 5)}))
        10
        >>> Grid(points=3).size(Space.of({"drop": uniform(0, 1), "depth": integers(1, 5)}))
        9
    """

    points: int | None = None

    def __post_init__(self) -> None:
        if self.points is not None:
            self.points = whole("points", self.points, 1, "it counts the values of each number")
        self._shuffled: tuple[int, ...] = ()
        self._shuffled_for: tuple[int, int] | None = None

    def needs_process(self, k: int) -> bool:
        """Return False: a point depends on its number alone."""
        return False

    def recalls(self) -> bool:
        """Return False."""
        return False

    def why_not(self, space: Space, metrics: int) -> str | None:
        """Return which numbers are too many."""
        if self.points is None:
            endless = [name for name, domain in space.domains() if domain.size is None]
            if endless:
                return f"{endless[0]!r} is a continuum; say how many of its values to try: sampler=etude.Grid(points=5)"
        size = self.size(space) or 0
        if size > MOST_POINTS:
            thin = "sampler=etude.Grid(points=5)" if self.points is None else f"with fewer points than {self.points}"
            return f"it would have {size:,} points, and {MOST_POINTS:,} are the most; thin its numbers: {thin}"
        return None

    def size(self, space: Space) -> int | None:
        """Return how many points there are; None if a continuum has no end of them."""
        total = 1
        for domain in space.values():
            column = self._column(domain)
            if column is None:
                return None
            total *= column
        return total

    def tell(self, told: Told) -> None:
        """Forget it."""

    def suggest(self, request: Request) -> Params:
        """Return point ``k``. Another one in its place would be missing later, so a redraw is the same."""
        size = self.size(request.space)
        assert size is not None, "such a space was refused"
        order = self._order(request.seed, size)
        return self._at(request.space, order[request.k % size])  # beyond the end after trials that came first

    def _order(self, seed: int, size: int) -> tuple[int, ...]:
        if self._shuffled_for != (seed, size):
            draw = stream(seed, "grid").random
            keys = [draw() for _ in range(size)]  # and not shuffle(), which may differ between versions of Python
            self._shuffled = tuple(sorted(range(size), key=keys.__getitem__))
            self._shuffled_for = (seed, size)
        return self._shuffled

    def _at(self, space: Space, index: int) -> Params:
        """Return a point by its place in the order of the space, where the last parameter changes fastest."""
        parts: list[Params] = []
        for name, domain in reversed(list(space.items())):
            column = self._column(domain)
            assert column is not None
            index, place = divmod(index, column)
            parts.append(self._picked(name, domain, place))
        return {name: value for part in reversed(parts) for name, value in part.items()}

    def _picked(self, name: str, domain: Domain, place: int) -> Params:
        branches = branches_of(domain)
        if not branches:
            return {name: _values(domain, self.points)[place]}
        for value, branch in branches.items():
            size = self.size(branch) or 0
            if place < size:
                return {name: value, **self._at(branch, place)}
            place -= size
        raise AssertionError("a place within the column")

    def _column(self, domain: Domain) -> int | None:
        """Return how many values a parameter has, with all that its branches bring."""
        if branches := branches_of(domain):
            sizes = [self.size(branch) for branch in branches.values()]
            return None if None in sizes else sum(size for size in sizes if size is not None)
        most = domain.size if self.points is None or isinstance(domain, Listed) else self.points
        return most if most is None or most > MOST_POINTS else len(_values(domain, self.points))


@functools.lru_cache(maxsize=256)
def _values(domain: Domain, points: int | None) -> tuple[Value, ...]:
    """Return the values of a domain without branches that a grid has."""
    return domain.grid(points or domain.size or 0)
