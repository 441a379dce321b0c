"""What a sampler draws, and what it draws it from."""

from __future__ import annotations

import copy
import itertools
import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from etude.frameworks.sources import Source, cpu_sources
from etude.frameworks.torch_bits import alike

AT_ONCE: Final = 256
"""So many indices are drawn at once from a sampler that may draw from global generators: each time, these have to be
exchanged, which takes as long as a hundred draws."""

BATCHES_AT_ONCE: Final = 8
"""So many batches are, likewise; more would be drawn long before they are asked for."""


def is_batch(item: Any) -> bool:
    """Say whether what a sampler gave is a batch of indices; a tuple is one index of two parts, as torch has it."""
    return isinstance(item, list | range) or (isinstance(item, torch.Tensor | np.ndarray) and item.ndim > 0)


def has_length(value: Any) -> bool:
    """Say whether something knows its length."""
    try:
        len(value)
    except (TypeError, NotImplementedError):
        return False
    return True


def samplers_in(sampler: Any) -> list[Any]:
    """Return a sampler and those that it draws from, the outermost first."""
    found: dict[int, Any] = {}
    waiting = deque([sampler])
    while waiting:
        here = waiting.popleft()
        if id(here) in found:
            continue
        found[id(here)] = here
        for name, value in getattr(here, "__dict__", {}).items():
            if isinstance(value, Sampler) or name in ("sampler", "batch_sampler"):
                waiting.append(value)
    return list(found.values())


def sources_in(sampler: Any) -> list[Source]:
    """Return what a sampler draws from, as far as it holds it, in an order of its own."""
    found: dict[int, Source] = {}
    for place in samplers_in(sampler):
        for value in getattr(place, "__dict__", {}).values():
            source = _source(value)
            if source is not None:
                found.setdefault(id(value), source)
    return list(found.values())


def _source(value: Any) -> Source | None:
    if isinstance(value, torch.Generator):
        return Source(value.get_state, value.set_state)
    if isinstance(value, random.Random):
        return Source(value.getstate, value.setstate)
    if isinstance(value, np.random.RandomState):
        return Source(lambda: value.get_state(legacy=False), value.set_state)
    if isinstance(value, np.random.Generator):
        bits = value.bit_generator
        return Source(lambda: copy.deepcopy(bits.state), lambda state: setattr(bits, "state", state))
    return None


def draws_from_its_own(sampler: Any) -> bool:
    """Say whether a sampler is known to draw from nothing but generators that it holds."""
    kind = type(sampler)
    if kind in (SequentialSampler, range, list, tuple):
        return True
    if kind in (RandomSampler, SubsetRandomSampler, WeightedRandomSampler):
        return sampler.generator is not None
    if kind is BatchSampler:
        return draws_from_its_own(sampler.sampler)
    if kind.__module__.startswith("torchdata.stateful_dataloader"):
        return draws_from_its_own(sampler.sampler) if isinstance(sampler, BatchSampler) else True
    return False


class Alike:
    """The global generators as a sampler finds them: those of every rank alike, and as they were after each draw.

    Args:
        seed: Of the generators that the sampler finds.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._inside: list[Any] = []
        self._outside: list[Any] = []

    def __enter__(self) -> None:
        self._outside = [source.get() for source in GLOBAL]
        if self._inside:
            set_all(GLOBAL, self._inside)
        else:
            seed_all(self._seed)

    def __exit__(self, *raised: object) -> None:
        self._inside = [source.get() for source in GLOBAL]
        set_all(GLOBAL, self._outside)


GLOBAL: Final = tuple(cpu_sources().values())


def seed_all(seed: int) -> None:
    """Seed the global generators of this process."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)


def set_all(sources: Iterable[Source], states: Iterable[Any]) -> None:
    """Set each to its state."""
    for source, state in zip(sources, states, strict=True):
        source.set(state)


def moved(before: Mapping[int, Any]) -> list[int]:
    """Return which global generators somebody drew from.

    Args:
        before: The state that each had, by its number; others are not looked at.
    """
    now = {nth: GLOBAL[nth].get() for nth in before}
    return [nth for nth, state in now.items() if not _same(state, before[nth])]


def _same(one: Any, other: Any) -> bool:
    """Say whether two states of a generator are one; those of Python's are tuples of many whole numbers."""
    return bool(one == other) if isinstance(one, tuple) else alike(one, other)


class Drawing:
    """What a sampler gives in one pass, some items at a time.

    Args:
        sampler: It.
        seed: What global generators it finds; None leaves them as they are.
    """

    def __init__(self, sampler: Iterable[Any], *, seed: int | None) -> None:
        self._sampler = sampler
        self._alike = None if seed is None else Alike(seed)
        self._items: Iterator[Any] | None = None
        self._ready: deque[Any] = deque()
        self._at_once = 1  # until it is seen what they are

    def take(self, n: int) -> list[Any]:
        """Return the next ``n`` items, fewer at the end."""
        if self._alike is None:
            if self._items is None:
                self._items = iter(self._sampler)
            return list(itertools.islice(self._items, n))
        if len(self._ready) < n:
            more = n - len(self._ready)
            with self._alike:
                if self._items is None:
                    self._items = iter(self._sampler)
                self._ready.extend(itertools.islice(self._items, max(more, self._at_once)))
            if self._at_once == 1 and self._ready:
                self._at_once = BATCHES_AT_ONCE if is_batch(self._ready[0]) else AT_ONCE
        return [self._ready.popleft() for _ in range(min(n, len(self._ready)))]
