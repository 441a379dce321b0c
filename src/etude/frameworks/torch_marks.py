"""Loaders that send a seed along with each index, so that what an example draws is the same wherever it is fetched.

Each loader has a generator of its own for that, and draws one seed from it for each pass. It is saved and brought back
with the other generators of loaders, is alike on all ranks, and knows nothing of worker processes: they get the seed
with the index, also those that stay from pass to pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from etude.frameworks.coats import Coat, plain_class, put_on, take_off, worn
from etude.frameworks.torch_reseeded import Marked, reseed


class Passes:
    """The passes of a loader.

    Args:
        seed: That of all of them.

    Attributes:
        generator: Gives each a seed.
        seed: That of the newest pass; None before the first.
    """

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.seed: int | None = None

    def begin(self) -> None:
        """Begin the next one."""
        self.seed = int(torch.empty((), dtype=torch.int64).random_(generator=self.generator).item())


class Marking:
    """Stands for a loader's sampler: its indices, marked.

    Args:
        sampler: The loader's own.
        passes: What goes with the loader.

    Attributes:
        sampler: The same.
    """

    def __init__(self, sampler: Any, passes: Passes) -> None:
        self.sampler = sampler
        self._passes = passes

    def __iter__(self) -> Iterator[Any]:
        items = iter(self.sampler)  # at once: it may draw
        seed = self._passes.seed
        return (marked(item, seed) for item in items)

    def __len__(self) -> int:
        return len(self.sampler)


def mark(loader: DataLoader[Any], seed: int) -> None:
    """Let a loader send seeds along, if its data set can take them.

    Args:
        loader: It.
        seed: Of what its examples draw, in all passes.
    """
    kind = plain_class(loader)
    ours = kind._index_sampler is DataLoader._index_sampler and not kind.__module__.startswith("torchdata.")
    if ours and reseed(loader.dataset):
        put_on(loader, MARKS, Passes(seed))
    else:
        take_off(loader, MARKS)


def passes_of(loader: Any) -> Passes | None:
    """Return the passes of a loader that sends seeds along; None if it sends none."""
    found: Passes | None = worn(loader, MARKS)
    return found


def plain_indices(loader: DataLoader[Any]) -> Any:
    """Return what a loader draws its indices, or batches of them, from."""
    sampler: Any = loader._index_sampler
    return sampler.sampler if isinstance(sampler, Marking) else sampler


def marked(index: Any, seed: int | None) -> Any:
    """Return an index with the seed of its pass; as it is, if that has none."""
    return index if seed is None else Marked(index, seed)


def _marks(below: type[Any]) -> Mapping[str, Any]:
    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807
        passes = passes_of(self)
        if passes is not None:
            passes.begin()
        found: Iterator[Any] = below.__iter__(self)
        return found

    def _index_sampler(self: Any) -> Any:
        own = DataLoader._index_sampler.fget(self)  # type: ignore[attr-defined]
        passes = passes_of(self)
        return own if passes is None else Marking(own, passes)

    return {"__iter__": __iter__, "_index_sampler": property(_index_sampler)}


MARKS: Final = Coat("marks", _marks)
