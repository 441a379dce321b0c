"""Data sets as a rank sees them: a stand-in for the user's own, of its class and with its attributes.

What is asked of a stand-in goes to the data set that it stands for, attributes that are set as well (``set_epoch``).
Only its length, or what it gives when it is gone through, is the rank's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

import torch
from torch.utils.data import IterableDataset, get_worker_info

from etude.frameworks.coats import named_like
from etude.frameworks.torch_drawing import Alike, has_length
from etude.frameworks.torch_passes import slice_of

OF: Final = "_etude_of"
LENGTH: Final = "_etude_length"
GIVES: Final = "_etude_gives"
OWN: Final = frozenset({OF, LENGTH, GIVES, "__class__", "__reduce_ex__", "__reduce__"})

_CLASSES: dict[type[Any], type[Any]] = {}
"""A data set's class -> that of its stand-ins."""


class Gives(Protocol):
    """Says what a rank gets of what a data set gives."""

    def __call__(self, items: Iterator[Any]) -> Iterator[Any]:
        """Yield it."""
        ...


def stand_in(dataset: Any, *, length: int | None = None, gives: Gives | None = None) -> Any:
    """Return a stand-in for a data set.

    Args:
        dataset: It.
        length: The length that is told; the data set's own if it is None.
        gives: What is given of what the data set gives, if it is one to go through.
    """
    cls = _class(type(dataset))
    made = object.__new__(cls)
    for name, value in ((OF, dataset), (LENGTH, length), (GIVES, gives)):
        object.__setattr__(made, name, value)
    return made


def _of(dataset: Any) -> Any:
    """Return what a stand-in stands for."""
    return object.__getattribute__(dataset, OF)


def _class(cls: type[Any]) -> type[Any]:
    """Return the class of stand-ins for data sets of a class; special methods are looked up on the type."""
    if cls in _CLASSES:
        return _CLASSES[cls]

    def __getattribute__(self: Any, name: str) -> Any:  # noqa: N807
        return object.__getattribute__(self, name) if name in OWN else getattr(_of(self), name)

    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807
        setattr(_of(self), name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        delattr(_of(self), name)

    def __len__(self: Any) -> int:  # noqa: N807
        length = getattr(self, LENGTH)
        return len(_of(self)) if length is None else length

    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807
        gives = getattr(self, GIVES)
        return iter(_of(self)) if gives is None else gives(_of(self))

    def __getitem__(self: Any, index: Any) -> Any:  # noqa: N807
        return _of(self)[index]

    def __reduce_ex__(self: Any, protocol: Any) -> Any:  # noqa: N807 - pickle finds no class by our class's name
        return _again, (_of(self), getattr(self, LENGTH), getattr(self, GIVES))

    special = {"__len__": __len__, "__iter__": __iter__, "__getitem__": __getitem__}
    there = {name: method for name, method in special.items() if hasattr(cls, name)}
    names = {"__getattribute__": __getattribute__, "__setattr__": __setattr__, "__delattr__": __delattr__}
    _CLASSES[cls] = named_like(cls, {**there, **names, "__reduce_ex__": __reduce_ex__})
    return _CLASSES[cls]


def _again(dataset: Any, length: int | None, gives: Gives | None) -> Any:
    return stand_in(dataset, length=length, gives=gives)


# --- data sets to go through ----------------------------------------------------------------------


class Marked(NamedTuple):
    """An item on its way from a data set to the function that makes a batch of it.

    Attributes:
        item: It.
        weight: What this rank's mean counts in the mean over ranks.
        n: How many examples the batch of all ranks has.
    """

    item: Any
    weight: float
    n: int


class Noted(NamedTuple):
    """A batch on its way from there to the loader: a tuple, which can be pinned and moved.

    Attributes:
        batch: It.
        weight: That of its items.
        n: Likewise.
    """

    batch: Any
    weight: float
    n: int


class Slices:
    """Of each group of items in a row, gives a rank's slice; a rank without one gets an item with weight 0.

    Each worker process of a loader goes through the data set for itself, and so through groups of its own: those that
    would be its batches if there were one rank.

    Args:
        size: How many items a group has; the last one may have less.
        rank: Which rank this is.
        ranks: How many there are.
        drop_last: Whether a last group that has less is left out.
        generator: Gives seeds for what the data set draws in this process, from global generators; the same on all
            ranks.
    """

    def __init__(self, size: int, *, rank: int, ranks: int, drop_last: bool, generator: torch.Generator | None) -> None:
        self._size = size
        self._rank = rank
        self._ranks = ranks
        self._drop_last = drop_last
        self._generator = generator

    def __call__(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield this rank's items, each marked."""
        found = None
        alike = self._alike()
        while True:
            with alike:
                found = iter(items) if found is None else found
                group = list(islice(found, self._size))
            if not group or (self._drop_last and len(group) < self._size):
                return
            own = group[slice_of(len(group), rank=self._rank, ranks=self._ranks)]
            weight = len(own) * self._ranks / len(group)
            for item in own or group[:1]:
                yield Marked(item, weight, len(group))

    def _alike(self) -> Any:
        """Return what global generators are to be while the data set draws; those of a worker process are alike."""
        if self._ranks == 1 or get_worker_info() is not None:
            return nullcontext()
        seed = torch.empty((), dtype=torch.int64).random_(generator=self._generator).item() if self._generator else 0
        return Alike(int(seed))


class Turns:
    """Of items in a row, gives every so-many-th.

    Args:
        rank: Which rank this is.
        ranks: How many there are.
    """

    def __init__(self, *, rank: int, ranks: int) -> None:
        self._rank = rank
        self._ranks = ranks

    def __call__(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield this rank's items."""
        return islice(iter(items), self._rank, None, self._ranks)


class Collated:
    """Makes a batch as the user's function does, and passes on what its items were marked with.

    Args:
        collate: The user's function.

    Attributes:
        collate: The same.
    """

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate = collate

    def __call__(self, items: Any) -> Any:
        """Return the batch."""
        first = items[0] if isinstance(items, list) and items else items
        if type(first) is not Marked:
            return self.collate(items)
        inner = [marked.item for marked in items] if isinstance(items, list) else first.item
        return Noted(self.collate(inner), first.weight, first.n)


def shards_itself(dataset: Any) -> bool:
    """Say whether a data set to go through gives each rank its own part by itself.

    It says so with an attribute ``shards_itself`` that is true; those of Hugging Face's ``datasets`` are known by what
    ``split_dataset_by_node`` leaves in them.
    """
    return bool(getattr(dataset, "shards_itself", False)) or getattr(dataset, "_distributed", None) is not None


def is_iterable(dataset: Any) -> bool:
    """Say whether a data set has no indices, and can only be gone through."""
    return isinstance(dataset, IterableDataset)


def length_or_none(dataset: Any) -> int | None:
    """Return the length of a data set; None if it has none."""
    return len(dataset) if has_length(dataset) else None
