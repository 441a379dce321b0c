"""Simulated trials that go by what real ones taught: a forest, noise as large as that of seeds, and a memory.

Here the truth is known, as it never is live: the forest can be asked about any configuration, also about those that no
sampler tried and those that do not fit into memory. So what Étude says of a search can be held against it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

import etude
from benchmarks.common import Result

WORKERS: Final = 64
TREES: Final = 60
DRAWN: Final = 4_000
"""Configurations by which the truth is averaged."""

FITS: Final = 0.85
"""This share of random configurations fits into memory."""

SHOWN: Final = ("optimizer", "width", "depth", "heads", "lr")
"""Parameters that a line keeps of simulated trials."""


@dataclass(frozen=True)
class Taught:
    """What real trials of a table taught.

    Attributes:
        names: The parameters, in order.
        values: Of each choice, its values; empty of numbers.
        forest: Tells a score by a row of numbers.
        noise: Standard deviation of what the seed does.
        room: How large a configuration may be.
    """

    names: tuple[str, ...]
    values: Mapping[str, Sequence[Any]]
    forest: Any
    noise: float
    room: float

    @classmethod
    def by(cls, live: Mapping[str, Any], space: Mapping[str, Any], *, noise: float) -> Taught:
        """Return what the trials of a table teach, as a line keeps them."""
        from sklearn.ensemble import RandomForestRegressor

        names = tuple(sorted(space))
        values = {name: space[name] if isinstance(space[name], list) else () for name in names}
        rows = [dict(zip(live["params"], row, strict=True)) for row in zip(*live["params"].values(), strict=True)]
        forest = RandomForestRegressor(TREES, min_samples_leaf=2, max_features=0.6, random_state=0, n_jobs=1)
        sizes = sorted(needs(one) for one in drawn(space, DRAWN))
        found = cls(names, values, forest, noise, sizes[int(FITS * len(sizes))])
        forest.fit([found.row(one) for one in rows], live["score"])
        return found

    def row(self, params: Mapping[str, Any]) -> list[float]:
        """Return a configuration as numbers: each value of a choice has one of its own."""
        told: list[float] = []
        for name in self.names:
            if self.values[name]:
                told += [float(params[name] == value) for value in self.values[name]]
            else:
                told.append(math.log10(params[name]) if name in ("lr", "weight_decay") else float(params[name]))
        return told

    def true(self, configurations: Sequence[Mapping[str, Any]]) -> list[float]:
        """Return what each comes to, without noise."""
        return [float(value) for value in self.forest.predict([self.row(one) for one in configurations])]

    def __call__(self, params: Mapping[str, Any], seed: int) -> Iterator[tuple[float, Mapping[str, float]]]:
        """Yield the course of a trial, in one step; it needs more memory than there is if it is too large."""
        size = needs(params)
        if size > self.room:
            raise MemoryError(f"{size:.0f} of {self.room:.0f} units")
        draws = random.Random(repr(sorted((name, params[name]) for name in self.names)))
        yield 60.0 + size / 50, {"score": self.true([params])[0] + draws.gauss(0.0, self.noise)}


def needs(params: Mapping[str, Any]) -> float:
    """Return what a network takes in memory: what is kept of each token, in each block, to go back through."""
    tokens = 14.0
    return float(
        params["depth"] * tokens * (params["width"] * (6 + 2 * params["widening"]) + 2 * tokens * params["heads"])
    )


def drawn(space: Mapping[str, Any], n: int) -> list[dict[str, Any]]:
    """Return configurations drawn at random, as a random search draws them."""
    from etude.tune.spaces import Space

    read, rng = Space.of(space), random.Random(0)
    return [dict(read.sample(rng)) for _ in range(n)]


def simulated(example: Any, taught: Taught, sampler: str, *, trials: int, table: str) -> Result:
    """Return what Étude says of a simulated search, and what is true."""
    experiment = etude.Experiment(course, metric="score", mode="max")
    search = experiment.tune(
        example.SPACE,
        trials=trials,
        sampler=sampler,
        stopper="none",
        retries=0,
        engine=etude.Simulated(curves=taught, workers=WORKERS),
        name=f"{table}-{sampler}",
    )
    done = [trial for trial in search.trials if trial.value is not None]
    random_ones = drawn(example.SPACE, DRAWN)
    every = list(zip(random_ones, taught.true(random_ones), strict=True))
    return {
        "score": [round(float(trial.value or 0.0), 4) for trial in done],
        "params": {
            name: [float(f"{v:.3g}") if isinstance(v := t.params[name], float) else v for t in done] for name in SHOWN
        },
        "failed": sum(trial.state == "failed" for trial in search.trials),
        "threats": {one.name: [one.seriousness.value, one.finding] for one in search.threats()},
        "budget": curve_of(search.budget()),
        "optimizers": means_of(search, "optimizer", taught, every),
        "widths": means_of(search, "width", taught, every),
    }


def course(**params: Any) -> float:
    """Stand for the training function: nothing is trained."""
    raise NotImplementedError


def curve_of(curve: Any) -> Result:
    """Return a budget curve as a line keeps it."""
    told = ("best", "best_low", "best_high", "mean", "mean_low", "mean_high")
    return {"sizes": list(curve.sizes), **{name: [round(value, 4) for value in getattr(curve, name)] for name in told}}


def means_of(
    search: Any, name: str, taught: Taught, every: Sequence[tuple[Mapping[str, Any], float]]
) -> dict[str, Result]:
    """Return by value of a parameter: the mean and the corrected mean of a search, and the truth.

    Args:
        search: The search.
        name: The parameter.
        taught: What its trials go by.
        every: Configurations drawn at random, each with what it truly comes to.
    """
    told = {}
    for one in search.effects(name):
        here = [(params, score) for params, score in every if str(params[name]) == one.values[0]]
        told[one.values[0]] = {
            "n": one.n,
            "mean": one.mean,
            "low": one.low,
            "high": one.high,
            "best": one.best,
            "corrected": one.corrected,
            "true": fmean(score for _, score in here),
            "true_of_fitting": fmean(score for params, score in here if needs(params) <= taught.room),
        }
    return told
