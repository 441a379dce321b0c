"""A stretch of a pass: batches in a row that are made in one way, here or in worker processes.

A pass has several where settings change in its middle. Worker processes are torch's own, with torch's own loop around
them. Which batches they get is ours to say: they ask a ``_HandOut`` for indices, which can say "no more for now".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils import pin_memory as pinning
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from etude.frameworks.torch_drawing import GLOBAL, moved, set_all
from etude.frameworks.torch_fetching import Begin, Fetched, Fetcher, Keeping, Kept
from etude.frameworks.torch_twins import Indices

MOST_PREFETCHED: Final = 64
"""Torch is told that so many batches may wait for each worker; how many do is said here, and can change."""

PREFETCHED: Final = 2
"""Torch's own default."""


@dataclass(frozen=True)
class Way:
    """How batches are made.

    Attributes:
        workers: Processes that make them; 0 for the one that trains.
        prefetch: Batches that wait for each worker.
        persistent: Whether workers stay for the next pass.
        pin: Whether batches lie where a GPU can fetch them.
        keep: Whether the process that trains keeps examples.
    """

    workers: int = 0
    prefetch: int = PREFETCHED
    persistent: bool = False
    pin: bool = False
    keep: bool = False

    @property
    def plain(self) -> Way:
        """The same without what means nothing here, and without what can change in place."""
        return Way(self.workers, 0, self.persistent and self.workers > 0, self.pin, self.keep and not self.workers)


class Stretch(Protocol):
    """Makes batches in a row.

    Attributes:
        way: How.
        own: Whether it is the user's own way.
        handed: The number of the next batch that nobody has been asked for; those before were made, or will be.
    """

    way: Way
    own: bool

    @property
    def handed(self) -> int:
        """See there."""
        ...

    def batch(self, number: int) -> Fetched:
        """Return a batch, the next in the row, and whether it would be another one elsewhere."""
        ...

    def go_on(self, way: Way) -> None:
        """Begin more batches, in a way that differs by what can change in place."""
        ...

    def end(self) -> None:
        """Take in that no more batches are to be begun."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class Here:
    """Batches that are made in the process that trains, each when it is asked for.

    Args:
        loader: The user's.
        way: How.
        indices: What the pass draws.
        start: The number of the first batch.
        kept: Examples that are kept, of all passes.
        own: Whether it is the user's own way. If not, the data set is watched, and if it drew, the global generators
            are put back: the batch is to be made again.
    """

    WATCHED: Final = 4
    """So many batches at the beginning of a pass are watched in any case."""

    def __init__(
        self, loader: DataLoader[Any], way: Way, indices: Indices, *, start: int, kept: Kept, own: bool
    ) -> None:
        self.way = way
        self.handed = start
        self._indices = indices
        self.own = own
        self._kept = kept if way.keep else None
        batches = loader.batch_sampler is not None
        make: Any = loader.collate_fn
        self._fetcher = (
            Keeping(loader.dataset, make, kept) if way.keep else Fetcher(loader.dataset, make, batches=batches)
        )

    def batch(self, number: int) -> Fetched:
        """Return a batch, and whether it would be another one elsewhere."""
        self.handed = number + 1
        index = self._indices.at(number)
        if self.own and number >= self.WATCHED:
            return Fetched(_pinned(self._fetcher.fetch(index), self.way), differs=False)
        before = [source.get() for source in GLOBAL]
        try:
            batch = self._fetcher.fetch(index)
        except BaseException:
            if not self.own:
                set_all(GLOBAL, before)
            raise
        differs = bool(moved(dict(enumerate(before))))
        if differs and not self.own:
            set_all(GLOBAL, before)
            if self._kept is not None:
                self._kept.drop()
        return Fetched(_pinned(batch, self.way), differs)

    def go_on(self, way: Way) -> None:
        """Nothing has been ended."""

    def end(self) -> None:
        """Nothing has been begun."""

    def close(self) -> None:
        """There is nothing to give back."""


def _pinned(batch: Any, way: Way) -> Any:
    return pinning.pin_memory(batch, "cuda") if way.pin and torch.cuda.is_available() else batch


class _Loader(DataLoader[Any]):
    """Torch's, without a word on how many workers there should be: that is being found out."""

    def check_worker_number_rationality(self) -> None:
        """Say nothing."""


