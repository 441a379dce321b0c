"""Loaders of a data function, divided over ranks in place: each stays the object and, by name, the type that it was.

Every rank draws the global batch that one rank would draw, from the user's own sampler, and takes its slice of it. So
shuffling, weights, buckets and the order are the sampler's own, and the position, which counts batches, says nothing
of ranks. What can be read from a training loader is that of the whole: its data set, its batch size, and its length,
which is the number of steps; so a schedule that is computed from them stays what it is on one rank. Only its batches
are smaller, so a sum over them that is divided by the size of the whole is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler, Subset

from etude.core.data import Data
from etude.core.errors import ConfigError
from etude.core.streams import stream_seed
from etude.core.text import count
from etude.frameworks.torch import every
from etude.frameworks.torch_cuts import training_loaders
from etude.frameworks.torch_drawing import seed_all
from etude.frameworks.torch_passes import slice_of
from etude.frameworks.torch_samplers import check_undivided
from etude.frameworks.torch_shares import Shares
from etude.frameworks.torch_views import (
    Collated,
    Noted,
    Slices,
    Turns,
    is_iterable,
    length_or_none,
    shards_itself,
    stand_in,
)

Batch = Literal["global", "per_rank"]
Evaluation = Literal["whole", "divided"]

WHOLE: Final = "_etude_whole"
"""What of a loader was replaced."""
PER_STEP: Final = "_etude_per_step"
"""How many batches of the user's are one step."""
TELLS: Final = "_etude_tells"
TRAINS: Final = "_etude_trains"
"""Whether it is divided for training."""
BEGINS: Final = "_etude_begins"
TOLD: Final = "_etude_told"
NAMES: Final = ("__module__", "__qualname__")
WAY_OUT: Final = (
    "If it gives each rank its own part by itself, say so with an attribute of the data set: dataset.shards_itself ="
    " True."
)


class Drawn(NamedTuple):
    """A batch that a divided loader gives next.

    Attributes:
        ids: The indices of its examples, as the sampler gave them, in order; None where there are no indices.
        weight: What a mean over this batch counts in the mean over ranks: this rank's examples times ranks, by all of
            this step. 0 means that all its examples are another rank's, and it is there to be as many steps.
        n: How many examples all ranks have in this step; 0 if nobody can tell.
        loader: Who gives it.
        batch: It.
    """

    ids: Sequence[Any] | None
    weight: float
    n: int
    loader: DataLoader[Any]
    batch: Any


Tell = Callable[[Drawn], object]


