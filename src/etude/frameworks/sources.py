"""What is random, whatever draws from it; and all of that which is global to a process."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from etude.frameworks import keras_adapter, torch_adapter


class Source(NamedTuple):
    """Something random: how its state is read, and set."""

    get: Callable[[], Any]
    set: Callable[[Any], Any]


def global_sources() -> dict[str, Source]:
    """Return the global generators of ``random``, and of numpy, torch and Keras where they are loaded."""
    sources = cpu_sources()
    if torch := torch_adapter():
        sources["torch"] = Source(torch.random_state, torch.restore_random_state)  # with those of GPUs
    if keras := keras_adapter():
        sources["keras"] = Source(keras.random_state, keras.restore_random_state)
    return sources


def cpu_sources() -> dict[str, Source]:
    """Return those that a sampler may draw from: of the CPU alone, since they are read and set for every few draws."""
    sources = {"random": Source(random.getstate, random.setstate)}
    if numpy := sys.modules.get("numpy"):
        sources["numpy"] = Source(lambda: numpy.random.get_state(legacy=False), numpy.random.set_state)
    if torch_adapter():
        import torch

        sources["torch"] = Source(torch.get_rng_state, torch.set_rng_state)
    return sources
