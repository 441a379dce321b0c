"""The mean of several weights: of all that are given, or of those that a score shows to be worth mixing.

etude.soup(search.top(5))
etude.soup(search.top(5), score=lambda net: accuracy(net, valid))
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from etude.core.errors import ConfigError, StateError
from etude.core.metrics import MODES, Mode
from etude.core.text import brief
from etude.data.seen import Seen
from etude.fit.weights import TrialWeights, Weights
from etude.frameworks import torch_adapter
from etude.frameworks.loading import Parts

Score = Callable[[Any], float]
"""What a model is worth, judged on data that it was not trained on."""


@dataclass(frozen=True)
class Soup(Weights):
    """The mean of several weights.

    Attributes:
        of: Which.
    """

    of: tuple[Weights, ...] = ()

    def seen(self) -> Seen:
        """Return what rows any of them was trained on or chosen by."""
        return functools.reduce(operator.or_, (one.seen() for one in self.of))

    def load(self) -> Parts:
        """Return the mean of each array, in double precision on the way; of whole numbers, what the first has."""
        return self._averaged([one.load() for one in self.of])

    def read(self) -> tuple[Parts, Seen]:
        """Return both."""
        found = [one.read() for one in self.of]
        return self._averaged([parts for parts, _ in found]), functools.reduce(
            operator.or_, (seen for _, seen in found)
        )

    def _averaged(self, loaded: Sequence[Parts]) -> Parts:
        first, *others = loaded
        for one, other in zip(self.of[1:], others, strict=True):
            _check_alike(first, other, self.of[0].name, one.name)
        return {
            part: {name: _mean([array, *(other[part][name] for other in others)]) for name, array in arrays.items()}
            for part, arrays in first.items()
        }


class HasWeights(Protocol):
    """A trial."""

    @property
    def weights(self) -> TrialWeights:
        """Its weights."""
        ...

    def model(self) -> Any:
        """Return its model with its weights, ready to predict."""
        ...


def soup(given: Sequence[HasWeights | Weights], *, score: Score | None = None, mode: Mode = "max") -> Soup:
    """Return the mean of the weights of several trials; they must have the same shapes.

    It works where they lie in one basin, as trials do that were fine-tuned from the same weights; of networks that
    began at random it may be no better than random weights. With a ``score`` the soup is greedy, and never worse by it
    than the best trial is: the trials are tried in the order of their own scores, and each stays in the soup that makes
    it no worse.

    Args:
        given: Trials, such as ``search.top(3)``, or weights; for a greedy soup trials.
        score: What a model is worth, on data that it was not trained on; NaN is worst. It is called in this process,
            twice for each trial, with the model on the CPU and in evaluation mode.
        mode: ``"max"`` if larger scores are better, ``"min"`` if smaller ones are.

    Raises:
        ConfigError: There is nothing to mix, or it is shrunk, or cannot be scored.
        StateError: Shapes differ.

    Source:
        Wortsman et al. 2022, "Model soups", arXiv:2203.05482: the uniform soup, and the greedy one.
    """
    if not given:
        raise ConfigError("A soup of nothing has no weights. Pass trials: etude.soup(search.top(3)).")
    if score is not None:
        return _mixed(_greedy(given, score, mode))
    return _mixed([one if isinstance(one, Weights) else one.weights for one in given])


def _mixed(mixed: Sequence[Weights]) -> Soup:
    if any((one.shrink, one.perturb) != (1.0, 0.0) for one in mixed):
        raise ConfigError("A soup is shrunk as a whole. Mix first: etude.soup(search.top(3)).shrunk().")
    if any(isinstance(one, TrialWeights) and one.optimized for one in mixed):
        raise ConfigError(
            "A mean has no optimizer: its states belong to each weights by themselves. Mix weights alone."
        )
    return Soup(_called(mixed), tuple(ancestor for one in mixed for ancestor in one.ancestors), of=tuple(mixed))


def _called(mixed: Sequence[Weights]) -> str:
    """Return what a mean is called: of trials of one study that is named once."""
    own = [one for one in mixed if isinstance(one, TrialWeights)]
    if len(own) == len(mixed) and len({one.study for one in own}) == 1:
        return f"the mean of {', '.join(f'epoch {one.epoch} of trial {one.trial}' for one in own)} of {own[0].study}"
    return "the mean of " + "; ".join(one.name for one in mixed)


def _greedy(given: Sequence[HasWeights | Weights], score: Score, mode: Mode) -> list[Weights]:
    """Return the weights that are worth mixing, the best first."""
    if mode not in MODES:
        raise ConfigError(f"mode={brief(mode)} says neither that larger scores are better nor smaller ones.")
    trials = [one for one in given if not isinstance(one, Weights)]
    if len(trials) < len(given):
        raise ConfigError(
            "A greedy soup scores models, and weights alone have none. Pass trials: "
            "etude.soup(search.top(5), score=...)."
        )
    sign = -1.0 if mode == "max" else 1.0

    def loss(model: Any) -> float:
        try:
            value = float(score(model))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"score={brief(score)} gave no number ({error}). Return one for the model.") from error
        return math.inf if math.isnan(value) else sign * value

    scored = sorted(((loss(trial.model()), nth) for nth, trial in enumerate(trials)))  # of equals the first
    best, first = scored[0]
    model, torch = trials[first].model(), torch_adapter()
    chosen: list[Weights] = [trials[first].weights]
    for _, nth in scored[1:]:
        tried = [*chosen, trials[nth].weights]
        torch.load_weights(model, _mixed(tried).load())
        reached = loss(model)
        if reached <= best and reached < math.inf:
            best, chosen = reached, tried
    return chosen


def _check_alike(first: Parts, other: Parts, name: str, others: str) -> None:
    for part, arrays in first.items():
        there: Mapping[str, Any] = other.get(part, {})
        for key, array in arrays.items():
            if key not in there or tuple(there[key].shape) != tuple(array.shape) or len(there) != len(arrays):
                raise StateError(
                    f"No mean of weights of different shapes: {part}.{key} is {tuple(array.shape)} in {name}, and "
                    f"{tuple(there[key].shape) if key in there else 'not there'} in {others}. Mix trials of one "
                    "architecture."
                )


def _mean(arrays: list[Any]) -> Any:
    first = arrays[0]
    if hasattr(first, "is_floating_point"):  # a tensor
        if not first.is_floating_point():
            return first
        return (sum(array.double() for array in arrays) / len(arrays)).to(first.dtype)
    if first.dtype.kind != "f":
        return first
    return (sum(array.astype("f8") for array in arrays) / len(arrays)).astype(first.dtype)
