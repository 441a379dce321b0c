"""The training examples that ranks share out by importance: whose they are, and what the criterion saw of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from etude.core.errors import ConfigError
from etude.core.text import count
from etude.frameworks.torch import every
from etude.frameworks.torch_classes import labels_of
from etude.frameworks.torch_shares import Shares, partition, shares_of
from etude.frameworks.torch_telling import Drawn
from etude.frameworks.torch_watch import Taken, Watch

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Examples:
    """The examples of the one loader that trains.

    Attributes:
        n: How many there are.
        example_b: How many bytes one has: as the data set holds it, or else as it is in a batch; None if neither can be
            told.
        called: Whether a criterion has been watched.

    Args:
        loaders: Those that train, divided.
        watch: What the criterion saw.

    Raises:
        ConfigError: There is not one loader, or its examples have no indices.
    """

    def __init__(self, loaders: Sequence[DataLoader[Any]], watch: Watch) -> None:
        if len(loaders) != 1:
            raise ConfigError(
                f"A partition assigns the examples of one loader, and data() gives {count(len(loaders), 'loader')} to "
                "train on. Join their data sets, torch.utils.data.ConcatDataset([...]), and make one loader of them."
            )
        [self._loader] = loaders
        if shares_of(self._loader) is None:
            raise ConfigError(
                f"A partition assigns examples by their index, and the data set {type(self._loader.dataset).__name__} "
                "has none. Give it __getitem__ and __len__."
            )
        _check_draws_all(shares_of(self._loader))
        self._watch = watch
        watch.asleep = True
        self.n = len(self._loader.dataset)  # type: ignore[arg-type] # it has a length, since it has indices
        self.example_b = _bytes_of(self._loader.dataset)

    @functools.cached_property
    def labels(self) -> npt.NDArray[np.int64] | None:
        """The class of each, by its index; None if the data set does not say."""
        return labels_of(self._loader.dataset)

    @property
    def called(self) -> bool:
        """Whether a criterion has been watched."""
        return self._watch.called

    def drawn(self, drawn: Drawn) -> None:
        """Take in which batch comes next."""
        if drawn.loader is not self._loader:
            return
        if self.example_b is None and drawn.ids:
            self.example_b = _bytes_in(drawn.batch, len(drawn.ids))
        if not self._watch.asleep:
            self._watch.drawn(drawn.ids if drawn.weight else None, drawn.batch)

    def record(self, wanted: bool) -> None:
        """Say whether what the criterion sees is wanted from now on."""
        self._watch.asleep = not wanted

    def take(self) -> Taken:
        """Return what it saw since the last time."""
        return self._watch.take()

    def assign(self, parts: Any) -> None:
        """Let each rank draw from a part of its own, from the next pass on."""
        partition(self._loader, parts)


def _check_draws_all(shares: Shares | None) -> None:
    """Refuse a sampler that does not draw each example once: a partition would take its place.

    Raises:
        ConfigError: It does not, or nobody can tell.
    """
    sampler: Any = shares.sampler if shares is not None else None
    while isinstance(sampler, BatchSampler):
        sampler = sampler.sampler
    if (
        isinstance(sampler, RandomSampler)
        and not sampler.replacement
        and sampler.num_samples == len(sampler.data_source)
    ):
        return
    if isinstance(sampler, SequentialSampler | range):
        return
    raise ConfigError(
        f"A partition assigns all examples of a data set, each to one rank, and the loader draws by a "
        f"{type(sampler).__name__}, which may draw some of them only, or some more often. Leave the sampler out, with "
        "shuffle=True; for a part of a data set, make it one: torch.utils.data.Subset(dataset, indices)."
    )


def _bytes_of(dataset: Any) -> int | None:
    """Return the bytes of an example, by the arrays that the data set holds; it is asked for none."""
    tensors = getattr(dataset, "tensors", None)
    if isinstance(tensors, tuple | list) and all(torch.is_tensor(one) for one in tensors):
        return sum(int(one[0].nbytes) for one in tensors if len(one))
    data = getattr(dataset, "data", None)
    nbytes = getattr(data, "nbytes", None)
    try:
        return int(nbytes / len(data)) if nbytes and len(data) else None  # type: ignore[arg-type]
    except TypeError:
        return None


def _bytes_in(batch: Any, n: int) -> int | None:
    """Return the bytes of an example, by the tensors of a batch; padding and copies count."""
    nbytes: int = sum(one.nbytes for one in every(torch.Tensor, batch))
    return nbytes // n or None
