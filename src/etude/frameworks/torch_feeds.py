"""Loaders whose settings change while they are gone through, and whose batches do not.

A loader stays the object that it is, and wears a coat: what torch asks for its iterator is a ``Feed``. That has one
``Indices`` for a pass, which are drawn when torch would draw them, and makes batches in stretches, each in its own way.
A change lets the stretch before it come to the end of what it has begun. When it comes out that a change would not be
without loss - the data set draws, a copy of the sampler does not draw what the sampler draws, workers fail - nothing of
that has been given out yet: it is thrown away, made again in the user's own way, and the loader stays with that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn, TypeVar

import torch
from torch.utils.data import DataLoader

from etude.frameworks.coats import Coat, put_on, take_off, worn
from etude.frameworks.torch_feeding import Feeding
from etude.frameworks.torch_marks import passes_of, plain_indices
from etude.frameworks.torch_stretches import Apart, Stretch, Way
from etude.frameworks.torch_twins import Indices

T = TypeVar("T")

DRAWS: Final = "its data set draws random numbers when it is asked for an example"


def hold(loader: DataLoader[Any], *, stepped: Callable[[float, float], None], barred: Callable[[str], None]) -> Feeding:
    """Take a loader in hand; see ``Feeding``."""
    feeding = Feeding(loader, stepped=stepped, barred=barred)
    put_on(loader, FEEDING, feeding)
    return feeding


def release(feeding: Feeding) -> None:
    """Give a loader back as it was."""
    take_off(feeding.loader, FEEDING)
    if isinstance(feeding.loader._iterator, Feed):
        feeding.loader._iterator = None
    feeding.close()


class Feed(Iterator[Any]):
    """Gives the batches of a pass.

    Args:
        feeding: What goes with the loader.
    """

    drawn_ahead = False
    """Whether batches are drawn that are given out later; samplers of ours look for it."""

    def __init__(self, feeding: Feeding) -> None:
        self._feeding = feeding
        self._stretch: Stretch | None = None
        self._begin(again=False)

    def __iter__(self) -> Feed:
        return self

    def __len__(self) -> int:
        return len(self._feeding.loader._index_sampler)

    def _reset(self, loader: DataLoader[Any]) -> None:
        """Begin another pass: torch calls this where the user's worker processes stay."""
        self._give_back()
        self._begin(again=True)

    def _begin(self, *, again: bool) -> None:
        """Do in order what torch does, since all of it may draw."""
        feeding = self._feeding
        loader, own = feeding.loader, feeding.own
        feeding.begin()
        self._last = time.perf_counter()
        sampler, passes = plain_indices(loader), passes_of(loader)
        seed = None if passes is None else passes.seed
        guesses = "loader_workers" not in feeding.bars
        if not own.workers:
            self._indices = Indices(sampler, guesses=guesses, seed=seed)
        if not again:
            if own.workers:
                iter(sampler)  # torch asks twice then
            self._seed = _state(loader.generator)
            torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        self.drawn_ahead = own.workers > 0
        if own.workers:
            self._indices = Indices(sampler, guesses=guesses, seed=seed)
        self._number = 0
        for _ in range(own.workers * own.prefetch):
            self._indices.draw()
        self._items: list[Any] = []
        self._stretch = None
        if own.workers and feeding.way.workers:  # else torch would do nothing either before the first is asked for
            self._stretch = self._next_stretch(self._proven(0), 0)

    def __next__(self) -> Any:
        began_s = time.perf_counter()
        batch = self._next()
        ended_s = time.perf_counter()
        if torch.is_grad_enabled():
            self._feeding.stepped(ended_s - self._last, ended_s - began_s)
        self._last = ended_s
        return batch

    def _next(self) -> Any:
        indices, number = self._indices, self._number
        if self._feeding.own.workers:
            if number >= indices.drawn:
                self._end()
            indices.draw()
        elif not indices.draw():
            self._end()
        self._number += 1
        try:
            return self._batch(number)
        finally:
            indices.forget(number)

    def _end(self) -> NoReturn:
        self._give_back()
        raise StopIteration

    def _batch(self, number: int) -> Any:
        feeding = self._feeding
        stretch = self._stretch_for(number)
        if not stretch.own and (why := self._lost()):
            return self._again(number, why)
        if stretch.own:
            found = stretch.batch(number)
        else:
            tried, why = _tried(lambda: stretch.batch(number))
            if tried is None or tried.differs:
                return self._again(number, why or DRAWS)
            found = tried
        if found.differs:
            feeding.bar(DRAWS, quietly=feeding.wanted == feeding.own)
        elif feeding.kept.drawn:
            feeding.keep_nothing()
        elif feeding.kept.wrong:  # this one was fetched anew
            feeding.bar("its data set gave another example when it was asked for the same one again")
        return found.batch

    def _stretch_for(self, number: int) -> Stretch:
        """Return what makes a batch: the stretch that has begun it, or else one as it is wanted now."""
        wanted = self._feeding.way
        stretch = self._stretch
        if wanted.plain != self._feeding.own.plain:
            wanted = self._proven(number)
        if stretch is not None:
            if stretch.way.plain == wanted.plain and stretch.own == (wanted.plain == self._feeding.own.plain):
                stretch.go_on(wanted)
                return stretch
            stretch.end()
            if stretch.handed > number:
                return stretch
            self._give_back()
        self._stretch = self._next_stretch(wanted, number)
        return self._stretch

    def _proven(self, number: int) -> Way:
        """Return how batches are to be made, once it was seen that a change does no harm."""
        feeding = self._feeding
        if not feeding.proven and feeding.way.plain != feeding.own.plain and number < self._indices.drawn:
            proven, why = _tried(lambda: feeding.prove(self._indices, number, seed=self._seed))
            if not proven:
                feeding.bar(why or DRAWS)
        return feeding.way

    def _next_stretch(self, way: Way, number: int) -> Stretch:
        feeding = self._feeding
        if self._indices.wrong and way.workers and not feeding.own.workers:
            feeding.bar(self._indices.wrong)
            way = feeding.way
        self._items = _items(feeding.loader.dataset)
        if way.plain != feeding.own.plain:
            found, why = _tried(lambda: feeding.stretch(way, self._indices, start=number, seed=self._seed))
            if found is not None:
                return found
            feeding.bar(why)
        return feeding.stretch(feeding.way, self._indices, start=number, seed=self._seed)

    def _lost(self) -> str:
        """Return why what was begun is of no use; empty if it is."""
        if not isinstance(self._stretch, Apart):
            return ""
        if self._indices.wrong:
            return self._indices.wrong
        if not self._feeding.own.workers and not _same(self._items, _items(self._feeding.loader.dataset)):
            return "its data set was changed in the middle of an epoch"
        return ""

    def _again(self, number: int, why: str) -> Any:
        """Return a batch that is made anew in the user's own way, as all that follow."""
        feeding = self._feeding
        assert self._stretch is not None
        self._stretch.close()
        self._stretch = feeding.stretch(feeding.own, self._indices, start=number, seed=self._seed)
        found = self._stretch.batch(number).batch  # raises what the user's own would, and then nothing is barred
        feeding.bar(why)
        return found

    def _give_back(self) -> None:
        if self._stretch is not None:
            stretch, self._stretch = self._stretch, None
            self._feeding.rest(stretch)

    def __del__(self) -> None:
        if getattr(self, "_stretch", None) is not None:
            self._give_back()


def _tried(act: Callable[[], T]) -> tuple[T | None, str]:
    """Return what something gives, or else why it failed."""
    try:
        return act(), ""
    except Exception as error:
        told = next(iter(str(error).strip().splitlines()), "").rstrip(".")
        return None, f"a change of its settings failed with {type(error).__name__}: {told}"


def _state(generator: torch.Generator | None) -> torch.Tensor:
    return torch.get_rng_state() if generator is None else generator.get_state()


def _items(dataset: Any) -> list[Any]:
    return list(getattr(dataset, "__dict__", {}).values())


def _same(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(map(_is, some, others))


def _is(one: Any, other: Any) -> bool:
    return one is other


def _feeding(below: type[Any]) -> Mapping[str, Any]:
    def _get_iterator(self: Any) -> Any:
        feeding: Feeding | None = worn(self, FEEDING)
        return below._get_iterator(self) if feeding is None else Feed(feeding)

    return {"_get_iterator": _get_iterator}


FEEDING: Final = Coat("feeding", _feeding, copied=False)
"""The user's loader, with batches made in any way."""
