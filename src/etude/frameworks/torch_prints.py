"""Fingerprints of how a training begins: of its model's first weights, and of its first batches.

Arms of an ablation are pairs if they have these in common, as far as they have the same things. They are compared, and
not believed: user code may draw from generators that nobody knows of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from etude.frameworks.torch import every
from etude.frameworks.torch_cuts import training_loaders
from etude.frameworks.torch_drift import checksums
from etude.frameworks.torch_telling import Drawn, Listener, let_tell

BATCHES: Final = 3
"""So many batches are looked at, of the first pass."""

Prints = dict[str, Any]
"""``weights``: parameter -> its checksum; ``batches``: a digest of the first ones."""


class Fingerprints:
    """Takes the fingerprints of one trial.

    Attributes:
        found: What was taken so far.
    """

    def __init__(self) -> None:
        self.found: Prints = {}
        self._left = BATCHES
        self._digest = hashlib.sha256()

    def model(self, modules: Mapping[str, nn.Module]) -> None:
        """Take those of a model's weights, the first time."""
        if "weights" not in self.found:
            tensors = {
                name: tensor
                for place, module in modules.items()
                for name, tensor in module.named_parameters(prefix=place)
                if not is_lazy(tensor)
            }
            sums = checksums(tensors.values()).tolist() if tensors else []
            self.found["weights"] = dict(zip(tensors, sums, strict=True))

    def data(self, data: Any) -> None:
        """Take those of the first batches that training loaders give from now on."""
        for loader in training_loaders(data):
            let_tell(loader, Listener(self._drawn, None), trains=False)

    def _drawn(self, drawn: Drawn) -> None:
        if not self._left:
            return
        self._left -= 1
        for tensor in every(torch.Tensor, drawn.batch):
            self._digest.update(str((tensor.dtype, tuple(tensor.shape))).encode())
            self._digest.update(checksums([tensor]).numpy().tobytes())
        self.found["batches"] = self._digest.hexdigest()[:16]
