"""One pass over a sampler on several ranks: every rank draws the same order, and gets its own piece of each round.

A *round* is what all ranks get at one step: so many items of the sampler, in its order. Since each rank draws all of
them, how far a pass has come is one number, the position in the sampler's own order. It says nothing of ranks, so a
pass can go on with another number of them. A state is the generators as they were when the pass began, and that
position: whoever goes on draws what was drawn, and leaves it out. Nothing is drawn before it is asked for, since one
rank alone would not do it either, and its generators have to go the same way.
"""

from __future__ import annotations

import copy
import sys
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch.utils.data import Sampler

from etude.core.errors import StateError
from etude.core.text import brief
from etude.frameworks.kinds import Stateful
from etude.frameworks.sources import Source
from etude.frameworks.torch_drawing import Drawing, draws_from_its_own, set_all, sources_in

STATE: Final = frozenset({"epoch", "position", "generators"})
"""What every state of a sampler of ours has."""


class Piece(NamedTuple):
    """What a rank gets of a round.

    Attributes:
        items: What the loader gets: indices in a batch, or one index.
        ids: The indices, in order.
        weight: What this rank's mean counts in the mean over ranks.
        n: How many examples the round has.
    """

    items: Any
    ids: Sequence[Any] = ()
    weight: float = 1.0
    n: int = 0


class Round(NamedTuple):
    """What all ranks get at one step.

    Attributes:
        size: By how much the position moves.
        piece: What this rank gets; None for nothing.
    """

    size: int
    piece: Piece | None


def slice_of(n: int, *, rank: int, ranks: int) -> slice:
    """Return which of ``n`` things in a row are a rank's: sizes within 1, larger ones first.

    Example:
        >>> [list(range(5))[slice_of(5, rank=rank, ranks=3)] for rank in range(3)]
        [[0, 1], [2, 3], [4]]
    """
    each, more = divmod(n, ranks)
    start = rank * each + min(rank, more)
    return slice(start, start + each + (rank < more))


def joined(batches: Sequence[Any]) -> Any:
    """Return batches of indices as one; a single one stays what it is."""
    return batches[0] if len(batches) == 1 else [index for batch in batches for index in as_list(batch)]


def as_list(batch: Any) -> list[Any]:
    """Return the indices of a batch."""
    return batch.tolist() if isinstance(batch, torch.Tensor | np.ndarray) else list(batch)


class Dealer(Sampler[Any]):
    """A sampler that deals out what another one draws; each of its passes is a ``Pass``.

    Args:
        sampler: The other one.
        rank: Which rank this is.
        ranks: How many there are.
        generator: Gives seeds for what ``sampler`` draws from global generators.
        notes: Whether pieces are kept until somebody has looked at them.

    Attributes:
        dealt: The other one.
        rank: Which rank this is.
        ranks: How many there are.
        latest: The pass that was begun last, or is to begin; None before the first.
    """

    def __init__(
        self, sampler: Iterable[Any], *, rank: int, ranks: int, generator: torch.Generator, notes: bool = False
    ) -> None:
        self.dealt = sampler
        self.rank = rank
        self.ranks = ranks
        self.latest: Pass | None = None
        self._generator = generator
        self._notes = notes
        self._begun: Pass | None = None  # the one that drew last
        self._next = 0  # the number of the next pass
        self._waiting: Pass | None = None  # from a state

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has: no pass that is under way, since nothing can copy what a sampler draws."""
        return {**vars(self), "latest": None, "_begun": None, "_waiting": None}

    @property
    def epoch(self) -> int:
        """The number of the pass that is gone through, or else of the next one; the first is 0."""
        begun = self._begun
        return begun.number if begun is not None and not begun.over else self._next

    def __iter__(self) -> Pass:
        self.latest = self._waiting or Pass(self, notes=self._notes)  # loaders ask twice, and begin with the second
        return self.latest

    def rounds(self, skip: int) -> Iterator[Round]:
        """Yield the rounds of a pass that begins now, from a position on."""
        raise NotImplementedError

    def seed(self) -> int:
        """Draw a seed, the same on every rank."""
        return int(torch.empty((), dtype=torch.int64).random_(generator=self._generator).item())

    def drawing(self) -> Drawing:
        """Return what the other sampler gives in a pass that begins now."""
        return Drawing(self.dealt, seed=None if draws_from_its_own(self.dealt) else self.seed())

    def goes_on(self, a_pass: Pass) -> None:
        """Take in that a pass goes on from a state."""
        if a_pass is self._waiting:
            self._waiting = None

    def began(self, a_pass: Pass, number: int | None) -> int:
        """Take in that a pass draws now; return its number."""
        self._begun = a_pass
        number = self._next if number is None else number
        self._next = number + 1
        return number

    def sources(self) -> list[Source]:
        """Return what a pass draws from."""
        own = Source(self._generator.get_state, self._generator.set_state)
        return [own, *sources_in(self.dealt)]

    def extra(self) -> dict[str, Any]:
        """Return what else is in a state."""
        return {}

    def bring_back_extra(self, state: Mapping[str, Any]) -> None:
        """Take what else is in a state."""

    def between(self) -> dict[str, Any]:
        """Return the state between two passes."""
        generators = [source.get() for source in self.sources()]
        return {"epoch": self._next, "position": 0, "generators": generators, **self._inner(), **self.extra()}

    def _inner(self) -> dict[str, Any]:
        """Return the state of the other sampler, if it has one."""
        return {"sampler": copy.deepcopy(self.dealt.state_dict())} if isinstance(self.dealt, Stateful) else {}

    def bring_back(self, state: Mapping[str, Any]) -> None:
        """Make everything that a pass draws from what it was when the pass of a state began.

        Raises:
            StateError: It is a state of another kind of sampler.
        """
        if not isinstance(state, Mapping) or not state.keys() >= STATE:
            raise StateError(
                f"{brief(state)} is no state of a sampler of Étude: that has an epoch, a position and generators. Load "
                "what its state_dict() gave, or that of a loader which had this sampler."
            )
        sources = self.sources()
        if len(state["generators"]) != len(sources) or ("sampler" in state) != bool(self._inner()):
            raise StateError(
                f"The state is that of a sampler with {len(state['generators'])} generators, and this one has "
                f"{len(sources)}. Load it into a sampler that was made in the same way."
            )
        self.bring_back_extra(state)
        if "sampler" in state:
            self.dealt.load_state_dict(copy.deepcopy(state["sampler"]))  # type: ignore[attr-defined]
        set_all(sources, state["generators"])

    def state_dict(self, done: int | None = None) -> dict[str, Any]:
        """Return where this sampler is; it says nothing of ranks.

        Args:
            done: How many of the pieces of this pass its user is done with; all that were drawn if it is not said.
        """
        begun = self._waiting or self._begun
        if begun is None or (begun.over and begun.is_all(done)):
            return self.between()
        return begun.state_dict(done)

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Have the next pass go on where a state was taken.

        Raises:
            StateError: It is a state of something else.
        """
        if state is None:  # what a loader says whose sampler had no state then; its iterator has one
            return
        waiting = Pass(self, notes=self._notes)
        waiting.load_state_dict(state)
        self._waiting = None if waiting.over else waiting


