"""What a training may begin with, if that is left to probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from etude.core.errors import ConfigError, StateError
from etude.core.events import LAST
from etude.core.text import brief
from etude.fit.choosing import Auto, check_auto
from etude.fit.soups import soup
from etude.fit.weights import TrialWeights, Weights
from etude.results.search import TrialResult

AUTO: Final = "auto"

MIXED: Final = 3
"""So many of the best trials are mixed."""


def read_auto(weights: object, modes: Mapping[str, str]) -> Auto | None:
    """Return how weights are chosen, if that is what a call wants.

    Args:
        weights: What it says.
        modes: The metrics of the experiment.

    Raises:
        ConfigError: It cannot be.
    """
    if isinstance(weights, Auto):
        check_auto(weights, modes)
        return weights
    return Auto() if isinstance(weights, str) and weights == AUTO else None


def candidates(auto: Auto, at: object) -> list[object]:
    """Return the weights that probes choose from, besides random ones.

    Args:
        auto: What the call says of them.
        at: What it says of the configuration.

    Raises:
        ConfigError: There are none.
    """
    given = auto.candidates if auto.candidates is not None else at
    if isinstance(given, TrialResult):
        return _of_trial(given)
    if auto.candidates is None:
        raise ConfigError(
            "weights='auto' chooses between weights of the trial at=, and at= is none. Pass at=search.best, or say "
            "whose weights there are to choose from: weights=etude.Auto(search.best)."
        )
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence) or not given:
        raise ConfigError(
            f"Auto(candidates={brief(given)}) is no list of weights. Pass etude.Auto(search.best), or "
            "etude.Auto(candidates=[search.best.weights, ...])."
        )
    return list(given)


def _of_trial(at: TrialResult) -> list[object]:
    """Return what a trial has to begin with."""
    best = at.weights
    found: list[Weights] = [best, best.shrunk()]
    if LAST in best.kept and best.at(LAST).epoch != best.epoch:
        found.append(best.at(LAST))
    return [*found, *_mixed(at)]


def _mixed(at: TrialResult) -> list[Weights]:
    """Return the mean of the best trials of a study, where there is one."""
    kept: list[TrialWeights] = []
    for trial in at.search.top(MIXED):
        try:
            kept.append(trial.weights)
        except ConfigError:  # it kept none
            continue
    mixed = soup(kept) if len(kept) > 1 else None
    try:
        if mixed is not None:
            mixed.load()
    except StateError:  # of different shapes
        return []
    return [mixed] if mixed is not None else []
