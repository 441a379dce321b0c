"""What a sampler will draw, guessed by a twin, while the sampler itself draws when torch would have it draw.

Worker processes want the indices of batches that are far ahead. To draw them early from the sampler could change what
it draws, and what everybody else draws from the same generators: the seed of the next pass, dropout, a second iterator.
So a twin is made when a pass begins, with generators of its own that stand where those of the sampler stand, and is
asked instead. Later, when the sampler draws, the two are compared: a guess that was wrong costs time, and no number.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import Dataset, RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler

from etude.frameworks.torch_drawing import GLOBAL, samplers_in, set_all, sources_in
from etude.frameworks.torch_marks import marked

AT_ONCE: Final = 16
"""So many guesses are made at once: each time, the global generators are exchanged, which takes a tenth of a ms."""

UNCHANGED: Final = (RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler)
"""Samplers that change nothing of what they have, but for their generators: a twin may share it."""


class Twin:
    """Goes through what a sampler is about to go through; made just before that begins.

    Args:
        sampler: It.
    """

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self._copy = _copied(sampler)
        self._globals = [source.get() for source in GLOBAL]
        self._items: Iterator[Any] | None = None

    def begin(self) -> None:
        """Take in that the sampler was asked for an iterator."""
        if isinstance(self._sampler, list | tuple | range):
            self._items = iter(self._copy)
            return
        self._items = self._inside(lambda: iter(self._copy))

    def meet(self) -> None:
        """Take in that the sampler is to draw for the first time: others may have drawn from its generators since."""
        states = [source.get() for source in sources_in(self._sampler)]
        set_all(sources_in(self._copy), states)
        self._globals = [source.get() for source in GLOBAL]

    def take(self, n: int) -> list[Any]:
        """Return the next ``n`` items, fewer at the end."""

        def drawn() -> list[Any]:
            found: list[Any] = []
            assert self._items is not None
            for item in self._items:
                found.append(item)
                if len(found) == n:
                    break
            return found

        found: list[Any] = self._inside(drawn)
        return found

    def _inside(self, act: Any) -> Any:
        outside = [source.get() for source in GLOBAL]
        set_all(GLOBAL, self._globals)
        try:
            return act()
        finally:
            self._globals = [source.get() for source in GLOBAL]
            set_all(GLOBAL, outside)


def _copied(sampler: Any) -> Any:
    """Return a sampler like another one, with which it shares nothing that either changes."""
    shared: dict[int, Any] = {}
    for place in samplers_in(sampler):
        for value in getattr(place, "__dict__", {}).values():
            if isinstance(value, Dataset) or (type(place) in UNCHANGED and not isinstance(value, torch.Generator)):
                shared[id(value)] = value
    return copy.deepcopy(sampler, shared)


class Indices:
    """What a pass draws: each index, or batch of indices, by its number, from 0.

    Args:
        sampler: The loader's own.
        guesses: Whether guesses may be asked for.
        seed: What is sent along with each index; None for nothing.

    Attributes:
        drawn: How many the sampler has drawn.
        over: Whether it has no more.
        wrong: Why guesses cannot be had; empty if they can.
    """

    def __init__(self, sampler: Any, *, guesses: bool, seed: int | None = None) -> None:
        self._seed = seed
        self.drawn = 0
        self.over = False
        self.wrong = ""
        self._items: dict[int, Any] = {}
        self._guessed: deque[Any] = deque()  # from number ``drawn`` on
        self._twin: Twin | None = None
        self._behind = 0  # by so many items, while nobody asks for guesses
        try:
            self._twin = Twin(sampler) if guesses else None
        except Exception as error:  # whatever a sampler's class raises where it is copied
            self.wrong = f"its sampler cannot be copied ({type(error).__name__}: {error})"
        self._real = iter(sampler)
        self._guess(lambda twin: twin.begin())

    def draw(self) -> bool:
        """Let the sampler draw the next one; say whether there was one."""
        if self.over:
            return False
        if not self.drawn:
            self._guess(lambda twin: twin.meet())
        try:
            item = next(self._real)
        except StopIteration:
            self.over = True
            return False
        if not self._guessed:
            self._behind += 1
        elif not _equal(item, self._guessed.popleft()):
            self.give_up("its sampler drew something else than a copy of it")
        self._items[self.drawn] = item
        self.drawn += 1
        return True

    def give_up(self, why: str) -> None:
        """Guess no more, and forget what was guessed."""
        self.wrong = self.wrong or why
        self._twin = None
        self._guessed.clear()

    def has(self, number: int, *, guess: bool) -> bool:
        """Say whether an index is known, or can be guessed."""
        if number < self.drawn:
            return True
        if not guess or self.over or self._twin is None:
            return False
        while number >= self.drawn + len(self._guessed):
            if self._behind:
                self._guess(lambda twin: twin.take(self._behind))
                self._behind = 0
            more: list[Any] = self._guess(lambda twin: twin.take(AT_ONCE)) or []
            self._guessed.extend(more)
            if len(more) < AT_ONCE:
                break
        return number < self.drawn + len(self._guessed)

    def at(self, number: int) -> Any:
        """Return an index that is known or guessed, as the data set is to have it."""
        item = self._items[number] if number < self.drawn else self._guessed[number - self.drawn]
        return marked(item, self._seed)

    def forget(self, number: int) -> None:
        """Take in that nobody will ask for an index again."""
        self._items.pop(number, None)

    def _guess(self, act: Any) -> Any:
        if self._twin is None:
            return None
        try:
            return act(self._twin)
        except Exception as error:  # the sampler's own, which comes again where it draws
            self.give_up(f"a copy of its sampler raises {type(error).__name__}: {error}")
            return None


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor | np.ndarray):
        return (
            type(one) is type(other)
            and one.shape == other.shape
            and bool(np.array_equal(np.asarray(one), np.asarray(other)))
        )
    if isinstance(one, list | tuple) and any(isinstance(item, torch.Tensor | np.ndarray) for item in one):
        return type(one) is type(other) and len(one) == len(other) and all(map(_equal, one, other))
    try:
        return bool(one == other)
    except Exception:  # who cannot compare them cannot say that they are equal
        return False
