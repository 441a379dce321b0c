"""Loaders of a data function, divided over ranks in place: each stays the object and, by name, the type that it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler

from etude.core.data import Data
from etude.core.errors import ConfigError
from etude.frameworks.torch import every
from etude.frameworks.torch_cuts import training_loaders
from etude.frameworks.torch_divided import Divided, make_whole
from etude.frameworks.torch_shard_evaluation import divide_evaluation
from etude.frameworks.torch_shard_training import Batch, divide_training
from etude.frameworks.torch_telling import Drawn, Listener, let_tell
from etude.frameworks.torch_views import is_iterable, shards_itself

Evaluation = Literal["whole", "divided"]


def shard(
    data: Any,
    *,
    rank: int,
    ranks: int,
    batch: Batch = "global",
    evaluation: Evaluation = "whole",
    drawn: Callable[[Drawn], object] | None = None,
    begins: Callable[[], object] | None = None,
) -> Any:
    """Let each loader give this rank's part of its batches; return the data.

    Training loaders are those of the part ``train``, where parts have names. Else it is the first, and each other whose
    order is not that of its data set. All others are for evaluation. All ranks have to be given loaders whose
    generators are alike.

    Args:
        data: What the data function returned: loaders in any nesting. What is no loader is left alone, but for loaders
            of other kinds: to train on one of these is refused.
        rank: Which rank this is, from 0.
        ranks: How many there are. One is fine: its batches are what they were.
        batch: ``"global"``: a step has the batch that the function asked for, divided over the ranks.
            ``"per_rank"``: each rank has such a batch, and a step as many as there are ranks.
        evaluation: ``"whole"``: every rank goes through all of what is for evaluation. ``"divided"``: each has its
            part, without padding, and the length of ``loader.dataset`` is that of the part.
        drawn: Called just before a loader that was divided gives a batch.
        begins: Called when a pass over a training loader begins, on all ranks at the same point.

    Raises:
        ConfigError: A loader cannot be divided; the message says which, and what to do.
    """
    for name, value, known in (("batch", batch, Batch), ("evaluation", evaluation, Evaluation)):
        if value not in get_args(known):
            raise ConfigError(f"{name}={value!r} is unknown. Pass one of {', '.join(map(repr, get_args(known)))}.")
    if not 0 <= rank < ranks:
        raise ConfigError(f"rank={rank} cannot be one of ranks={ranks}. They are counted from 0: rank is below ranks.")
    _refuse_foreign(data)
    loaders = list(every(DataLoader, data))
    for loader in loaders:
        make_whole(loader)
    first = {id(loader) for loader in training_loaders(data)}
    named = isinstance(data, Data) or (isinstance(data, Mapping) and "train" in data)
    for number, loader in enumerate(loaders, start=1):
        one = Divided(loader, _called(loader, number, len(loaders)), rank, ranks)
        if id(loader) in first or not (named or _is_sequential(loader)):
            per_step = divide_training(one, batch)
            let_tell(loader, Listener(drawn, begins), trains=True, per_step=per_step)
        elif evaluation == "divided":
            divide_evaluation(one)
            let_tell(loader, Listener(drawn, None), trains=False)
    return data


def _refuse_foreign(data: Any) -> None:
    """Refuse to train on what gives batches and is no loader of PyTorch: every rank would train on whole ones.

    Raises:
        ConfigError: The data function gave such a thing to train on.
    """
    part = data.train if isinstance(data, Data) else data
    if isinstance(part, Mapping):
        part = part.get("train", tuple(part.values())[:1])
    elif isinstance(data, list | tuple):
        part = data[:1]  # the others are for evaluation, which is whole
    for thing in part if isinstance(part, list | tuple) else (part,):
        if _gives_batches(thing) and not shards_itself(thing):
            raise ConfigError(
                f"data() gave a {type(thing).__name__} to train on, which gives batches and is no DataLoader of "
                "PyTorch, so nobody can divide them over the ranks, and each would train on whole ones. Return the "
                "DataLoader itself, or one of a class derived from it: its batches come on run.device. If it gives "
                "each rank its own part by itself, say so with an attribute: shards_itself = True."
            )


def _gives_batches(thing: Any) -> bool:
    """Say whether something is a loader of another kind: it is gone through, and has a batch size or a DataLoader."""
    if isinstance(thing, DataLoader | Dataset | torch.Tensor | str) or not hasattr(type(thing), "__iter__"):
        return False
    held = vars(thing).values() if hasattr(thing, "__dict__") else ()
    return hasattr(thing, "batch_size") or any(isinstance(one, DataLoader) for one in held)


def _called(loader: DataLoader[Any], number: int, of: int) -> str:
    """Return what a loader is called in messages."""
    which = "The loader" if of == 1 else f"Loader {number} of the {of}"
    return f"{which} that data() gave ({type(loader.dataset).__name__}, batch_size={loader.batch_size})"


def _is_sequential(loader: DataLoader[Any]) -> bool:
    """Say whether a loader goes through its data set in its own order."""
    if is_iterable(loader.dataset):
        return True
    sampler: Any = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    return isinstance(sampler.sampler if isinstance(sampler, BatchSampler) else sampler, SequentialSampler | range)
