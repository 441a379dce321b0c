"""The weights that a trial begins with, where they are not random, and the states of optimizers that go with them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etude.core.errors import StateError
from etude.core.events import OPTIMIZERS, START, Start
from etude.frameworks.model_weights import load_weights


def load_start(trials: str, start: Start, model: Any) -> None:
    """Load the weights that a trial begins with into the model that its model function gave.

    Args:
        trials: The folder of all attempts.
        start: What they are.
        model: A module, a model of Keras, or any nesting of them, as it is at random.

    Raises:
        StateError: They are not there, or damaged, or do not fit at all.
    """
    from etude.frameworks import state_file

    weights = state_file.read(Path(trials, f"{start.holder:05d}", START), start.digest)
    told = load_weights(model, weights, shrink=start.shrink, perturb=start.perturb)
    if told is None:
        raise StateError(
            f"The trial is to begin with the weights {start.name!r}, and model() gave no module of torch and no model "
            "of Keras: weights are loaded into those alone."
        )
    if not told.whole:
        sys.stdout.write(f"{start.name}:\n{told.listed}\n")  # the attempt's log has all of it


def load_optimizers(trials: str, start: Start) -> Mapping[str, Any]:
    """Return the states of the optimizers that go with the weights that a trial begins with, by what they are called.

    Args:
        trials: The folder of all attempts.
        start: What it begins with.

    Raises:
        StateError: They are not there, or damaged.
    """
    from etude.frameworks import state_file

    if not start.optimizers:
        return {}
    found: Mapping[str, Any] = state_file.read(Path(trials, f"{start.holder:05d}", OPTIMIZERS), start.optimizers)
    return found
