"""Plans carried out again: a driver makes them, and workers do what they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from etude.frameworks.keras_removal.edits import KerasPlan
from etude.frameworks.keras_removal.plan import apply


def replay(model: Any, plain: Mapping[str, Any], *, seed: int) -> None:
    """Carry out a plan, in place.

    Args:
        model: What the model function gave, as the plan was made for.
        plain: The plan as plain data.
        seed: Of the trial.
    """
    apply(model, msgspec.convert(plain, KerasPlan), seed=seed)
