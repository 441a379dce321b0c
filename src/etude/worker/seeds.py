"""The global random generators, set to a named stream, and put back."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from etude.core.streams import stream_seed
from etude.frameworks import keras_adapter, torch_adapter
from etude.frameworks.global_sources import global_sources


@contextmanager
def seeded(seed: int, *name: str | int) -> Iterator[None]:
    """Run a block under a named stream, and put the global generators back after it."""
    with kept_generators():
        seed_generators(seed, *name)
        yield


def seed_generators(seed: int, *name: str | int) -> None:
    """Set the global generators of ``random``, and of numpy, torch and Keras where they are loaded, to a stream."""
    random.seed(stream_seed(seed, *name))
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(stream_seed(seed, *name, bits=32))
    if torch := torch_adapter():
        torch.seed(stream_seed(seed, *name, bits=63))
    if keras := keras_adapter():
        keras.restore_random_state(None)  # when it is next asked, it seeds itself from Python's


@contextmanager
def kept_generators() -> Iterator[None]:
    """Run a block and put the global generators back after it."""
    before = [(source, source.get()) for source in global_sources().values()]
    try:
        yield
    finally:
        for source, state in before:
            source.set(state)
