"""What values of a parameter come to on average, and in two parameters at once, with intervals.

There are two means. The plain one is over the trials that have the value: right where all configurations were drawn at
random. Where a sampler went for what looked good, values that it liked stand beside better configurations than others.
The corrected one is what a forest says with all other parameters averaged over the space, where no place counts more
for having been tried more often. It is as good as the forest: where nothing was tried, it guesses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from etude.analyse.columns import Column, cell_names, cells
from etude.analyse.forest import Forest
from etude.analyse.table import aligned
from etude.core.errors import ConfigError
from etude.core.text import count

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

FOREST_RESAMPLES: Final = 30
RESAMPLES: Final = 2_000
INSIDE: Final = 8
"""A cell of numbers is represented by so many places in it."""

TREES: Final = 32
FEWEST: Final = 10
LEAST_INTERVAL: Final = 5
"""With fewer trials in a cell its plain mean has no interval."""


@dataclass(frozen=True)
class Effect:
    """What trials with a value come to.

    Attributes:
        values: The value in words, or one of each parameter.
        n: How many trials have it.
        mean: Of these.
        low: Lower end of the 95 % interval of the mean, by a bootstrap over these trials; NaN of fewer than five.
        high: Upper end.
        best: The best of these.
        drawn: How many of them were drawn at random.
        drawn_mean: The mean of those.
        corrected: The mean over the whole space of the other parameters, by a forest; NaN if none was asked for.
        corrected_low: Lower end of its 90 % interval, by a bootstrap over all trials.
        corrected_high: Upper end.
    """

    values: tuple[str, ...]
    n: int
    mean: float
    low: float
    high: float
    best: float
    drawn: int
    drawn_mean: float
    corrected: float = math.nan
    corrected_low: float = math.nan
    corrected_high: float = math.nan


class Effects(Sequence[Effect]):
    """What the values of one parameter, or of two, come to: print it.

    Args:
        found: What was found.
        parameters: Of which parameters.
        metric: In which metric.
        says: What should be said with it.
    """

    def __init__(
        self, found: Sequence[Effect], *, parameters: Sequence[str], metric: str, says: Sequence[str] = ()
    ) -> None:
        self._found = list(found)
        self.parameters = tuple(parameters)
        self.metric = metric
        self.says = tuple(says)

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, int | slice):
            return self._found[which]
        wanted = which if isinstance(which, tuple) else (which,)
        found = next((one for one in self._found if one.values == wanted), None)
        if found is None:
            raise KeyError(f"{which!r} is none of {', '.join(map(repr, (one.values for one in self._found)))}")
        return found

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Effect]:
        return iter(self._found)

    def __str__(self) -> str:
        head = [
            *self.parameters,
            "trials",
            f"mean {self.metric}",
            "95 % interval",
            "best",
            "corrected",
            "90 % interval",
        ]
        rows = [
            [
                *one.values,
                str(one.n),
                *(_told(one.mean), _ends(one.low, one.high), _told(one.best)),
                *(_told(one.corrected), _ends(one.corrected_low, one.corrected_high)),
            ]
            for one in self
        ]
        return "\n".join([*self.says, *aligned([head, *rows])])


def effects(
    columns: Sequence[Column],
    values: Array,
    names: Sequence[str],
    *,
    mode: str = "max",
    metric: str = "value",
    drawn: Array | None = None,
    corrected: bool = True,
    says: Sequence[str] = (),
    seed: int = 0,
) -> Effects:
    """Return what the values of one parameter, or of two at once, come to.

    Args:
        columns: All that was varied.
        values: What each trial came to, finite.
        names: Of one parameter, or two.
        mode: In which direction values are better.
        metric: What they are called.
        drawn: Which trials were drawn at random; all, if left out.
        corrected: Whether to grow a forest for means over the whole space.
        says: What should be said with it.
        seed: Of everything that is drawn.

    Raises:
        ConfigError: There is no such parameter, too few trials have them, or scikit-learn is missing.
    """
    import numpy as np

    asked = [_column(columns, name) for name in names]
    if len(asked) not in (1, 2) or len({one.name for one in asked}) < len(asked):
        raise ConfigError(f"Effects are of one parameter or of two, and {len(names)} were given: {', '.join(names)}.")
    there = np.all([~np.isnan(one.places) for one in asked], axis=0)
    if int(there.sum()) < FEWEST:
        raise ConfigError(
            f"{count(int(there.sum()), 'trial')} with {' and '.join(names)} and a value are too few; it takes {FEWEST}."
        )
    own = np.ones(len(values), dtype=bool) if drawn is None else np.asarray(drawn)
    asked, left, random_ = [one.taken(there) for one in asked], values[there], own[there]
    cut = [cells(one) for one in asked]
    called = [cell_names(one, cell, n) for one, (cell, n, _) in zip(asked, cut, strict=True)]
    grid = list(np.ndindex(*(n for _, n, _ in cut)))
    found = []
    rng = np.random.default_rng(seed)
    for at in grid:
        here = np.all([cell == nth for (cell, _, _), nth in zip(cut, at, strict=True)], axis=0)
        label = tuple(words[nth] for words, nth in zip(called, at, strict=True))
        found.append(_effect(label, left[here], left[here & random_], mode, rng))
    if corrected:
        among = [one.taken(there) for one in columns]
        among = [one for one in among if one.always]
        told = _corrected(among, left, [one.name for one in asked], [n for _, n, _ in cut], seed)
        found = [_with(one, *ends) for one, ends in zip(found, told, strict=True)]
    return Effects(found, parameters=[one.name for one in asked], metric=metric, says=says)


def _column(columns: Sequence[Column], name: str) -> Column:
    """Return the column of a name, which may leave out the choice that it is under."""
    found = [one for one in columns if name in (one.name, one.name.rpartition("/")[2])]
    if len(found) == 1:
        return found[0]
    known = ", ".join(one.name for one in columns) or "none"
    if found:
        raise ConfigError(f"{name!r} is under several choices. Say which: {', '.join(one.name for one in found)}.")
    raise ConfigError(f"{name!r} is no parameter that was searched with more than one value. There are: {known}.")


def _effect(values: tuple[str, ...], here: Array, random_: Array, mode: str, rng: Any) -> Effect:
    import numpy as np

    if not len(here):
        return Effect(values, 0, math.nan, math.nan, math.nan, math.nan, 0, math.nan)
    low = high = math.nan
    if len(here) >= LEAST_INTERVAL:
        again = here[rng.integers(0, len(here), (RESAMPLES, len(here)))].mean(axis=1)
        low, high = (float(end) for end in np.percentile(again, [2.5, 97.5]))
    best = float(here.max() if mode == "max" else here.min())
    drawn_mean = float(random_.mean()) if len(random_) else math.nan
    return Effect(values, len(here), float(here.mean()), low, high, best, len(random_), drawn_mean)


def _corrected(
    columns: Sequence[Column], values: Array, names: Sequence[str], sizes: Sequence[int], seed: int
) -> list[tuple[float, float, float]]:
    """Return for each cell the mean over the space, and its interval."""
    import numpy as np

    which = [next(nth for nth, one in enumerate(columns) if one.name == name) for name in names]
    places = [(np.arange(n * INSIDE) + 0.5) / (n * INSIDE) for n in sizes]

    def told(rows: Any, seed: int) -> Array:
        forest = Forest([one.taken(rows) for one in columns], values[rows], trees=TREES, seed=seed)
        found = forest.mean_at(which, places)
        for axis, n in enumerate(sizes):
            found = np.stack([part.mean(axis=axis) for part in np.split(found, n, axis=axis)], axis=axis)
        return np.asarray(found).ravel()

    rng = np.random.default_rng(seed)
    whole = told(np.arange(len(values)), seed)
    again = [told(rng.integers(0, len(values), len(values)), seed + 1 + nth) for nth in range(FOREST_RESAMPLES)]
    low, high = np.percentile(again, [5, 95], axis=0)
    ends = zip(np.minimum(low, whole), np.maximum(high, whole), strict=True)
    return [(float(middle), float(under), float(over)) for middle, (under, over) in zip(whole, ends, strict=True)]


def _with(one: Effect, corrected: float, low: float, high: float) -> Effect:
    from dataclasses import replace

    return replace(one, corrected=corrected, corrected_low=low, corrected_high=high)


def _told(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"


def _ends(low: float, high: float) -> str:
    return "" if math.isnan(low) else f"{low:.4g} to {high:.4g}"
