"""Optuna's view of a search: a study of its own in memory, which nobody else sees, and our spaces as its distributions.

What Optuna notes on a trial that it was asked for (CMA-ES and NSGA-II keep their state there) stays with that trial.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from etude.core.events import Params
from etude.tune.domains import Domain, Integers, LogUniform, Ordered, Uniform
from etude.tune.sampler import Told
from etude.tune.spaces import Choice, Space

MOST_STEPS: Final = 2**20
"""A range with more steps is a continuum to Optuna: its Gaussian processes list them all."""

FAR: Final = 1e100
"""Numbers beyond this, or below one over this, reach Optuna as their place in the range: it would square them."""


@dataclass
class Book:
    """What a sampler knows, as a study of Optuna's in memory.

    Attributes:
        space: What is searched.
        metrics: How many metrics there are.
        recalls: Whether the sampler notes something on its proposals, so that they must become our trials.
        jointly: Says of one of Optuna's distributions whether the sampler chooses from it together with the others.
        newest: How many of the newest trials the sampler sees beside the best; None for all.
    """

    space: Space
    metrics: int
    recalls: bool
    jointly: Callable[[Any], bool] = lambda distribution: True
    newest: int | None = None
    ids: dict[int, int] = field(default_factory=dict)  # our number of a trial -> Optuna's id
    ended: set[int] = field(default_factory=set)
    open: Any = None  # the proposal that was made last and is no trial yet
    opened: tuple[int, Params] = (-1, {})  # its number, and what it is in our words

    def __post_init__(self) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.storage = optuna.storages.InMemoryStorage() if self.newest is None else _showing(self.newest)
        self.study = optuna.create_study(storage=self.storage, directions=["minimize"] * self.metrics)
        every = {name: _noted(domain, domain.from_unit(0.5))[1] for name, domain in sorted(self.space.items())}
        self._joint = {name: one for name, one in every.items() if not one.single() and self.jointly(one)}

    def note(self, told: Told) -> None:
        """Add a trial, or end it; an end that is told again changes nothing."""
        if told.trial not in self.ids:
            self.ids[told.trial] = self._adopt(told)
        if told.state != "running" and told.trial not in self.ended:
            self.ended.add(told.trial)
            self._end(self.ids[told.trial], told)

    def propose(self, k: int, sampler: Any) -> Params:
        """Have a sampler of Optuna's propose a configuration."""
        self._discard()
        # It would look through all trials for what they have in common, which we know: half of TPE's time with 10,000.
        sampler.infer_relative_search_space = lambda study, trial: self._joint
        self.study.sampler = sampler
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is experimental, or hard for it, is nothing that users could change
            self.open = self.study.ask()
            params = self.space.build(lambda path, domain: _picked(self.open, path, domain))
        self.opened = (k, params)
        return params

    def _adopt(self, told: Told) -> int:
        """Take a trial up: the open proposal if it became this trial, else as one from elsewhere."""
        from optuna.trial import TrialState, create_trial

        params, distributions = _in_optuna_all(self.space, told.params)
        k, proposed = self.opened
        if self.open is not None and told.trial == k:
            # Who does not recall is not asked again later, so for it a trial must be what our values make of it.
            taken = proposed.items() <= told.params.items() if self.recalls else self.open.params == params
            if taken:
                number: int = self.open._trial_id
                self.open = None
                return number
        self._discard()
        running = create_trial(state=TrialState.RUNNING, params=params, distributions=distributions)
        made: int = self.storage.create_new_trial(self.study._study_id, template_trial=running)
        return made

    def _discard(self) -> None:
        """Let go of a proposal that was taken already."""
        if self.open is not None:
            from optuna.trial import TrialState

            self.study.tell(self.open.number, state=TrialState.FAIL)
            self.open = None

    def _end(self, number: int, told: Told) -> None:
        from optuna.trial import TrialState

        losses = [math.inf if math.isnan(loss) else loss for loss in told.losses]
        if told.state in ("invalid", "failed"):  # as bad as can be: what Optuna calls failed it would propose again
            self.storage.set_trial_state_values(number, TrialState.COMPLETE, [math.inf] * self.metrics)
        elif told.state == "finished":
            self.storage.set_trial_state_values(number, TrialState.COMPLETE, losses)
        elif self.metrics > 1:  # it has no value, and Optuna prunes no trial of several metrics
            self.storage.set_trial_state_values(number, TrialState.FAIL)
        else:
            self.storage.set_trial_intermediate_value(number, told.step, losses[0])
            self.storage.set_trial_state_values(number, TrialState.PRUNED, losses)


