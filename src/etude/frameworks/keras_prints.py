"""Fingerprints of how a training of a Keras model begins, where there is no torch: of its first weights."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

import keras
import numpy as np

from etude.frameworks.keras_removal.models import models


class KerasFingerprints:
    """Takes the fingerprints of one trial.

    Attributes:
        found: What was taken so far: under ``weights`` a digest of each variable, by its path.
    """

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def model(self, built: Any, *, but_for: Collection[str] = ()) -> None:
        """Take those of a model's weights, the first time.

        Args:
            built: What the model function gave.
            but_for: Weights that a repair gave another size: the base has none like them.
        """
        if "weights" not in self.found:
            self.found["weights"] = {
                variable.path: _digest(variable)
                for model in models(built)
                for variable in model.weights
                if variable.path not in but_for
            }

    def data(self, data: Any) -> bool:
        """Say that no batches of it are looked at."""
        return False

    def cut(self, built: Any) -> None:
        """Leave out those of weights that are gone, since inputs were cut off."""
        paths = {variable.path for model in models(built) for variable in model.weights}
        self.found["weights"] = {path: one for path, one in self.found["weights"].items() if path in paths}


def _digest(variable: Any) -> str:
    value = np.ascontiguousarray(keras.ops.convert_to_numpy(variable.value))
    return hashlib.sha256(f"{value.dtype} {value.shape}".encode() + value.tobytes()).hexdigest()[:16]
