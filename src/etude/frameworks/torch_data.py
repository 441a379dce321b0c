"""PyTorch's data sets and loaders: what they are made of, and two of them as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
)

from etude.frameworks.coats import plain_class
from etude.frameworks.torch import OURS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PASSED_ON: Final = (
    *("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context"),
    *("prefetch_factor", "persistent_workers", "pin_memory_device"),
)
"""What a loader of both has from that of the training part, beside its batches."""


class Inside(NamedTuple):
    """What a data set is made of.

    Attributes:
        parts: Data sets, arrays, or tuples of them; of several, the rows follow each other.
        rows: Which rows of these it has; None for all.
    """

    parts: tuple[Any, ...]
    rows: Sequence[int] | None = None


def is_tensor(value: Any) -> bool:
    """Say whether something is a tensor."""
    return torch.is_tensor(value)


def as_array(tensor: torch.Tensor) -> npt.NDArray[np.generic]:
    """Return a tensor as an array with the same bytes in each row: of a type that numpy lacks, as the bytes alone."""
    tensor = tensor.detach().cpu().contiguous()
    try:
        return tensor.numpy()
    except TypeError:
        return tensor.unsqueeze(-1).view(torch.uint8).numpy()


def inside(value: Any) -> Inside | None:
    """Return what a loader or a data set is made of; None if it is neither.

    Raises:
        ValueError: It is one, and does not say, so that its rows may be others each time; the message says why.
    """
    if isinstance(value, DataLoader):
        return Inside((value.dataset,), _drawn(value))
    if isinstance(value, Subset):
        return Inside((value.dataset,), value.indices)
    if isinstance(value, ConcatDataset):
        return Inside(tuple(value.datasets))
    if isinstance(value, TensorDataset):
        return Inside((value.tensors,))
    if not isinstance(value, Dataset):
        return None
    data, targets = getattr(value, "data", None), getattr(value, "targets", None)
    if data is not None and targets is not None and not isinstance(value, IterableDataset):
        n = len(value)  # type: ignore[arg-type] # it has a length, or what is raised says that it has none
        if len(data) == len(targets) == n:  # as those of torchvision, before any transform
            return Inside(((data, torch.as_tensor(targets) if isinstance(targets, list) else targets),))
    raise ValueError(f"{type(value).__name__} is a data set whose rows may be others each time that they are asked for")


def _drawn(loader: DataLoader[Any]) -> Sequence[int] | None:
    """Return which rows a loader draws; None for all.

    Raises:
        ValueError: Its sampler does not say.
    """
    sampler = _sampler(loader)
    if sampler is None or isinstance(sampler, SequentialSampler | RandomSampler):
        return None
    if isinstance(sampler, SubsetRandomSampler):
        return sampler.indices
    raise ValueError(f"a loader has the sampler {type(sampler).__name__}, which does not say which rows it draws")


def _sampler(loader: DataLoader[Any]) -> Any:
    """Return what says which rows a loader draws, and in which order; None if it is the data set itself."""
    if isinstance(loader.dataset, IterableDataset):
        return None
    batches = loader.batch_sampler
    if batches is None:
        return loader.sampler
    return batches.sampler if type(batches) is BatchSampler else batches


def join(train: Any, valid: Any) -> Any:
    """Return two tensors, data sets or loaders as one, the training part first; None if they are none of these.

    Args:
        train: The training part. A loader of both has all its settings from it.
        valid: The validation part.

    Raises:
        ValueError: They cannot be joined; the message says why.
    """
    if torch.is_tensor(train) and torch.is_tensor(valid):
        return torch.cat([train, valid])
    if isinstance(train, DataLoader) and isinstance(valid, DataLoader):
        return _joined(train, valid)
    if isinstance(train, IterableDataset) or isinstance(valid, IterableDataset):
        raise ValueError("one of them is an IterableDataset, and it is not known in which order they are to come")
    if isinstance(train, Dataset) and isinstance(valid, Dataset):
        return ConcatDataset([train, valid])
    return None


def _joined(train: DataLoader[Any], valid: DataLoader[Any]) -> DataLoader[Any]:
    ours = getattr(train, OURS, None)
    given = {name: getattr(train, name) for name in PASSED_ON if getattr(train, name, None) not in (None, "")}
    own = train.generator if train.generator is not ours else None
    both = join(_its_rows(train), _its_rows(valid))
    sampler = _sampler(train)
    shuffles = isinstance(sampler, RandomSampler | SubsetRandomSampler)
    if isinstance(sampler, RandomSampler) and (sampler.replacement or sampler.num_samples != len(train.dataset)):  # type: ignore[arg-type]
        raise ValueError("the loader of train draws some of its rows only, or some twice")
    generator = getattr(sampler, "generator", None) if shuffles else None
    drawn = RandomSampler(both, generator=generator if generator is not getattr(sampler, OURS, None) else None)
    size, drop_last = train.batch_size, train.drop_last
    if type(train.batch_sampler) is BatchSampler:
        size, drop_last = train.batch_sampler.batch_size, train.batch_sampler.drop_last
    return DataLoader(
        both,
        batch_size=size,
        sampler=drawn if shuffles else None,
        drop_last=drop_last,
        generator=own,
        **given,
    )


def _its_rows(loader: DataLoader[Any]) -> Dataset[Any]:
    """Return the rows that a loader draws, as a data set."""
    if plain_class(loader) is not DataLoader:
        raise ValueError(f"a loader of a class of its own, {type(loader).__name__}, may do more than can be seen")
    rows = _drawn(loader)
    return loader.dataset if rows is None else Subset(loader.dataset, rows)
