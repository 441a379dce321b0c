"""States of an attempt in a depot: written in the background, at most one ahead of the journal, and read again.

Training waits only for the copy of a state. One thread writes it, and tells the driver when it is whole; the next is
written when the driver has noted that, and has removed what is surplus by it. So there is never more on the disk than
was agreed, and a state that comes while another is under way gives way to the one after it. The state after an epoch
gives way to that after a later epoch, and not to one within it: others want it too.

Where ranks shard the model each writes its own state, and those of all ranks are one. So all write the same ones, one
after the other, and none gives way: whoever trains waits until there is room for the next (``has_room``).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

import msgspec

from etude.core.errors import StateError
from etude.core.events import PARTS, Checkpoint, Key, Origin
from etude.core.text import count
from etude.data.seen import Seen
from etude.places.depot import Depot
from etude.wire.messages import Run, Saved, TakenUp, Warned
from etude.worker.run import State, WhyNot

NOTED_S: Final = 10.0
"""Seconds that the end of an attempt waits for the driver, so that its last state can be written."""

OTHERS_S: Final = 300.0
"""Seconds that a rank waits for others to write their shards of a state."""

Say = Callable[[Saved | TakenUp | Warned], None]
OfAll = Callable[[str | None], str | None]


class States:
    """The states of one attempt.

    Args:
        job: The attempt, and from where it may go on.
        depot: Where states lie.
        say: Tells the driver something, from any thread.
        named: Epochs whose weights are wanted, by how many are done: their states do not give way to newer ones.
        seen: Returns what rows the attempt has seen, which is written beside its weights.
        in_shards: Whether each rank writes a shard of each state.
    """

    def __init__(
        self,
        job: Run,
        depot: Depot,
        *,
        say: Say,
        named: Collection[int] = (),
        seen: Callable[[], Seen] | None = None,
        in_shards: bool = False,
    ) -> None:
        self._job = job
        self._in_shards = in_shards
        self._rank, self._ranks = (job.rank.number, job.rank.ranks) if in_shards and job.rank is not None else (0, 1)
        self._depot = depot
        self._turn = depot.turn()  # from before a state is written until the journal has it, and the surplus is gone
        self._say = say
        self._named = named
        self._seen = seen
        self._before: Seen | None = None  # what those had seen whose state it went on from
        self._beside: Any = None
        self._changed = threading.Condition()
        self._next: _Apart | None = None  # to be written
        self._spare: _Apart | None = None  # was written, and the next may be copied over it
        self._writing = False
        self._written: Key | None = None
        self._unnoted = False  # whether one is written that the driver has not noted yet
        self._closing = False
        self._warned = False
        self._thread: threading.Thread | None = None
        self.taken_up: TakenUp | None = None
        """From where it went on, once that is known."""

    def take_up(self, why_not: WhyNot, of_all: OfAll = lambda problem: problem) -> State | None:
        """Return the newest state of earlier attempts that can be read and is of use, and tell which that is.

        Args:
            why_not: Says why a state is of no use.
            of_all: Where it is in shards, returns what keeps any of the ranks from going on from it.
        """
        problems: list[str] = []
        source = self._job.source
        trial = self._job.trial if source is None else source
        for point in self._job.points:
            found, beside, problem = self._found(trial, point, why_not)
            problem = of_all(problem)
            if problem is None and found is not None:
                self._before = Seen.read(beside)
                self._tell_taken_up(point.key, found, problems)
                return found
            problems += [f"{_place(point.key)}: {problem}"] if problem else []
        if self._job.points:
            self._tell_taken_up(None, None, problems)
        return None

    def _found(self, trial: int, point: Checkpoint, why_not: WhyNot) -> tuple[State | None, Any, str | None]:
        """Return the state of a checkpoint with what is beside its weights; and why it is of no use, if it is not."""
        if point.ranks != self._ranks:
            return None, None, f"{count(point.ranks, 'rank')} saved it, and {self._ranks} are to go on"
        try:
            (weights, beside), (rest, _) = (
                self._read(trial, point.name(part, self._rank), point.digest(part, self._rank)) for part in PARTS
            )
            last, inner = rest["last"], rest["rest"]
            found = State(point.loop, point.epoch, point.step, last, weights, inner, self._job.source, point.batch)
        except (StateError, KeyError, TypeError) as error:
            return None, None, str(error)
        return found, beside, why_not(found)

    def _read(self, trial: int, name: str, digest: str) -> tuple[Any, Any]:
        from etude.frameworks import state_file

        with self._depot.opened(trial, name) as path:
            return state_file.read(path, digest), state_file.beside(path)

    def _tell_taken_up(self, key: Key | None, found: State | None, problems: list[str]) -> None:
        step, last = (found.step, found.last) if found is not None else (0, {})
        origin = Origin(key, step, "; ".join(problems), last, self._job.source)
        if not self._job.leads:
            return
        self.taken_up = TakenUp(self._job.trial, self._job.attempt, origin)
        self._say(self.taken_up)
        if problems:
            goes_on = "it starts over" if key is None else f"it goes on from {_place(key)}"
            whose = "it" if self._job.source is None else f"trial {self._job.source}"
            told = f"Trial {self._job.trial} could not use what {whose} had saved, so {goes_on}. {'; '.join(problems)}"
            self._say(Warned(self._job.trial, told))

    def has_room(self) -> bool:
        """Wait until no state waits to be written, as long as there is any hope; return whether that is so."""
        with self._changed:
            while not self._changed.wait_for(lambda: self._next is None, self._patience_s):
                if not self._writing:
                    return False
        return True

    def save(self, state: State) -> None:
        """Copy a state, and have it written; this waits for the copy alone.

        Raises:
            StateError: There is something in it that no file can hold.
        """
        if self._seen is not None and self._beside is None and state.weights:  # once, and only if it is of use
            seen = self._seen()
            self._beside = (seen if self._before is None else seen | self._before).plain()
        with self._changed:
            if state.batch and self._next is not None and not self._next.batch:
                return
            self._changed.wait_for(lambda: not self._is_named(self._next), NOTED_S)
            spare = self._next or self._spare  # what still waits gives way
            self._next = self._spare = None
        apart = _Apart.of(state, spare)
        with self._changed:
            self._next = apart
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="etude-states", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    @property
    def _patience_s(self) -> float:
        """How long it waits, in seconds, while it writes nothing itself."""
        return OTHERS_S if self._in_shards else NOTED_S

    def _is_named(self, apart: _Apart | None) -> bool:
        """Whether the weights of a state are wanted by the number of its epoch."""
        return apart is not None and not apart.batch and apart.epoch in self._named

    def noted(self, key: Key) -> None:
        """Take in that the driver has noted a checkpoint; it may say so twice."""
        with self._changed:
            if key == self._written:
                self._unnoted = False
                self._turn.end()
                self._changed.notify_all()

    @property
    def settled(self) -> bool:
        """Whether nothing is left to be written."""
        return self._next is None and not self._writing

    def settle(self) -> None:
        """Wait until nothing is left to be written; but not for ever for a driver that does not note what was."""
        with self._changed:
            while not self._changed.wait_for(lambda: self.settled, self._patience_s):
                if not self._writing:  # its disk is full, say: the outcome must not wait for that
                    return

    def close(self) -> None:
        """Write nothing more after what is being written."""
        with self._changed:
            self._closing, self._next = True, None
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._turn.end()
        self._spare = None

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or (self._next is not None and not self._unnoted))
                if self._closing:
                    return
                self._writing = True
            self._turn.take(given_up=lambda: self._closing)
            with self._changed:
                apart, self._next = self._next, None  # the newest by now; none if it is just giving way, or closing
                self._changed.notify_all()
            try:
                if apart is not None:
                    self._write(apart)
            finally:
                with self._changed:
                    self._writing, self._spare = False, self._spare or apart
                    if self._in_shards or not self._unnoted:  # other ranks may wait for their turn at the same state
                        self._turn.end()
                    self._changed.notify_all()

    def _write(self, apart: _Apart) -> None:
        checkpoint = Checkpoint(self._job.attempt, apart.loop, apart.epoch, apart.step, ("", ""), (0, 0), apart.batch)
        weights = None
        try:
            weights = self._put(checkpoint.name("weights", self._rank), *apart.weights, beside=self._beside)
            rest = self._put(checkpoint.name("rest", self._rank), *apart.rest)
        except Exception as error:  # a full disk, a place out of reach, or what the library of safetensors cannot write
            if weights is not None:
                with contextlib.suppress(Exception):  # then it goes when the attempt is over
                    self._depot.remove(self._job.trial, checkpoint.name("weights", self._rank))
            self._warn(checkpoint, error)
            if not self._in_shards:  # else the others have to hear of it
                return
            weights = rest = ("", 0)
        self._unnoted, self._written = True, checkpoint.key
        digests, sizes = zip(weights, rest, strict=True)
        checkpoint = msgspec.structs.replace(checkpoint, digests=digests, sizes=sizes)
        self._say(Saved(self._job.trial, checkpoint))

    def _warn(self, checkpoint: Checkpoint, error: Exception) -> None:
        """Have users told, once, that a state could not be written."""
        if not self._warned:
            self._warned = True
            self._say(
                Warned(
                    self._job.trial,
                    f"The state of trial {self._job.trial} after {_place(checkpoint.key)} could not be saved "
                    f"({getattr(error, 'strerror', None) or error}). Training goes on; if it is lost, it goes on "
                    "from the state that was saved before.",
                )
            )

    def _put(self, name: str, plain: Any, arrays: dict[str, Any], *, beside: Any = None) -> tuple[str, int]:
        from etude.frameworks import state_file

        return self._depot.put(self._job.trial, name, lambda path: state_file.write(path, plain, arrays, beside=beside))


class _Apart(NamedTuple):
    """A state as files hold it, copied: training goes on meanwhile."""

    loop: int
    epoch: int
    step: int
    batch: int
    weights: tuple[Any, dict[str, Any]]
    rest: tuple[Any, dict[str, Any]]

    @classmethod
    def of(cls, state: State, spare: _Apart | None) -> _Apart:
        from etude.frameworks.trees import take_apart

        old_weights, old_rest = (spare.weights[1], spare.rest[1]) if spare is not None else ({}, {})
        weights = take_apart(state.weights, path="", spare=old_weights)
        rest = take_apart({"last": state.last, "rest": state.rest}, path="state", spare=old_rest)
        return cls(state.loop, state.epoch, state.step, state.batch, weights, rest)


def _place(key: Key) -> str:
    """Say where in the training a checkpoint is."""
    _, _, epoch, *batch = key
    return f"epoch {epoch}" + "".join(f" and {n} batches" for n in batch)
