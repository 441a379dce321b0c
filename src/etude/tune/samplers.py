"""The samplers that there are, by name. What one promises is in ``tune/sampler.py``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from etude.core.errors import ConfigError
from etude.core.events import Params
from etude.core.text import brief
from etude.tune.by_optuna import CMAES, GP, NSGA2, TPE
from etude.tune.grid import Grid
from etude.tune.qmc import QMC
from etude.tune.registry import Registry
from etude.tune.sampler import Request, Sampler, Told, why_not
from etude.tune.spaces import Space


@final
@dataclass
class Random:
    """Draw every configuration independently from the space."""

    def needs_process(self, k: int) -> bool:
        """Return False: a draw depends on its number alone."""
        return False

    def recalls(self) -> bool:
        """Return False."""
        return False

    def tell(self, told: Told) -> None:
        """Forget it."""

    def suggest(self, request: Request) -> Params:
        """Draw configuration ``k``."""
        return request.space.sample(request.stream())


BOHB: Final = (
    "sampler='bohb' is two things: the sampler proposes, the stopper gives out budgets. "
    "Pass sampler='tpe', stopper='hyperband'."
)

BAYES: Final = (
    "sampler='bayes' could be two of them: both propose by what they have seen. Pass sampler='tpe' for any space, or "
    "sampler='gp' for few, costly trials."
)

SAMPLERS: Final[Registry[Sampler]] = Registry(
    "sampler",
    {"random": Random, "grid": Grid, "qmc": QMC, "tpe": TPE, "gp": GP, "cmaes": CMAES, "nsga2": NSGA2},
    advice={"bohb": BOHB, "bayes": BAYES, "bayesian": BAYES},
)


def make_sampler(sampler: str | Sampler, space: Space, *, metrics: int = 1) -> Sampler:
    """Return the sampler of that name, or the object itself, once it is known to fit.

    Raises:
        ConfigError: There is no sampler of that name, the object is none, or it cannot search this space.
    """
    made = SAMPLERS.make(sampler) if isinstance(sampler, str) else sampler
    fits = all(callable(getattr(made, name, None)) for name in ("tell", "suggest"))
    if isinstance(made, type) and fits:
        raise SAMPLERS.uncalled(made)
    if not fits:
        raise ConfigError(
            f"sampler={brief(sampler)} is no sampler. Pass one of {SAMPLERS.names}, or an object with tell(told) and "
            "suggest(request)."
        )
    problem = why_not(made, space, metrics)
    if problem is not None:
        fitting = [name for name, cls in SAMPLERS.classes.items() if why_not(cls(), space, metrics) is None]
        raise ConfigError(
            f"sampler={SAMPLERS.describe(made)} cannot be used here: {problem}. "
            f"These can: {', '.join(map(repr, fitting))}."
        )
    return SAMPLERS.fresh(made) if SAMPLERS.has(made) else made
