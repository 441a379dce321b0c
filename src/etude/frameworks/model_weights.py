"""Weights into what a model function gave, of torch or of Keras."""

from __future__ import annotations

from typing import Any

from etude.frameworks import torch_adapter
from etude.frameworks.loading import Loaded, Parts
from etude.frameworks.removers import is_keras


def load_weights(model: Any, weights: Parts, *, shrink: float = 1.0, perturb: float = 0.0) -> Loaded | None:
    """Load weights into what a model function gave, and tell which; None if nothing of it can be loaded into.

    Args:
        model: Modules of PyTorch or models of Keras, in any nesting.
        weights: The states of modules, by what they are called.
        shrink: How much of the weights is taken; what no gradient changes is taken as it is.
        perturb: How much of what the model has by now is added to it.

    Raises:
        StateError: Nothing fits.
    """
    if is_keras(model):
        from etude.frameworks.keras_weights import load_weights as into_keras

        return into_keras(model, weights, shrink=shrink, perturb=perturb)
    torch = torch_adapter()
    if torch is None or not torch.modules(model):
        return None
    told: Loaded = torch.load_weights(model, weights, shrink=shrink, perturb=perturb)
    return told