class _HandOut(Iterator[Any]):
    """Gives worker processes their indices, as many at a time as are to wait, as long as there are some."""

    def __init__(self) -> None:
        self.indices: Indices | None = None
        self.next = 0
        self.asked_for = 0
        self.most = 0
        self.guess = False
        self.ended = False

    @property
    def is_ready(self) -> bool:
        if self.ended or self.indices is None or self.next - self.asked_for >= self.most:
            return False
        return self.indices.has(self.next, guess=self.guess)

    def __iter__(self) -> _HandOut:
        return self

    def __next__(self) -> Any:
        if not self.is_ready:
            raise StopIteration
        assert self.indices is not None
        index = self.indices.at(self.next)
        self.next += 1
        return index


class Apart:
    """Batches that worker processes make ahead.

    Args:
        loader: The user's.
        way: How.
        seed: A generator from which torch draws what worker processes are seeded from.
        own: Whether that is the user's own way: then the data set may draw.
    """

    def __init__(self, loader: DataLoader[Any], way: Way, *, seed: torch.Generator, own: bool) -> None:
        self.way = way
        self.own = own
        self._out = _HandOut()
        self._out.guess = not own
        self._loader = _Loader(
            Fetcher(loader.dataset, loader.collate_fn, batches=loader.batch_sampler is not None, twice=not own),  # type: ignore[arg-type]
            batch_size=None,
            sampler=self._out,
            num_workers=way.workers,
            collate_fn=_as_it_is,
            pin_memory=way.pin and torch.cuda.is_available(),
            timeout=loader.timeout,
            worker_init_fn=Begin(loader.worker_init_fn),
            multiprocessing_context=loader.multiprocessing_context,
            generator=seed,
            prefetch_factor=max(MOST_PREFETCHED, way.prefetch),
            persistent_workers=way.persistent,
        )
        self._batches: Any = _MultiProcessingDataLoaderIter(self._loader)
        self._fresh = True

    def begin(self, indices: Indices, *, start: int, most: int = 0) -> None:
        """Make batches of a pass.

        Args:
            indices: What the pass draws.
            start: The number of the first batch.
            most: So many batches, and no more; 0 for all that follow.
        """
        out = self._out
        out.indices, out.next, out.asked_for, out.ended = None, start, start, False
        if not self._fresh:
            self._batches._reset(self._loader)
        self._fresh = False
        turns = itertools.cycle(range(self.way.workers))
        for _ in range(start % self.way.workers):  # each batch goes to the worker that torch would give it to
            next(turns)
        self._batches._worker_queue_idx_cycle = turns
        out.indices, out.most = indices, most or self.way.prefetch * self.way.workers
        self._fill()
        if most:
            self.end()

    @property
    def handed(self) -> int:
        """The number of the first batch that no worker was asked for."""
        return self._out.next

    def go_on(self, way: Way) -> None:
        """Hand out more, and as many at a time as another way says."""
        self.way = way
        self._out.most = way.prefetch * way.workers
        self._out.ended = False

    def batch(self, number: int) -> Fetched:
        """Return a batch, and whether it would be another one elsewhere."""
        self._out.asked_for = number
        self._fill()
        self._out.asked_for = number + 1
        found: Fetched = next(self._batches)
        return found

    def end(self) -> None:
        """Hand out no more."""
        self._out.ended = True

    def close(self) -> None:
        """End the worker processes."""
        self._out.ended = True
        self._out.indices = None
        self._batches._shutdown_workers()

    def _fill(self) -> None:
        while self._out.is_ready and self._batches._tasks_outstanding < self._loader.prefetch_factor * self.way.workers:  # type: ignore[operator]
            self._batches._try_put_index()


def _as_it_is(batch: Any) -> Any:
    return batch
