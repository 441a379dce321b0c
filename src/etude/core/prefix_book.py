"""Which saved states trials may go on from, and who waits for one: an index by what trials have in common.

Each boundary of a trial is a *node*, found by the key of all that happens until then (``core.prefixes``). A node knows
who holds its state, who may still make it, and how many trials may still want it. So a trial is placed, and moved, in
time in proportion to its own boundaries, however many trials there are.

Who waits, waits for a trial that works, or that has something saved and so waits for nobody, or that comes before it:
one with fewer epochs, or as many and a lower number. So nobody waits in a circle, and at the end of each chain is
somebody who can go on. Shorter trials come first since a longer one can go on from where they end, and they cannot take
their end from it: the training function has to come to it by itself.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from typing import Final, NamedTuple

from etude.core.events import (
    AnyFact,
    Assigned,
    Checkpoint,
    Checkpointed,
    Freed,
    Params,
    Queued,
    Resumed,
    Settled,
    Shared,
)
from etude.core.history import History, Trial
from etude.core.lifecycle import FINAL, State
from etude.core.prefixes import Path, Prefixes
from etude.core.shelf import POINTS


class Source(NamedTuple):
    """A state to go on from: whose, and after how many epochs."""

    trial: int
    epoch: int


class Waits(NamedTuple):
    """For the state after so many epochs, which somebody else is to make."""

    epoch: int


class _Place(NamedTuple):
    """What a trial is to the nodes on its path.

    Attributes:
        done: It makes those after more epochs than these; infinite if none.
        moves: Whether it works, or has something saved: then it waits for nobody.
        wants: Whether it may still go on from one of them.
    """

    done: float = math.inf
    moves: bool = False
    wants: bool = False


NOWHERE: Final = _Place()


class _Node:
    __slots__ = ("epoch", "holder", "makers", "moving", "wanting")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.holder: int | None = None
        self.makers: list[tuple[float, int]] = []  # epochs and number, sorted
        self.moving: set[int] = set()  # those of them that wait for nobody
        self.wanting = 0

    def is_made_for(self, epochs: float, trial: int) -> bool:
        """Whether somebody makes it for whom this trial may wait."""
        if self.makers and self.makers[0] < (epochs, trial):
            return True
        return len(self.moving) > (trial in self.moving)

    @property
    def is_idle(self) -> bool:
        return self.holder is None and not self.makers and not self.wanting


class PrefixBook:
    """The nodes of a study, as its history has them.

    Args:
        prefixes: How trials may share their beginnings.
        history: The study so far. Each fact that changes it is taken in here as well.
    """

    def __init__(self, prefixes: Prefixes, history: History) -> None:
        self._prefixes = prefixes
        self._history = history
        self._nodes: dict[bytes, _Node] = {}
        self._paths: dict[int, Path] = {}
        self._places: dict[int, _Place] = {}
        self._to_come: dict[int, Path] = {}
        self._first_with: dict[bytes, int] = {}
        self._unwanted: set[bytes] = set()  # nodes to look at: nobody may want their state any more
        self.open = prefixes.to_come is None and prefixes.recur
        """Whether trials may come that want any of it, and nobody knows which."""
        for trial in history.trials:
            self._look_at(trial.number)
        if prefixes.to_come is not None:
            for number, params in enumerate(prefixes.to_come(len(history.trials)), start=len(history.trials)):
                self._await(number, params)
        for number, epoch in history.shares.curves:
            key = self._key(number, epoch)
            if key is not None:
                self._node(key, epoch).holder = number
                self._unwanted.add(key)

    @property
    def foresees(self) -> bool:
        """Whether it is known which trials will come."""
        return self._prefixes.to_come is not None

    @property
    def looks_ahead(self) -> bool:
        """Whether trials are better queued before they are handed out, since shorter ones are to come first."""
        return self.foresees and self._prefixes.budget is not None

    def alike(self, params: Params, seed: int) -> int | None:
        """Return the first trial that is the same training as one with this configuration, whole; None if none is."""
        return self._first_with.get(self._prefixes.path(params, seed).whole)

    def take_in(self, fact: AnyFact) -> None:
        """Take in a fact, which the history knows already."""
        if isinstance(fact, Shared):
            key = self._key(fact.trial, fact.epoch)
            assert key is not None, "it was asked whether it wants that state"
            self._node(key, fact.epoch).holder = fact.trial
        elif isinstance(fact, Freed):
            for number, _ in fact.states:
                self._look_at(number)
        elif isinstance(fact, Queued | Assigned | Checkpointed | Resumed | Settled):
            self._look_at(fact.trial)

    def _look_at(self, number: int) -> None:
        """Take in how a trial stands now."""
        trial = self._history.trials[number]
        if number not in self._paths:
            self._take_in(trial)
        path, before = self._paths[number], self._places.get(number, NOWHERE)
        now = self._place_of(trial)
        self._places[number] = now
        for epoch, key in path.boundaries:
            if before != now:
                self._move(number, path, epoch, key, before, now)
        if before.wants != now.wants:
            for epoch, key in path.usable:
                self._want(key, epoch, +1 if now.wants else -1)
        for epoch, key in path.boundaries:
            node = self._nodes.get(key)
            if node is not None and node.holder == number and (number, epoch) not in self._history.shares.curves:
                node.holder = None

    def wants(self, number: int, checkpoint: Checkpoint) -> bool:
        """Say whether a state that a trial has just saved is to be kept for others."""
        key = self._key(number, checkpoint.epoch) if checkpoint.loop == 0 and checkpoint.whole else None
        if key is None:
            return False
        node = self._node(key, checkpoint.epoch)
        return node.holder is None and self._is_wanted(node, but=number)

    def way(self, trial: Trial) -> Source | Waits | None:
        """Return from where a trial that is to be handed out goes on; None if from its own states, or the start."""
        if not self._is_of_use or self._history.shelf.points(trial.number) or trial.number not in self._paths:
            return None
        path = self._paths[trial.number]
        for epoch, key in path.usable:
            node = self._nodes.get(key)
            if node is None:
                continue
            if node.holder is not None:
                return Source(node.holder, epoch)
            if node.is_made_for(path.epochs, trial.number):
                return Waits(epoch)
        return None

    def surplus(self) -> tuple[tuple[int, int], ...]:
        """Return the states that nobody wants any more, as (trial, epoch); they are taken to be let go."""
        found = []
        for key in sorted(self._unwanted):
            node = self._nodes.get(key)
            if node is None or node.holder is None or self._is_wanted(node, but=node.holder):
                continue
            found.append((node.holder, node.epoch))
            node.holder = None
            self._drop_if_idle(key, node)
        self._unwanted.clear()
        return tuple(found)

    def close(self) -> None:
        """Take in that no trials come any more but those that there are."""
        if self.open:
            self.open = False
            self._unwanted.update(key for key, node in self._nodes.items() if node.holder is not None)

    def check(self) -> None:
        """Assert that it says what it would say if it were made anew; the tests call it."""
        again = PrefixBook(self._prefixes, self._history)
        again.surplus()
        mine, theirs = self._told(), again._told()
        assert mine == theirs, f"{mine} is not {theirs}"
        held = {(node.holder, node.epoch) for node in self._nodes.values() if node.holder is not None}
        assert held == set(self._history.shares.curves), "what is kept for others is held, and nothing else is"

    def _told(self) -> dict[bytes, tuple[object, ...]]:
        return {
            key: (node.epoch, node.holder, list(node.makers), set(node.moving), node.wanting)
            for key, node in self._nodes.items()
            if not node.is_idle
        }

    @property
    def _is_of_use(self) -> bool:
        """Whether it pays to go on from others: not where nothing is ever saved, or where no state was ever of use."""
        history = self._history
        if not history.shelf.used and len(history.finished) > history.taken:
            return False
        return not history.shares.refused or bool(history.shares.inherited)

    def _take_in(self, trial: Trial) -> None:
        foreseen = self._to_come.pop(trial.number, None)
        if trial.same_as is not None:
            path = Path(0, (), (), b"")
        else:
            path = self._prefixes.path(trial.params, trial.seed, trial.start)
            if trial.start is None:
                self._first_with.setdefault(path.whole, trial.number)
        self._paths[trial.number] = path
        if foreseen is not None:
            for epoch, key in foreseen.usable:
                self._want(key, epoch, -1)

    def _await(self, number: int, params: Params) -> None:
        path = self._to_come[number] = self._prefixes.path(params, self._prefixes.seed)
        for epoch, key in path.usable:
            self._want(key, epoch, +1)

    def _place_of(self, trial: Trial) -> _Place:
        if trial.state in FINAL or trial.same_as is not None:
            return NOWHERE
        points = self._history.shelf.points(trial.number)
        if points:
            done: float = points[0].epoch if points[0].loop == 0 else math.inf
        else:
            done = self._history.shares.inherited.get(trial.number, 0)
        moves = trial.worker is not None or bool(points)
        return _Place(math.inf if trial.state is State.PAUSED else done, moves, len(points) < POINTS)

    def _move(self, number: int, path: Path, epoch: int, key: bytes, before: _Place, now: _Place) -> None:
        node = self._node(key, epoch)
        made, makes = epoch > before.done, epoch > now.done
        if made and not makes:
            del node.makers[bisect_left(node.makers, (path.epochs, number))]
        elif makes and not made:
            insort(node.makers, (path.epochs, number))
        if makes and now.moves:
            node.moving.add(number)
        else:
            node.moving.discard(number)
        self._drop_if_idle(key, node)

    def _want(self, key: bytes, epoch: int, more: int) -> None:
        node = self._node(key, epoch)
        node.wanting += more
        if more < 0:
            self._unwanted.add(key)
            self._drop_if_idle(key, node)

    def _is_wanted(self, node: _Node, *, but: int) -> bool:
        """Whether anybody may still go on from a node, other than who made it."""
        path = self._paths[but]
        own = self._places[but].wants and any(epoch == node.epoch for epoch, _ in path.usable)
        return self.open or node.wanting > own

    def _key(self, number: int, epoch: int) -> bytes | None:
        path = self._paths.get(number)
        return next((key for at, key in path.boundaries if at == epoch), None) if path is not None else None

    def _node(self, key: bytes, epoch: int) -> _Node:
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = _Node(epoch)
        return node

    def _drop_if_idle(self, key: bytes, node: _Node) -> None:
        if node.is_idle:
            self._nodes.pop(key, None)
