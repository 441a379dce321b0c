"""Samplers: they propose configurations.

Proposal k depends on the seed, on k, and on the trials that the sampler was told about before it was
asked: never on the clock, on a generator that lives on, or on how many workers there are. So a sampler
that is told the same again proposes the same again, and that is all that resuming takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, final

import msgspec

from etude.core.errors import ConfigError
from etude.core.events import Params
from etude.core.streams import stream, stream_seed
from etude.tune.domains import Domain, Integers, LogUniform, Ordered, Uniform
from etude.tune.spaces import Choice, Space


class Told(msgspec.Struct, frozen=True):
    """What a sampler is told of a trial, when it is queued and again when it is settled.

    Attributes:
        trial: The trial's number.
        params: Its configuration.
        state: ``"running"``, ``"finished"``, ``"stopped"``, ``"invalid"`` or ``"failed"``.
        loss: Lower is better: the final metric if it finished, the last report if it was stopped.
        step: How many reports there were.
    """

    trial: int
    params: Params
    state: str = "running"
    loss: float | None = None
    step: int = 0


class Sampler(Protocol):
    """Proposes configurations."""

    def needs_history(self, k: int) -> bool:
        """Say whether proposal ``k`` depends on earlier trials."""
        ...

    def tell(self, told: Told) -> None:
        """Take in how a trial stands."""
        ...

    def suggest(self, k: int, redraw: int) -> Params:
        """Return proposal ``k``, or the ``redraw``-th other one if the first was already taken."""
        ...


@final
class Random:
    """Draw every configuration independently from the space."""

    def __init__(self, space: Space, *, seed: int) -> None:
        self._space = space
        self._seed = seed

    def needs_history(self, k: int) -> bool:
        """Return False: a draw depends on its number alone."""
        return False

    def tell(self, told: Told) -> None:
        """Forget it."""

    def suggest(self, k: int, redraw: int) -> Params:
        """Draw configuration ``k``."""
        return self._space.sample(stream(self._seed, "search", k, redraw))


@final
class TPE:
    """Tree-structured Parzen estimator, by Optuna, after random draws to start with.

    Source:
        Bergstra et al. 2011, "Algorithms for Hyper-Parameter Optimization"; the implementation is
        ``optuna.samplers.TPESampler`` with its defaults. Trials that still run are known to it (constant
        liar). Our departure: the first draws are ours, so they need no Optuna and no history, and each
        proposal has a generator of its own, from the seed and its number.
    """

    RANDOM_FIRST: Final = 10

    def __init__(self, space: Space, *, seed: int) -> None:
        self._space = space
        self._seed = seed
        self._random = Random(space, seed=seed)
        self._study: Any = None
        self._storage: Any = None
        self._ids: dict[int, int] = {}  # our number of a trial -> Optuna's id
        self._ended: set[int] = set()

    def needs_history(self, k: int) -> bool:
        """Return True after the first random draws."""
        return k >= self.RANDOM_FIRST

    def tell(self, told: Told) -> None:
        """Add a trial to Optuna's in-memory study, or end it there; an end that is told again changes nothing."""
        study, storage = self._in_memory()
        from optuna.trial import TrialState, create_trial

        if told.trial not in self._ids:
            params, distributions = self._in_optuna(told.params)
            running = create_trial(state=TrialState.RUNNING, params=params, distributions=distributions)
            self._ids[told.trial] = storage.create_new_trial(study._study_id, template_trial=running)
        if told.state == "running" or told.trial in self._ended:
            return
        self._ended.add(told.trial)
        number = self._ids[told.trial]
        loss = math.inf if told.loss is not None and math.isnan(told.loss) else told.loss
        if loss is None or told.state == "failed":
            storage.set_trial_state_values(number, TrialState.FAIL)
        elif told.state == "finished":
            storage.set_trial_state_values(number, TrialState.COMPLETE, [loss])
        else:
            storage.set_trial_intermediate_value(number, told.step, loss)
            storage.set_trial_state_values(number, TrialState.PRUNED, [loss])

    def suggest(self, k: int, redraw: int) -> Params:
        """Ask Optuna, with a generator made from the seed and ``k``."""
        if not self.needs_history(k):
            return self._random.suggest(k, redraw)
        study, _ = self._in_memory()
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState

        study.sampler = TPESampler(seed=stream_seed(self._seed, "search", k, redraw, bits=32))
        trial = study.ask()
        try:
            return self._space.build(lambda path, domain: _suggest(trial, path, domain))
        finally:
            # What was only asked for leaves no trace: the trial comes back by `tell` once it is queued.
            study.tell(trial.number, state=TrialState.FAIL)

    def _in_memory(self) -> tuple[Any, Any]:
        if self._study is None:
            import optuna

            optuna.logging.set_verbosity(optuna.logging.ERROR)
            self._storage = optuna.storages.InMemoryStorage()
            self._study = optuna.create_study(storage=self._storage, direction="minimize")
        return self._study, self._storage

    def _in_optuna(self, params: Params) -> tuple[dict[str, Any], dict[str, Any]]:
        inner: dict[str, Any] = {}
        distributions: dict[str, Any] = {}

        def pick(path: str, domain: Domain) -> Any:
            value = params[path.rpartition("/")[2]]
            inner[path], distributions[path] = _in_optuna(domain, value)
            return value

        self._space.build(pick)
        return inner, distributions


def _suggest(trial: Any, path: str, domain: Domain) -> Any:
    """Have Optuna choose a value: what is listed or stepped goes by its position, so that any value can be one."""
    match domain:
        case Uniform(low=low, high=high, step=None):
            return min(max(trial.suggest_float(path, low, high), low), high)
        case Uniform(low=low, high=high, step=float(step), size=int(size)):
            place = trial.suggest_int(path, 0, size - 1)
            return high if place == size - 1 else low + place * step
        case LogUniform(low=low, high=high):
            return min(max(trial.suggest_float(path, low, high, log=True), low), high)
        case Integers(low=low, high=high, log=log, step=step):
            return trial.suggest_int(path, low, high, log=log, step=step)
        case Ordered(values=values):
            return values[trial.suggest_int(path, 0, len(values) - 1)]
        case Choice(values=values):
            return values[trial.suggest_categorical(path, range(len(values)))]
    raise AssertionError(f"no such domain: {domain!r}")


def _in_optuna(domain: Domain, value: Any) -> tuple[Any, Any]:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    match domain:
        case Uniform(low=low, high=high, step=None):
            return float(value), FloatDistribution(low, high)
        case Uniform(low=low, step=float(step), size=int(size)):
            return round((value - low) / step), IntDistribution(0, size - 1)
        case LogUniform(low=low, high=high):
            return float(value), FloatDistribution(low, high, log=True)
        case Integers(low=low, high=high, log=log, step=step):
            return value, IntDistribution(low, high, log=log, step=step)
        case Ordered(values=values):
            return domain.index(value), IntDistribution(0, len(values) - 1)
        case Choice(values=values):
            return domain.index(value), CategoricalDistribution(range(len(values)))
    raise AssertionError(f"no such domain: {domain!r}")


SAMPLERS: Final[Mapping[str, Callable[..., Sampler]]] = {"random": Random, "tpe": TPE}


def make_sampler(name: str, space: Space, *, seed: int) -> Sampler:
    """Return the sampler of that name.

    Raises:
        ConfigError: There is none.
    """
    if name not in SAMPLERS:
        raise ConfigError(f"sampler={name!r} is not known. There are: {', '.join(map(repr, SAMPLERS))}.")
    return SAMPLERS[name](space, seed=seed)