def shard(
    data: Any,
    *,
    rank: int,
    ranks: int,
    batch: Batch = "global",
    evaluation: Evaluation = "whole",
    drawn: Tell | None = None,
    begins: Callable[[], object] | None = None,
) -> Any:
    """Let each loader give this rank's part of its batches; return the data.

    Training loaders are those of the part ``train``, where parts have names. Else it is the first, and each other whose
    order is not that of its data set. All others are for evaluation. All ranks have to be given loaders whose
    generators are alike.

    Args:
        data: What the data function returned: loaders in any nesting. What is no loader is left alone.
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
    loaders = list(every(DataLoader, data))
    for loader in loaders:
        make_whole(loader)
    first = {id(loader) for loader in training_loaders(data)}
    named = isinstance(data, Data) or (isinstance(data, Mapping) and "train" in data)
    for number, loader in enumerate(loaders, start=1):
        one = _One(loader, _called(loader, number, len(loaders)), rank, ranks)
        if id(loader) in first or not (named or _is_sequential(loader)):
            _share(one, batch)
            setattr(loader, TRAINS, True)
            setattr(loader, BEGINS, begins)
        elif evaluation == "divided":
            _divide(one)
        else:
            continue
        setattr(loader, TELLS, drawn)
        loader.__class__ = _telling(type(loader))
    return data


class _One(NamedTuple):
    """A loader that is divided.

    Attributes:
        loader: It.
        name: What it is called in messages.
        rank: Which rank this is.
        ranks: How many there are.
    """

    loader: DataLoader[Any]
    name: str
    rank: int
    ranks: int


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


def _set(loader: DataLoader[Any], name: str, value: Any) -> None:
    """Set what torch forbids to set, since a pass that is under way would not know of it: none is, here."""
    loader.__dict__.setdefault(WHOLE, {}).setdefault(name, getattr(loader, name))
    object.__setattr__(loader, name, value)
    loader._iterator = None  # it may have worker processes that go by what was there


def make_whole(loader: DataLoader[Any]) -> None:
    """Undo what was done to a loader: it may be older than this run, and serve many."""
    for name, value in loader.__dict__.pop(WHOLE, {}).items():
        object.__setattr__(loader, name, value)
        loader._iterator = None
    for name in (PER_STEP, TELLS, TRAINS, BEGINS):
        loader.__dict__.pop(name, None)


def undivide(data: Any) -> None:
    """Let all loaders give what they would give to one rank: a library divides their batches itself."""
    for loader in every(DataLoader, data):
        make_whole(loader)
        cls = type(loader)
        if TOLD in vars(cls):
            loader.__class__ = cls.__mro__[1]


# --- training loaders -----------------------------------------------------------------------------


def _share(one: _One, batch: Batch) -> None:
    """Divide a training loader."""
    loader = one.loader
    size = loader.batch_size
    if size is None and loader.batch_sampler is not None:
        size = getattr(loader.batch_sampler, "batch_size", None)
    elif size is None and not is_iterable(loader.dataset):
        size = getattr(loader.sampler, "batch_size", None)
    if batch == "global" and isinstance(size, int) and size % one.ranks:
        raise ConfigError(f"{one.name} cannot be divided over {one.ranks} ranks: {_sizes(size, one.ranks)}")
    n = length_or_none(loader.dataset)
    if n is not None and n < one.ranks:
        raise ConfigError(
            f"{one.name} has {count(n, 'example')}, less than there are ranks ({one.ranks}). Use fewer ranks."
        )
    if not getattr(loader, "in_order", True):
        raise ConfigError(
            f"{one.name} has in_order=False, so nobody can tell which examples a batch has. Leave in_order out."
        )
    if is_iterable(loader.dataset):
        _share_stream(one, batch)
        return
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
    _set(loader, place, shares)
    if one.rank:  # the first rank draws what one alone would
        _set(loader, "worker_init_fn", Reseeded(one.rank, loader.worker_init_fn))


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


def _sizes(size: int, ranks: int) -> str:
    """Return which batch sizes would do."""
    lower = size // ranks * ranks
    would = f"{lower} or {lower + ranks}" if lower else str(ranks)
    are = "is" if size == 1 else "are"
    return (
        f"{count(size, 'example')} in a batch {are} no multiple of {ranks}. Use batch_size={would}; or pass "
        f'batch="per_rank", so that each rank has {size} in a step and all together {size * ranks}.'
    )


def _share_stream(one: _One, batch: Batch) -> None:
    """Divide a loader whose data set can only be gone through."""
    loader, ranks = one.loader, one.ranks
    itself = shards_itself(loader.dataset)
    per_step = 1 if batch == "global" else ranks
    if loader.batch_size is not None and batch == "global":
        own = BatchSampler(loader.sampler, loader.batch_size // ranks, loader.drop_last)
        _set(loader, "batch_sampler", own)
    if itself:
        return
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
    _set(loader, "dataset", shown)
    _set(loader, "collate_fn", Collated(loader.collate_fn))
    setattr(loader, PER_STEP, per_step)


_TELLING: dict[type[Any], type[Any]] = {}
"""A loader's class -> its subclass that tells what it gives."""


def _telling(cls: type[Any]) -> type[Any]:
    """Return a subclass whose loaders tell of each batch; __iter__ is looked up on the type, so it has to be there."""
    if getattr(cls, TOLD, False):
        return cls
    if cls in _TELLING:
        return _TELLING[cls]

    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807 - the inner one begins at once, and draws then
        if (begins := getattr(self, BEGINS, None)) is not None:
            begins()
        before = (getattr(self, "next_iter_state", None) or {}).get("_steps_since_snapshot", 0)
        return _told(cls.__iter__(self), self, before)

    def __len__(self: Any) -> int:  # noqa: N807
        n, per_step = int(cls.__len__(self)), getattr(self, PER_STEP, 1)
        return n // per_step if self.drop_last else -(-n // per_step)

    def __reduce_ex__(self: Any, protocol: Any) -> Any:  # noqa: N807 - pickle finds no class by our class's name
        made: Any = super(telling, self).__reduce_ex__(protocol)
        return _bare, (cls,), *made[2:]

    body = {"__iter__": __iter__, "__len__": __len__, "__reduce_ex__": __reduce_ex__, TOLD: True}
    telling: type[Any] = type(cls.__name__, (cls,), {**body, **{name: getattr(cls, name) for name in NAMES}})
    _TELLING[cls] = telling
    return telling