class Pass(Iterator[Any]):
    """One pass: gives this rank's piece of each round. It begins when it is first asked.

    Args:
        dealer: The sampler that it is a pass of.
        notes: Whether pieces are kept in ``notes``.

    Attributes:
        number: Which pass it is; the first is 0.
        over: Whether it has come to its end.
        ahead: Whether a loader draws from it that has worker processes, and so draws ahead.
        notes: The pieces that nobody has looked at; None if none are kept.
    """

    def __init__(self, dealer: Dealer, *, notes: bool) -> None:
        self.number = 0
        self.over = False
        self.ahead = False
        self.notes: deque[Piece] | None = deque() if notes else None
        self._dealer = dealer
        self._rounds: Iterator[Round] | None = None
        self._began: dict[str, Any] = {}
        self._start = 0
        self._position = 0
        self._after = array("q")  # the position after each piece
        self._seen: Round | None = None  # the next round, if it was looked at
        self._held: list[Any] | None = None  # generators as this pass left them, if others may have drawn since

    def __next__(self) -> Any:
        if self._rounds is None:
            self._begin()
            self.ahead = _is_drawn_ahead()
        if self._held is not None:
            set_all(self._dealer.sources(), self._held)
            self._held = None
            self._dealer.goes_on(self)
            self.ahead = _is_drawn_ahead()
        while True:
            size, piece = self._next_round()
            self._position += size
            if piece is not None:
                self._after.append(self._position)
                if self.notes is not None:
                    self.notes.append(piece)
                return piece.items

    def _next_round(self) -> Round:
        if self._seen is not None:
            found, self._seen = self._seen, None
            return found
        assert self._rounds is not None
        try:
            return next(self._rounds)
        except StopIteration:
            self.over = True
            raise

    def _begin(self, number: int | None = None, skip: int = 0) -> None:
        self._began = self._dealer.between()
        self.number = self._dealer.began(self, number)
        self._rounds = self._dealer.rounds(skip)

    @property
    def drawn(self) -> int:
        """How many pieces were drawn."""
        return len(self._after)

    def is_all(self, done: int | None) -> bool:
        """Say whether so many pieces are all that were drawn."""
        return done is None or done == self.drawn

    def state_dict(self, done: int | None = None) -> dict[str, Any]:
        """Return where this pass is.

        Args:
            done: How many of its pieces are done with; all that were drawn if it is not said.

        Raises:
            StateError: It has not drawn so many.
        """
        if self._rounds is None:
            return self._dealer.between()
        if done is not None and not 0 <= done <= self.drawn:
            raise StateError(
                f"done={done} says that so many of the items of this pass are done with, and {self.drawn} were drawn. "
                "Count those that this rank was given since the pass began, or since it went on from a state: indices, "
                "or batches where the sampler gives batches."
            )
        position = self._position if self.is_all(done) else self._after[done - 1] if done else self._start
        return {**self._began, "epoch": self.number, "position": position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken.

        Raises:
            StateError: It is a state of something else.
        """
        self._dealer.bring_back(state)
        self.over, self._after = False, array("q")
        self._start = self._position = int(state["position"])
        self._begin(int(state["epoch"]), skip=self._start)
        assert self._rounds is not None
        self._seen = next(self._rounds, None)  # also, so that what is drawn at the beginning is drawn
        self.over = self._seen is None
        self._held = [source.get() for source in self._dealer.sources()]


def _is_drawn_ahead() -> bool:
    """Say whether a plain loader with worker processes asks: it has drawn more than it has given out.

    The loader of torchdata is none: it asks for the state whenever it draws, and knows which one it has given out.
    """
    kind = getattr(sys.modules.get("torch.utils.data.dataloader"), "_MultiProcessingDataLoaderIter", ())
    ours = getattr(sys.modules.get("etude.frameworks.torch_feeds"), "Feed", ())
    frame = sys._getframe(2)
    while frame is not None:
        asks = frame.f_locals.get("self")
        if isinstance(asks, kind) or (isinstance(asks, ours) and asks.drawn_ahead):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
