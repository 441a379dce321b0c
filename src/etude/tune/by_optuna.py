"""Samplers whose thinking is Optuna's: TPE, Gaussian processes, CMA-ES and NSGA-II.

Each proposal is made by a new sampler of Optuna's, whose generator comes from the seed and the number of the proposal,
on what it was told: so none depends on how often another one was asked for. Optuna, and what its samplers import, is
loaded with the first proposal that it makes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, final

from etude.core.events import Params
from etude.core.numbers import whole
from etude.core.text import count
from etude.tune.domains import Integers, LogUniform, Ordered, Uniform
from etude.tune.optuna_book import Book
from etude.tune.sampler import Request, Told, not_installed
from etude.tune.spaces import Space

FEWEST_SHOWN: Final = 250
"""With so many trials TPE takes 25 for good ones, as with any larger number."""

MOST_NAMED: Final = 3
"""So many parameters are named in a refusal."""


class ByOptuna:
    """What samplers by Optuna have in common."""

    needs: ClassVar[tuple[str, ...]] = ()
    """Packages beside Optuna that it imports; the extra that installs them has the sampler's name."""

    def __post_init__(self) -> None:
        self._told: list[Told] = []
        self._book: Book | None = None

    def needs_process(self, k: int) -> bool:
        """Return True after the first random draws, which are ours."""
        return k >= self._drawn()

    def recalls(self) -> bool:
        """Return False: what became of its proposals is all that it goes by."""
        return False

    def ignores_stopped(self, metrics: int) -> bool:
        """Return True: all but TPE go by finished trials alone."""
        return True

    def why_not(self, space: Space, metrics: int) -> str | None:
        """Return what is missing, or what it cannot handle."""
        return not_installed(self.needs, extra=type(self).__name__.lower()) or self._unfit(space, metrics)

    def tell(self, told: Told) -> None:
        """Take in how a trial stands; it is looked at with the next proposal."""
        self._told.append(told)

    def suggest(self, request: Request) -> Params:
        """Ask Optuna, with a generator for this proposal alone."""
        if not self.needs_process(request.k):
            return request.space.sample(request.stream())
        if self._book is None:
            n = request.metrics
            self._book = Book(request.space, n, self.recalls(), self._jointly(n), self._newest(n))
        told, self._told = self._told, []
        for one in told:
            self._book.note(one)
        return self._book.propose(request.k, self._thinker(request.stream_seed()))

    def _drawn(self) -> int:
        """Return how many configurations are drawn at random first."""
        return 0

    def _unfit(self, space: Space, metrics: int) -> str | None:
        return None

    def _jointly(self, metrics: int) -> Callable[[Any], bool]:
        """Return what says of one of Optuna's distributions whether it is chosen from together with the others."""
        return lambda distribution: True

    def _newest(self, metrics: int) -> int | None:
        """Return how many of the newest trials Optuna is shown beside the best; None for all."""
        return None

    def _thinker(self, seed: int) -> Any:
        """Return the sampler of Optuna's, new."""
        raise NotImplementedError


@final
@dataclass
class TPE(ByOptuna):
    """Tree-structured Parzen estimator, by Optuna, after random draws to start with.

    Args:
        startup: How many configurations are drawn at random first.
        newest: It models the best trials and so many of the newest, at least 250; None for all, whose number makes it
            slower and slower. Where there are several metrics it models all.

    Source:
        Bergstra et al. 2011, "Algorithms for Hyper-Parameter Optimization"; the implementation is
        ``optuna.samplers.TPESampler`` with its defaults. Trials that still run are known to it (constant
        liar). Our departures: the first draws are ours, so they need no Optuna and no history; each
        proposal has a generator of its own, from the seed and its number; and where Optuna lets older trials
        count less and less, those before the ``newest`` do not count, unless they are among the best.
    """

    startup: int = 10
    newest: int | None = 1000

    def __post_init__(self) -> None:
        self.startup = _startup(self.startup)
        if self.newest is not None:
            self.newest = whole(
                "newest", self.newest, FEWEST_SHOWN, "with fewer it would take fewer trials for good ones"
            )
        super().__post_init__()

    def _newest(self, metrics: int) -> int | None:
        return self.newest if metrics == 1 else None

    def ignores_stopped(self, metrics: int) -> bool:
        """Return False if there is one metric: then it goes by their last reports."""
        return metrics > 1

    def _jointly(self, metrics: int) -> Callable[[Any], bool]:
        return lambda distribution: metrics == 1  # with several, Optuna models each parameter alone

    def _drawn(self) -> int:
        return self.startup

    def _thinker(self, seed: int) -> Any:
        from optuna.samplers import TPESampler

        return TPESampler(n_startup_trials=self.startup, seed=seed)