def _bare(cls: type[Any]) -> Any:
    """Return an empty loader that tells, for pickle and copy to fill."""
    return object.__new__(_telling(cls))


def _told(batches: Iterator[Any], loader: Any, before: int) -> Iterator[Any]:
    """Return the batches of a pass, and tell of each.

    Args:
        batches: They; the pass has begun.
        loader: Who gives them.
        before: How many the loader has passed over to come to where it was.
    """
    shares = shares_of(loader)
    notes = shares.latest.notes if shares is not None and shares.latest is not None else None
    for _ in range(before):
        if notes:
            notes.popleft()

    def told() -> Iterator[Any]:
        for got in batches:
            if type(got) is Noted:
                found = Drawn(None, got.weight, got.n, loader, got.batch)
            elif notes:
                piece = notes.popleft()
                found = Drawn(piece.ids, piece.weight, piece.n, loader, got)
            else:
                found = Drawn(None, 1.0, 0, loader, got)
            tell: Tell | None = getattr(loader, TELLS, None)
            if tell is not None:
                tell(found)
            yield found.batch

    return told()


# --- partitions -----------------------------------------------------------------------------------


def shares_of(loader: Any) -> Shares | None:
    """Return the sampler that gives this rank its batches; None if a loader has none."""
    found = (loader.batch_sampler, loader.sampler)
    return next((sampler for sampler in found if isinstance(sampler, Shares)), None)


def is_shared(loader: Any) -> bool:
    """Say whether a loader gives several ranks their parts of its batches to train on."""
    return getattr(loader, TRAINS, False) is True


def partition(loader: DataLoader[Any], parts: Sequence[Any]) -> None:
    """Let each rank draw from a part of its own, from the next pass on, in an order that is drawn for each pass.

    Ranks have as many examples in a step as they would have otherwise, and equally many steps; where one has fewer
    examples left than others, or none, weights say so.

    Args:
        loader: A training loader that was divided by ``shard``.
        parts: For each rank the indices of its examples, each once.

    Raises:
        ConfigError: They are no parts for this many ranks, or the loader has no indices.
    """
    _with_shares(loader).partition(parts)


def whole_again(loader: DataLoader[Any]) -> None:
    """Let all ranks draw from all examples again, from the next pass on.

    Raises:
        ConfigError: The loader has no indices.
    """
    _with_shares(loader).whole_again()


def _with_shares(loader: DataLoader[Any]) -> Shares:
    shares = shares_of(loader)
    if shares is None:
        raise ConfigError(
            f"A loader of {type(loader.dataset).__name__} has no indices that could be assigned to ranks, or is none "
            "for training. Partitions need a data set with indices: one that has __getitem__ and __len__."
        )
    return shares


# --- evaluation -----------------------------------------------------------------------------------


def _divide(one: _One) -> None:
    """Divide a loader for evaluation, without padding."""
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
            _set(loader, "dataset", stand_in(dataset, length=length, gives=Turns(rank=one.rank, ranks=one.ranks)))
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
    _set(loader, "dataset", shown)
    _set(loader, place, BatchSampler(own, sampler.batch_size, drop_last=False) if batched else own)


def _own_indices(one: _One, sampler: Any, whole: int) -> range:
    """Return this rank's part of the indices of a sampler in order; a rest that is no multiple of ``whole`` is none."""
    indices = sampler if isinstance(sampler, range) else range(len(sampler))
    n = len(indices) // whole * whole
    return indices[slice_of(n, rank=one.rank, ranks=one.ranks)]
