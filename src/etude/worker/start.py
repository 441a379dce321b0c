"""The weights that a trial begins with, where they are not random, and the states of optimizers that go with them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etude.core.errors import StateError
from etude.core.events import OPTIMIZERS, START, Start
from etude.frameworks import torch_adapter


def load_start(trials: str, start: Start, model: Any) -> None:
    """Load the weights that a trial begins with into the model that its model function gave.

    Args:
        trials: The folder of all attempts.
        start: What they are.
        model: A module, or any nesting of modules, as it is at random.

    Raises:
        StateError: They are not there, or damaged, or do not fit at all.
    """
    from etude.frameworks import state_file

    torch = torch_adapter()
    if torch is None:
        raise StateError(
            f"The trial is to begin with the weights {start.name!r}, and its functions use no torch: weights are "
            "loaded into the modules of torch alone."
        )
    weights = state_file.read(Path(trials, f"{start.holder:05d}", START), start.digest)
    told = torch.load_weights(model, weights, shrink=start.shrink, perturb=start.perturb)
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
