"""What a training may begin with, if that is left to probes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from etude.core.errors import ConfigError, StateError
from etude.core.events import LAST
from etude.fit.choosing import Auto, check_auto
from etude.fit.soups import soup
from etude.fit.weights import TrialWeights, Weights
from etude.results import TrialResult

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
    if auto.candidates is not None:
        return list(auto.candidates)
    if not isinstance(at, TrialResult):
        raise ConfigError(
            "weights='auto' chooses between weights of the trial at=, and at= is none. Pass at=search.best, or say "
            "what there is to choose from: weights=etude.Auto(candidates=[search.best.weights, ...])."
        )
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
