"""All that is random and global to a process, with what frameworks draw from on GPUs."""

from __future__ import annotations

from etude.frameworks import keras_adapter, torch_adapter
from etude.frameworks.sources import Source, cpu_sources


def global_sources() -> dict[str, Source]:
    """Return the global generators of ``random``, and of numpy, torch and Keras where they are loaded."""
    sources = cpu_sources()
    if torch := torch_adapter():
        sources["torch"] = Source(torch.random_state, torch.restore_random_state)  # with those of GPUs
    if keras := keras_adapter():
        sources["keras"] = Source(keras.random_state, keras.restore_random_state)
    return sources
