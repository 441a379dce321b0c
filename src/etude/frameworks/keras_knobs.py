"""What of a running Keras training can be changed: threads and cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from etude.frameworks.thread_knobs import ThreadKnobs

LACKS: Final = {
    **dict.fromkeys(
        ("loader_workers", "prefetch", "pin_memory", "persistent_workers", "cache", "batch_size"),
        "fit() of Keras goes through the data by itself, and takes in no other way of loading before it ends. Load the"
        " data with a DataLoader of torch, in a loop of your own.",
    ),
    **dict.fromkeys(
        ("channels_last", "compile", "amp", "accumulation"),
        "Keras builds it into the training step when the model is compiled, and cannot change it before fit() ends. Set"
        " it where the model is made, as a hyperparameter.",
    ),
}
"""Knob -> why it cannot be set in a running ``fit``, and the mend."""


class KerasKnobs(ThreadKnobs):
    """Sets threads and cores, and says of the other knobs why they cannot be set.

    A backend with a pool of its own, as TensorFlow's and JAX's are, keeps as many threads as it began with: these are
    moved to the cores that are left.

    Args:
        say: Called with a line where something goes wrong.
        share: As for ``ThreadKnobs``.
    """

    def __init__(self, *, say: Callable[[str], None], share: int = 0) -> None:
        super().__init__(say=say, share=share)
        self.lacks |= LACKS
