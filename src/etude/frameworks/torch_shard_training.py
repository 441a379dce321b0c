"""Training loaders, divided over ranks in place: each step's batch, or one for each rank.

Every rank draws the global batch that one rank would draw, from the user's own sampler, and takes its slice of it. So
shuffling, weights, buckets and the order are the sampler's own, and the position, which counts batches, says nothing
of ranks. What can be read from a training loader is that of the whole: its data set, its batch size, and its length,
which is the number of steps; so a schedule that is computed from them stays what it is on one rank. Only its batches
are smaller, so a sum over them that is divided by the size of the whole is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import torch
from torch.utils.data import BatchSampler

from etude.core.errors import ConfigError
from etude.core.streams import stream_seed
from etude.core.text import count
from etude.frameworks.torch_divided import Divided
from etude.frameworks.torch_drawing import seed_all
from etude.frameworks.torch_samplers import check_undivided
from etude.frameworks.torch_shares import Shares
from etude.frameworks.torch_views import Collated, Slices, is_iterable, length_or_none, shards_itself, stand_in

Batch = Literal["global", "per_rank"]

WAY_OUT: Final = (
    "If it gives each rank its own part by itself, say so with an attribute of the data set: dataset.shards_itself ="
    " True."
)


def divide_training(one: Divided, batch: Batch) -> int:
    """Divide a loader for training.

    Returns:
        How many batches of those that its length counts are one step.

    Raises:
        ConfigError: It cannot be divided.
    """
    loader = one.loader
    size = loader.batch_size
    if size is None and loader.batch_sampler is not None:
        size = getattr(loader.batch_sampler, "batch_size", None)
    elif size is None and not is_iterable(loader.dataset):
        size = getattr(loader.sampler, "batch_size", None)
    n = length_or_none(loader.dataset)
    if n is not None and n < one.ranks:
        raise ConfigError(
            f"{one.name} has {count(n, 'example')}, less than there are ranks ({one.ranks}). Use fewer ranks."
        )
    if batch == "global" and isinstance(size, int) and size % one.ranks:
        raise ConfigError(f"{one.name} cannot be divided over {one.ranks} ranks: {_sizes(size, one.ranks)}")
    if not getattr(loader, "in_order", True):
        raise ConfigError(
            f"{one.name} has in_order=False, so nobody can tell which examples a batch has. Leave in_order out."
        )
    if is_iterable(loader.dataset):
        return _divide_stream(one, batch)
    place = "batch_sampler" if loader.batch_sampler is not None else "sampler"
    inner = getattr(loader, place)
    try:
        check_undivided(inner)
    except ConfigError as error:
        raise ConfigError(f"{one.name} cannot be divided. {error}") from None
    shares = Shares(
        inner,
        rank=one.rank,
        ranks=one.ranks,
        generator=loader.generator,
        per_round=1 if batch == "global" else one.ranks,
        size=size,
        batches=place == "batch_sampler",
        name=one.name,
    )
    shares.check()
    one.put(place, shares)
    if one.rank:  # the first rank draws what one alone would
        one.put("worker_init_fn", Reseeded(one.rank, loader.worker_init_fn))
    return 1  # the length of a loader is that of its sampler


def _sizes(size: int, ranks: int) -> str:
    """Return which batch sizes would do."""
    lower = size // ranks * ranks
    would = f"{lower} or {lower + ranks}" if lower else str(ranks)
    are = "is" if size == 1 else "are"
    return (
        f"{count(size, 'example')} in a batch {are} no multiple of {ranks}. Use batch_size={would}; or pass "
        f'batch="per_rank", so that each rank has {size} in a step and all together {size * ranks}.'
    )


class Reseeded:
    """Begins a worker process of a loader: those of other ranks draw other things for their examples.

    Loaders of all ranks have equal generators, so that orders are equal, and worker processes are seeded from them.

    Args:
        rank: Which rank this is.
        begin: The user's function that begins a worker process; None if there is none.
    """

    def __init__(self, rank: int, begin: Callable[[int], Any] | None) -> None:
        self._rank = rank
        self._begin = begin

    def __call__(self, worker: int) -> None:
        """Seed the global generators, and call the user's function."""
        seed_all(stream_seed(torch.initial_seed(), "rank", self._rank, bits=63))
        if self._begin is not None:
            self._begin(worker)


def _divide_stream(one: Divided, batch: Batch) -> int:
    """Divide a loader whose data set can only be gone through; return what ``divide_training`` does."""
    loader, ranks = one.loader, one.ranks
    itself = shards_itself(loader.dataset)
    per_step = 1 if batch == "global" else ranks
    if loader.batch_size is not None and batch == "global":
        own = BatchSampler(loader.sampler, loader.batch_size // ranks, loader.drop_last)
        one.put("batch_sampler", own)
    if itself:
        return 1
    if loader.batch_size is None and batch == "global" and ranks > 1:
        raise ConfigError(
            f"{one.name} cannot be divided: its data set gives what no index stands for, and whole batches maybe. Give "
            'it a batch_size; or pass batch="per_rank", and each rank takes every '
            f"{ranks}th of what it gives. {WAY_OUT}"
        )
    slices = Slices(
        (loader.batch_size or 1) * per_step,
        rank=one.rank,
        ranks=ranks,
        drop_last=loader.drop_last,
        generator=loader.generator,
    )
    try:
        shown = stand_in(loader.dataset, gives=slices)
    except TypeError as error:
        raise ConfigError(f"{one.name} cannot be divided: nothing can stand for its data set. {WAY_OUT}") from error
    one.put("dataset", shown)
    one.put("collate_fn", Collated(loader.collate_fn))
    return per_step