def _showing(newest: int) -> Any:
    from etude.tune.newest import Newest

    return Newest(newest)


def _in_optuna_all(space: Space, params: Params) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a configuration as Optuna's values and distributions, by path."""
    inner: dict[str, Any] = {}
    distributions: dict[str, Any] = {}

    def pick(path: str, domain: Domain) -> Any:
        value = params[path.rpartition("/")[2]]
        inner[path], distributions[path] = _noted(domain, value)
        return value

    space.build(pick)
    return inner, distributions


def _picked(trial: Any, path: str, domain: Domain) -> Any:
    """Have Optuna choose a value."""
    if _is_far(domain):
        return domain.from_unit(trial.suggest_float(path, 0.0, 1.0))
    return _suggest(trial, path, domain)


def _noted(domain: Domain, value: Any) -> tuple[Any, Any]:
    """Return a value as one of Optuna's, and the distribution that it is from."""
    from optuna.distributions import FloatDistribution

    return (_place(domain, value), FloatDistribution(0.0, 1.0)) if _is_far(domain) else _in_optuna(domain, value)


def _suggest(trial: Any, path: str, domain: Domain) -> Any:
    """Have Optuna choose a value; what is listed or stepped goes by its position, so that any value can be one."""
    match domain:
        case Uniform(low=low, high=high, step=None) | LogUniform(low=low, high=high):
            value = trial.suggest_float(path, low, high, log=isinstance(domain, LogUniform))
            return min(max(value, low), high)
        case Integers(low=low, high=high, log=True):
            return trial.suggest_int(path, low, high, log=True)
        case Choice(values=values):
            return values[trial.suggest_categorical(path, range(len(values)))]
    assert domain.size is not None
    return _nth(domain, trial.suggest_int(path, 0, domain.size - 1))


def _in_optuna(domain: Domain, value: Any) -> tuple[Any, Any]:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    match domain:
        case Uniform(low=low, high=high, step=None) | LogUniform(low=low, high=high):
            return float(value), FloatDistribution(low, high, log=isinstance(domain, LogUniform))
        case Integers(low=low, high=high, log=True):
            return value, IntDistribution(low, high, log=True)
        case Choice(values=values):
            return domain.index(value), CategoricalDistribution(range(len(values)))
    assert domain.size is not None
    return _position(domain, value), IntDistribution(0, domain.size - 1)


def _nth(domain: Domain, n: int) -> Any:
    """Return the value at a position; whole numbers have one too, since large ones side by side are one float."""
    match domain:
        case Uniform(low=low, high=high, step=float(step), size=size):
            return high if n + 1 == size else low + n * step
        case Integers(low=low, step=int(step)):
            return low + n * step
        case Ordered(values=values):
            return values[n]
    raise AssertionError(f"no positions: {domain!r}")


def _position(domain: Domain, value: Any) -> int:
    match domain:
        case Uniform(low=low, step=float(step)):
            place: int = round((value - low) / step)
            return place
        case Integers(low=low, step=int(step)):
            return int(value - low) // step
        case Ordered():
            return int(domain.index(value))
    raise AssertionError(f"no positions: {domain!r}")


def _is_far(domain: Domain) -> bool:
    """Say whether Optuna cannot take this range as it is, and is shown the places in it from 0 to 1 instead."""
    match domain:
        case Uniform(low=low, high=high, step=None):
            return max(-low, high) > FAR or high - low < 1 / FAR
        case LogUniform(low=low, high=high):
            return high > FAR or low < 1 / FAR
        case Uniform(size=int(size)) | Integers(size=size):
            return size > MOST_STEPS
    return False


def _place(domain: Domain, value: float) -> float:
    """Return where in its range a value is, from 0 to 1; ``from_unit`` leads back, as far as floats go."""
    match domain:
        case Integers(low=low, high=high, log=True):
            return math.log(value / (low - 0.5)) / math.log((high + 0.5) / (low - 0.5))
        case Integers(low=low, size=size, step=step):
            return min(((value - low) / step + 0.5) / size, 1.0)
        case Uniform(low=low, high=high):
            return (value - low) / (high - low)
        case LogUniform(low=low, high=high):
            return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    raise AssertionError(f"no range: {domain!r}")
