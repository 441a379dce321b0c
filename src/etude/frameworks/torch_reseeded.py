"""Data sets that draw while they are asked for an example: what they draw depends on the pass and the example alone.

Augmentation usually draws from the global generators of ``random``, numpy or torch, and so hangs on all that was drawn
before, on which worker process it is done in, and on how many of them there are. Here each example is fetched under a
seed of its own, and the generators are put back afterwards. The seed comes with the index, from the loader
(``torch_marks``); an index that comes from anywhere else is none of ours.

Nobody knows beforehand which data sets draw. So the first batches of a process are watched. One that drew is fetched
again from where it began, with those generators seeded that it drew from: what comes out is what comes out where that
was known all along. After some batches without a draw nobody watches any more.
"""

from __future__ import annotations

import functools
import operator
import random
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch.utils.data import ConcatDataset, IterableDataset, MapDataPipe, Subset, TensorDataset

from etude.core.streams import stream_seed
from etude.frameworks.coats import Coat, plain_class, put_on, wears, worn
from etude.frameworks.torch_drawing import GLOBAL, moved

OF: Final = "_etude_of"
"""Where a stand-in has the data set that it stands for (``torch_views``)."""

WATCHED: Final = 64
"""So many batches are watched in each process: to read all generators takes as long as some examples."""


class Marked(NamedTuple):
    """An index, or a batch of indices, on its way from a loader to its data set.

    Attributes:
        index: It.
        seed: That of the pass.
    """

    index: Any
    seed: int


class Found:
    """What is known in this process of how a data set draws.

    Attributes:
        draws: Which of the global generators it draws from, by their numbers.
        unwatched: How many batches are still to be watched.
    """

    def __init__(self) -> None:
        self.draws: list[int] = []
        self.unwatched = WATCHED

    def __reduce__(self) -> Any:
        """Know nothing yet in another process."""
        return Found, ()


def reseed(dataset: Any) -> bool:
    """Have a data set's examples be drawn by the seeds that come with their indices; say whether that can be."""
    dataset = getattr(dataset, OF, dataset)
    if isinstance(dataset, IterableDataset | MapDataPipe | torch.Tensor) or never_draws(dataset):
        return False
    if not hasattr(dataset, "__dict__") or not hasattr(type(dataset), "__getitem__"):
        return False
    if not wears(dataset, RESEEDED):
        try:
            put_on(dataset, RESEEDED, Found())
        except TypeError:  # its class is not one of Python's own kind
            vars(dataset).pop(f"_etude_{RESEEDED.name}", None)
            return False
    return True


def never_draws(dataset: Any) -> bool:
    """Say whether a data set is of a kind that is known to give what it holds."""
    plain = plain_class(dataset)
    if plain is Subset:
        return never_draws(dataset.dataset)
    if plain is ConcatDataset:
        return all(map(never_draws, dataset.datasets))
    return plain is TensorDataset or plain in (list, tuple, range)


def drew(dataset: Any) -> bool:
    """Say whether a data set is known to draw, in this process, under seeds of ours."""
    found: Found | None = worn(dataset, RESEEDED)
    return found is not None and bool(found.draws)


def _reseeds(below: type[Any]) -> Mapping[str, Any]:
    def __getitem__(self: Any, index: Any) -> Any:  # noqa: N807
        if type(index) is not Marked:
            return below.__getitem__(self, index)

        def fetch(seed_for: SeedFor) -> Any:
            seed_for(index.index)
            return below.__getitem__(self, index.index)

        return _fetched(worn(self, RESEEDED), index.seed, fetch)

    def __getitems__(self: Any, index: Any) -> Any:  # noqa: N807 - torch's own name
        whole = getattr(below, "__getitems__", None)
        if type(index) is not Marked:
            return whole(self, index) if whole else [below.__getitem__(self, one) for one in index]
        indices = index.index

        def batch(seed_for: SeedFor) -> Any:
            seed_for(indices)
            return whole(self, indices)  # type: ignore[misc]

        def each(seed_for: SeedFor) -> Any:
            examples = []
            for one in indices:
                seed_for(one)
                examples.append(below.__getitem__(self, one))
            return examples

        found: Found = worn(self, RESEEDED)
        if not _makes_batches(self):
            return _fetched(found, index.seed, each)
        return _fetched(found, index.seed, batch)

    return {"__getitem__": __getitem__, "__getitems__": __getitems__}


RESEEDED: Final = Coat("reseeded", _reseeds)

SeedFor = Callable[[Any], None]
"""Seeds what is known to be drawn from, for an example or for a whole batch."""


def _makes_batches(dataset: Any) -> bool:
    """Say whether a data set has a way of its own to fetch a batch: it may draw for the batch as a whole."""
    plain = plain_class(dataset)
    if plain is Subset:  # it has one only to ask the other
        return _makes_batches(dataset.dataset)
    return callable(getattr(plain, "__getitems__", None))


def _fetched(found: Found, seed: int, fetch: Callable[[SeedFor], Any]) -> Any:
    """Return what is fetched under seeds; the global generators stay where they are."""
    while True:
        draws = list(found.draws)
        watched = [nth for nth in range(len(GLOBAL)) if nth not in draws] if found.unwatched > 0 else []
        own = {nth: GLOBAL[nth].get() for nth in draws}
        before = {nth: GLOBAL[nth].get() for nth in watched}
        more: list[int] = []
        try:
            got = fetch(functools.partial(_seed, draws, seed))
        except Exception:
            more = moved(before)
            if not more:
                raise
        else:
            more = moved(before)
            if not more:
                found.unwatched -= bool(watched)
                return got
        finally:
            for nth, state in (*own.items(), *((nth, before[nth]) for nth in more)):
                GLOBAL[nth].set(state)
        found.draws = sorted({*found.draws, *more})


def _seed(draws: list[int], seed: int, index: Any) -> None:
    if draws:
        own = stream_seed(seed, "example", _named(index), bits=63)
        for nth in draws:
            SEEDS[nth](own)


SEEDS: Final[tuple[Callable[[int], Any], ...]] = (
    random.seed,
    lambda seed: np.random.seed(seed % 2**32),
    torch.default_generator.manual_seed,
)
"""How each of the global generators is seeded, in their order."""


def _named(index: Any) -> int | str:
    """Return what an index is called in the name of its stream, whatever type of number it is."""
    try:
        return operator.index(index)
    except TypeError:
        return repr(index.tolist() if hasattr(index, "tolist") else index)
