"""Fingerprints of how a training begins: of its model's first weights, and of its first batches.

Arms of an ablation are pairs if they have these in common, as far as they have the same things. They are compared, and
not believed: user code may draw from generators that nobody knows of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any, Final

import torch
from torch.nn.parameter import is_lazy

from etude.frameworks.removal.nested import tensors
from etude.frameworks.torch import every, modules
from etude.frameworks.torch_cuts import training_loaders
from etude.frameworks.torch_drift import checksums
from etude.frameworks.torch_keras import untrained
from etude.frameworks.torch_telling import Drawn, Listener, let_tell

BATCHES: Final = 3
"""So many batches are looked at, of the first pass."""

KERAS: Final = "_torch_params."
"""What stands in front of the path of a weight of a Keras model in its name as a parameter of torch."""

Prints = dict[str, Any]
"""``weights``: parameter -> checksum; ``batches``: a digest of the first ones; ``tensors``: the same by tensor."""


class Fingerprints:
    """Takes the fingerprints of one trial.

    Attributes:
        found: What was taken so far.
    """

    def __init__(self) -> None:
        self.found: Prints = {}
        self._left = BATCHES
        self._digest = hashlib.sha256()
        self._each: dict[str, Any] = {}

    def model(self, built: Any, *, but_for: Collection[str] = ()) -> None:
        """Take those of a model's weights, the first time.

        Args:
            built: What the model function gave: modules, in any nesting.
            but_for: Weights that a repair gave another size: the base has none like them. Of Keras by their paths.
        """
        if "weights" not in self.found:
            places = modules(built).items()
            seeds = {one.name for place, module in places for one in untrained(module, prefix=place) if one.is_seed}
            there = {
                name: tensor
                for place, module in places
                for name, tensor in module.named_parameters(prefix=place)
                if name.rpartition(KERAS)[2] not in but_for and name not in seeds and not is_lazy(tensor)
            }
            sums = checksums(there.values()).tolist() if there else []
            self.found["weights"] = dict(zip(there, sums, strict=True))

    def cut(self, built: Any) -> None:
        """Leave out those of weights that are gone, since inputs were cut off.

        Those of layers with fewer inputs stay what they were: their columns are taken from these, bit for bit.
        """
        names = {name for place, module in modules(built).items() for name, _ in module.named_parameters(prefix=place)}
        self.found["weights"] = {name: one for name, one in self.found["weights"].items() if name in names}

    def data(self, data: Any) -> bool:
        """Take those of the first batches that training loaders give from now on; say whether there are any."""
        loaders = list(training_loaders(data))
        for loader in loaders:
            let_tell(loader, Listener(self._drawn, None), trains=False)
        return bool(loaders)

    def _drawn(self, drawn: Drawn) -> None:
        if not self._left:
            return
        self._left -= 1
        for tensor in every(torch.Tensor, drawn.batch):
            self._digest.update(str((tensor.dtype, tuple(tensor.shape))).encode())
            self._digest.update(checksums([tensor]).numpy().tobytes())
        for path, tensor in tensors(drawn.batch):
            each = self._each.setdefault("/".join(map(str, path)), hashlib.sha256())
            each.update(checksums([tensor]).numpy().tobytes())
        self.found["batches"] = self._digest.hexdigest()[:16]
        self.found["tensors"] = {where: each.hexdigest()[:16] for where, each in self._each.items()}
