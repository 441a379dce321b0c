"""Reports that the training function does not ask for: of Keras' ``fit`` and Lightning's ``Trainer``.

Where the model function returns a model that has a trainer, and the training function fits it without our callback, the
callback is put in for it. Nothing else is touched but that one model: a ``fit`` of its own for Keras, and for Lightning
``configure_callbacks``, which the Trainer asks a module for.

The first fit of a run is saved and resumed; those after it are reported alone, since nobody can tell what the training
function has done in between. Whoever has a loop of ``run.epochs`` reports by himself, and so is left alone.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from etude.frameworks import keras_adapter
from etude.frameworks.coats import Coat, Here, put_on, worn
from etude.frameworks.unasked_turns import Told, UnaskedTurns


class Unasked(Here):
    """Puts callbacks in for the training function of one run.

    Args:
        run: Its handle.
    """

    def __init__(self, run: Told) -> None:
        self._run = run
        self._fits = 0

    def see(self, model: Any) -> None:
        """Have what ``fit`` does with a model reported, if it is one that has a trainer."""
        keras = keras_adapter()
        if keras is not None and keras.is_model(model):
            from etude.frameworks import keras_fit

            keras_fit.put_in(model, self.turns)
        elif package_of(model):
            put_on(model, LIGHTNING, self)

    def turns(self) -> UnaskedTurns | None:
        """Return the turns of a fit that begins; None if the training function sees to it by itself."""
        if self._run.is_in_epochs or (not self._fits and self._run.epoch is not None):
            return None
        self._fits += 1
        return UnaskedTurns(self._run, counts=self._fits == 1)


PACKAGES: Final = ("lightning.pytorch", "pytorch_lightning")
"""The names under which Lightning can be loaded."""


def package_of(model: Any) -> str:
    """Return under which name the Lightning was loaded that a module is of; empty if it is no LightningModule."""
    for package in PACKAGES:
        base = getattr(sys.modules.get(package), "LightningModule", None)
        if base is not None and isinstance(model, base):
            return package
    return ""


def _with_ours(below: type[Any]) -> Mapping[str, Any]:
    """Return what a LightningModule's own ``configure_callbacks`` is replaced by."""

    def configure_callbacks(self: Any) -> Any:
        theirs = below.configure_callbacks(self)
        unasked = worn(self, LIGHTNING)
        if unasked is None:  # it was pickled, and is in another process
            return theirs
        from etude.frameworks.lightning import with_ours

        return with_ours(theirs, self.trainer, unasked.turns, package_of(self))

    return {"configure_callbacks": configure_callbacks}


LIGHTNING: Final = Coat("unasked", _with_ours, copied=False)
"""Of a LightningModule that the model function has returned."""
