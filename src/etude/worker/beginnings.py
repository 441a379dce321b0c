"""Fingerprints of how a training of an arm begins.

They are what a framework can tell of its model and of its first batches; and the first rows of data, where no loader
gives batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

from etude.core.data import Data
from etude.data.first_rows import first_rows
from etude.frameworks import keras_adapter, torch_adapter


class Beginning:
    """Takes the fingerprints of one trial."""

    def __init__(self) -> None:
        self._model: Any = None  # takes those of a model, where its framework has such
        self._rows: dict[str, Any] = {}

    @property
    def found(self) -> dict[str, Any]:
        """What was taken so far: ``weights`` by parameter, ``batches`` or ``data`` as a whole, ``tensors`` of these."""
        return {**self._rows, **(self._model.found if self._model is not None else {})}

    def data(self, found: Any) -> None:
        """Take those of the first batches of training loaders; without any, of the first rows of the training part."""
        if (taker := self._taker()) is not None and taker.data(found):
            return
        each = first_rows(found.train if isinstance(found, Data) else found)
        if each:
            whole = hashlib.sha256(repr(sorted(each.items())).encode()).hexdigest()[:16]
            self._rows = {"data": whole, "tensors": each}

    def model(self, built: Any, *, but_for: Collection[str] = ()) -> None:
        """Take those of the weights of what the model function gave, the first time.

        Args:
            built: A model, or several in any nesting.
            but_for: Weights that a repair gave another size: the base has none like them.
        """
        if (taker := self._taker()) is not None:
            taker.model(built, but_for=but_for)

    def cut(self, built: Any) -> None:
        """Leave out those of weights that are gone, since inputs were cut off."""
        if (taker := self._taker()) is not None:
            taker.cut(built)

    def _taker(self) -> Any:
        """Return what a framework takes them with; None if none is there that can."""
        if self._model is None and torch_adapter() is not None:
            from etude.frameworks.torch_prints import Fingerprints  # few want them

            self._model = Fingerprints()
        elif self._model is None and keras_adapter() is not None:
            from etude.frameworks.keras_prints import KerasFingerprints

            self._model = KerasFingerprints()
        return self._model
