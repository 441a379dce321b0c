"""States of an attempt in a depot: written in the background, at most one ahead of the journal, and read again.

Training waits only for the copy of a state. One thread writes it, and tells the driver when it is whole; the next is
written when the driver has noted that, and has removed what is surplus by it. So there is never more on the disk than
was agreed, and a state that comes while another is under way gives way to the one after it. The state after an epoch
gives way to that after a later epoch, and not to one within it: others want it too.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

import msgspec

from etude.core.errors import StateError
from etude.core.events import PARTS, Checkpoint, Key, Origin
from etude.data.seen import Seen
from etude.places.depot import Depot
from etude.wire.messages import Run, Saved, TakenUp, Warned
from etude.worker.run import State, WhyNot

NOTED_S: Final = 10.0
"""Seconds that the end of an attempt waits for the driver, so that its last state can be written."""

Say = Callable[[Saved | TakenUp | Warned], None]


class States:
    """The states of one attempt.

    Args:
        job: The attempt, and from where it may go on.
        depot: Where states lie.
        say: Tells the driver something, from any thread.
        named: Epochs whose weights are wanted, by how many are done: their states do not give way to newer ones.
        seen: Returns what rows the attempt has seen, which is written beside its weights.
    """

    def __init__(
        self,
        job: Run,
        depot: Depot,
        *,
        say: Say,
        named: Collection[int] = (),
        seen: Callable[[], Seen] | None = None,
    ) -> None:
        self._job = job
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

    def take_up(self, why_not: WhyNot) -> State | None:
        """Return the newest state of earlier attempts that can be read and is of use, and tell which that is."""
        problems, source = [], self._job.source
        trial = self._job.trial if source is None else source
        for point in self._job.points:
            try:
                (weights, beside), (rest, _) = (
                    self._read(trial, point.name(part), digest)
                    for part, digest in zip(PARTS, point.digests, strict=True)
                )
                found = State(
                    point.loop, point.epoch, point.step, rest["last"], weights, rest["rest"], source, point.batch
                )
            except (StateError, KeyError, TypeError) as error:
                problems.append(f"{_place(point.key)}: {error}")
                continue
            problem = why_not(found)
            if problem is None:
                self._before = Seen.read(beside)
                self._tell_taken_up(point.key, found, problems)
                return found
            problems += [f"{_place(point.key)}: {problem}"] if problem else []
        if self._job.points:
            self._tell_taken_up(None, None, problems)
        return None

    def _read(self, trial: int, name: str, digest: str) -> tuple[Any, Any]:
        from etude.frameworks import state_file

        with self._depot.opened(trial, name) as path:
            return state_file.read(path, digest), state_file.beside(path)

    def _tell_taken_up(self, key: Key | None, found: State | None, problems: list[str]) -> None:
        step, last = (found.step, found.last) if found is not None else (0, {})
        origin = Origin(key, step, "; ".join(problems), last, self._job.source)
        self.taken_up = TakenUp(self._job.trial, self._job.attempt, origin)
        self._say(self.taken_up)
        if problems:
            goes_on = "it starts over" if key is None else f"it goes on from {_place(key)}"
            whose = "it" if self._job.source is None else f"trial {self._job.source}"
            told = f"Trial {self._job.trial} could not use what {whose} had saved, so {goes_on}. {'; '.join(problems)}"
            self._say(Warned(self._job.trial, told))

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
            while not self._changed.wait_for(lambda: self.settled, NOTED_S):
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
                    if not self._unnoted:
                        self._turn.end()
                    self._changed.notify_all()

    def _write(self, apart: _Apart) -> None:
        checkpoint = Checkpoint(self._job.attempt, apart.loop, apart.epoch, apart.step, ("", ""), (0, 0), apart.batch)
        weights = None
        try:
            weights = self._put(checkpoint.name("weights"), *apart.weights, beside=self._beside)
            rest = self._put(checkpoint.name("rest"), *apart.rest)
        except Exception as error:  # a full disk, a place out of reach, or what the library of safetensors cannot write
            if weights is not None:
                with contextlib.suppress(Exception):  # then it goes when the attempt is over
                    self._depot.remove(self._job.trial, checkpoint.name("weights"))
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
            return
        self._unnoted, self._written = True, checkpoint.key
        digests, sizes = zip(weights, rest, strict=True)
        checkpoint = msgspec.structs.replace(checkpoint, digests=digests, sizes=sizes)
        self._say(Saved(self._job.trial, checkpoint))

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
