"""Loaders for evaluation, divided over ranks in place: each rank has its part of the examples, without padding."""

from __future__ import annotations

from typing import Any

from torch.utils.data import BatchSampler, Dataset, Subset

from etude.core.errors import ConfigError
from etude.core.text import count
from etude.frameworks.torch_divided import Divided
from etude.frameworks.torch_passes import slice_of
from etude.frameworks.torch_views import Turns, is_iterable, length_or_none, shards_itself, stand_in


def divide_evaluation(one: Divided) -> None:
    """Divide a loader for evaluation; the length of its data set is that of the part.

    Raises:
        ConfigError: It cannot be divided.
    """
    loader, dataset = one.loader, one.loader.dataset
    n = length_or_none(dataset)
    if n is not None and n < one.ranks:
        raise ConfigError(
            f"{one.name} has {count(n, 'example')}, less than there are ranks ({one.ranks}), and evaluation is to be "
            'divided. Use evaluation="whole".'
        )
    if is_iterable(dataset):
        if not shards_itself(dataset):
            length = None if n is None else len(range(one.rank, n, one.ranks))
            one.put("dataset", stand_in(dataset, length=length, gives=Turns(rank=one.rank, ranks=one.ranks)))
        return
    place = "batch_sampler" if loader.batch_sampler is not None else "sampler"
    sampler: Any = getattr(loader, place)
    batched = isinstance(sampler, BatchSampler)
    inner = sampler.sampler if batched else sampler
    own = _own_indices(one, inner, sampler.batch_size if batched and sampler.drop_last else 1)
    if isinstance(dataset, Dataset):
        shown = stand_in(dataset, length=len(own))
    else:  # a list, or the like, for which nothing of its class can stand
        shown, own = Subset(dataset, own), range(len(own))
    one.put("dataset", shown)
    one.put(place, BatchSampler(own, sampler.batch_size, drop_last=False) if batched else own)


def _own_indices(one: Divided, sampler: Any, whole: int) -> range:
    """Return this rank's part of the indices of a sampler in order; a rest that is no multiple of ``whole`` is none."""
    indices = sampler if isinstance(sampler, range) else range(len(sampler))
    n = len(indices) // whole * whole
    return indices[slice_of(n, rank=one.rank, ranks=one.ranks)]
