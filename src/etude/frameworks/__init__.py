"""Adapters: what a framework needs so that a trial is seeded, placed and attached. Loaded by name."""

from __future__ import annotations

import sys
from typing import Any


def torch_adapter() -> Any:
    """Return our torch adapter if the user's code has loaded torch; never load it ourselves."""
    if sys.modules.get("torch") is None:
        return None
    from etude.frameworks import torch

    return torch


def torch_data_adapter() -> Any:
    """Return our adapter for torch's data sets and loaders, likewise."""
    if sys.modules.get("torch") is None:
        return None
    from etude.frameworks import torch_data

    return torch_data


def keras_adapter() -> Any:
    """Return our Keras adapter if the user's code has loaded Keras 3; never load it ourselves."""
    if "keras.src.backend.common.global_state" not in sys.modules:
        return None
    from etude.frameworks import keras

    return keras


def other_keras_backend() -> str:
    """Return the backend of Keras if the user's code has loaded Keras and it is not torch; else an empty text."""
    backend = getattr(sys.modules.get("keras.src.backend.config"), "backend", None)
    name = backend() if callable(backend) else "torch"
    return "" if name == "torch" else str(name)


def torch_knobs_adapter() -> Any:
    """Return what sets the knobs of a training with torch, likewise."""
    if sys.modules.get("torch") is None:
        return None
    from etude.frameworks.torch_knobs import TorchKnobs

    return TorchKnobs


def torch_features_adapter() -> Any:
    """Return our adapter for features in torch's data sets and loaders, likewise."""
    if sys.modules.get("torch") is None:
        return None
    from etude.frameworks import torch_features

    return torch_features
