"""Quasi-Monte Carlo: draws that keep their distance from each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from etude.core.events import Params
from etude.core.streams import stream_seed
from etude.tune.sampler import Request, Told, not_installed
from etude.tune.spaces import Space, branches_of
from etude.tune.values import label

MOST_COORDINATES: Final = 21_201
"""A Sobol sequence has no more, for want of numbers to direct them."""


@final
@dataclass
class QMC:
    """Draw from a scrambled Sobol sequence, which fills the space more evenly than random draws do.

    Every parameter of the space that has several values has a coordinate of its own, those inside of branches included,
    whether or not they are active. A power of two of trials is most even. It needs scipy.

    Source:
        Owen 1998, "Scrambling Sobol' and Niederreiter-Xing Points"; the implementation is ``scipy.stats.qmc.Sobol``.
        Our departure: a configuration that was taken already, as happens where there are few, is drawn at random.
    """

    def __post_init__(self) -> None:
        self._sequence: Any = None
        self._key: tuple[int, int] | None = None  # seed and number of coordinates
        self._next = 0

    def needs_process(self, k: int) -> bool:
        """Return True: a draw depends on its number alone, but scipy takes its time to be imported."""
        return True

    def recalls(self) -> bool:
        """Return False."""
        return False

    def why_not(self, space: Space, metrics: int) -> str | None:
        """Return what is missing."""
        if (found := len(list(coordinates(space)))) > MOST_COORDINATES:
            return f"the space has {found:,} parameters, and {MOST_COORDINATES:,} are the most"
        return not_installed(("scipy",), extra="qmc")

    def tell(self, told: Told) -> None:
        """Forget it."""

    def suggest(self, request: Request) -> Params:
        """Return point ``k`` of the sequence."""
        paths = list(coordinates(request.space))
        if request.redraw or not paths:
            return request.space.sample(request.stream())
        point = dict(zip(paths, self._point(request.seed, len(paths), request.k), strict=True))
        return request.space.build(lambda path, domain: domain.from_unit(point.get(path, 0.0)))

    def _point(self, seed: int, coordinates: int, k: int) -> Sequence[float]:
        if self._key != (seed, coordinates) or k < self._next:
            import numpy as np
            from scipy.stats.qmc import Sobol

            generator = np.random.default_rng(stream_seed(seed, "qmc"))
            self._sequence = Sobol(coordinates, scramble=True, rng=generator)
            self._key, self._next = (seed, coordinates), 0
        if k > self._next:
            self._sequence.fast_forward(k - self._next)
        self._next = k + 1
        drawn: list[float] = self._sequence.random(1)[0].tolist()
        return drawn


def coordinates(space: Space, prefix: str = "") -> Iterator[str]:
    """Yield the path of every parameter that has several values, as ``Space.build`` says it, active or not."""
    for name, domain in space.items():
        if domain.size != 1:
            yield prefix + name
        for value, branch in branches_of(domain).items():
            yield from coordinates(branch, f"{prefix}{name}={label(value)}/")