@final
@dataclass
class GP(ByOptuna):
    """A Gaussian process and its expected improvement, by Optuna, after random draws to start with.

    For trials that take long, of which there will be some hundreds at most: a proposal takes a tenth of a second to
    begin with, and grows slower with every trial. It needs scipy and torch. Trials that were stopped tell it nothing.

    Args:
        startup: How many configurations are drawn at random first.

    Source:
        Jones et al. 1998, "Efficient Global Optimization of Expensive Black-Box Functions"; the implementation is
        ``optuna.samplers.GPSampler`` with its defaults. Our departures are those of ``TPE``; and kernels are fitted
        anew for each proposal, where Optuna starts from the last fit.
    """

    needs: ClassVar[tuple[str, ...]] = ("scipy", "torch")
    startup: int = 10

    def __post_init__(self) -> None:
        self.startup = _startup(self.startup)
        super().__post_init__()

    def _drawn(self) -> int:
        return self.startup

    def _unfit(self, space: Space, metrics: int) -> str | None:
        return _branched(space)

    def _thinker(self, seed: int) -> Any:
        from optuna.samplers import GPSampler

        return GPSampler(n_startup_trials=self.startup, seed=seed, warn_independent_sampling=False)


@final
@dataclass
class CMAES(ByOptuna):
    """Covariance matrix adaptation, by Optuna: for numbers, and trials that are cheap enough to have hundreds.

    Choices are drawn at random; give those that matter an order (``etude.ordered``) or search them by TPE. It needs the
    package cmaes.

    Args:
        startup: How many configurations are drawn at random first.

    Source:
        Hansen and Ostermeier 2001, "Completely Derandomized Self-Adaptation in Evolution Strategies"; the
        implementation is ``optuna.samplers.CmaEsSampler`` with its defaults. Our departures are those of ``TPE``. A
        trial belongs to the generation that it was proposed for, so proposals are asked for again when a study is
        resumed.
    """

    needs: ClassVar[tuple[str, ...]] = ("cmaes",)
    startup: int = 1

    def __post_init__(self) -> None:
        self.startup = _startup(self.startup)
        super().__post_init__()

    def recalls(self) -> bool:
        """Return True: the generation of a proposal, and its own state, lie with the proposal."""
        return True

    def _drawn(self) -> int:
        return self.startup

    def _jointly(self, metrics: int) -> Callable[[Any], bool]:
        return lambda distribution: hasattr(distribution, "low")  # numbers, and no choices

    def _unfit(self, space: Space, metrics: int) -> str | None:
        if metrics > 1:
            return f"it takes one metric, and there are {metrics}"
        branched = _branched(space)
        if branched is None and not any(_is_number(domain) for domain in space.values()):
            return "it adapts numbers and ordered values, and the space has none"
        return branched

    def _thinker(self, seed: int) -> Any:
        from optuna.samplers import CmaEsSampler

        return CmaEsSampler(n_startup_trials=self.startup, seed=seed, warn_independent_sampling=False)


@final
@dataclass
class NSGA2(ByOptuna):
    """A genetic algorithm for several metrics, NSGA-II, by Optuna: for thousands of trials.

    Args:
        population: How many trials a generation has. The first generation is random.

    Source:
        Deb et al. 2002, "A Fast and Elitist Multiobjective Genetic Algorithm: NSGA-II"; the implementation is
        ``optuna.samplers.NSGAIISampler`` with its defaults. Our departure: each proposal has a generator of its own. A
        trial belongs to the generation that it was proposed for, so proposals are asked for again when a study is
        resumed.
    """

    population: int = 50

    def __post_init__(self) -> None:
        self.population = whole("population", self.population, 2, "it takes two parents to have a child")
        super().__post_init__()

    def recalls(self) -> bool:
        """Return True: the generation of a proposal lies with the proposal."""
        return True

    def _thinker(self, seed: int) -> Any:
        from optuna.samplers import NSGAIISampler

        return NSGAIISampler(population_size=self.population, seed=seed)


def _startup(value: object) -> int:
    return whole("startup", value, 0, "it counts random draws")


def _is_number(domain: object) -> bool:
    return isinstance(domain, Uniform | LogUniform | Integers) or (isinstance(domain, Ordered) and domain.size > 1)


def _branched(space: Space) -> str | None:
    """Say that parameters come and go with a choice, if they do."""
    inner = [name for name in space.names if name not in space]
    if not inner:
        return None
    shown = ", ".join(map(repr, inner[:MOST_NAMED])) + (", ..." if len(inner) > MOST_NAMED else "")
    return f"it takes no conditional parameters, and the space has {count(len(inner), 'such parameter')}: {shown}"
