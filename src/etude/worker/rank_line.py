"""What connects the run handle of one of several ranks to the study."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from etude.worker.run import Line, State, WhyNot
from etude.worker.states import OfAll
from etude.worker.together import Together


class OwnLine(Line, Protocol):
    """The line of one rank by itself."""

    def take_up(self, why_not: WhyNot, of_all: OfAll = ...) -> State | None:
        """Return the newest state that is of use; where it is in shards, ``of_all`` says what keeps any."""
        ...

    def has_room(self) -> bool:
        """Wait until no state waits to be written; return whether that is so."""
        ...


class RankLine:
    """The line of one rank: its reports are those of all ranks, and so are stops.

    A report begins to be reduced when it is made, and is heard of at the next one, or at the end of an epoch: nobody
    waits for the slowest rank before that. States are those of rank 0; where the model is sharded each rank has its
    own, and all save theirs or none.

    Args:
        line: The line of this rank alone.
        together: All of them.
        told: Takes what was reported, as it is for all ranks.
    """

    def __init__(self, line: OwnLine, together: Together, told: Callable[[Mapping[str, float]], None]) -> None:
        self.halted = False
        self.held = False
        self._line = line
        self._together = together
        self._told = told
        self._under_way: deque[tuple[int, Any]] = deque()

    def report(self, step: int, metrics: dict[str, float]) -> None:
        """Begin to reduce a report, and hear of those before."""
        self._hear_out()
        self._under_way.append((step, self._together.all.mean(metrics, stop=self._line.halted)))

    def turn(self, at: str) -> None:
        """Hear of all reports, agree on whether to stop or pause, and make sure that all ranks are at one."""
        self._hear_out()
        self.halted, self.held = self._together.all.agree(at, self._line.halted or self.halted, self._line.held)
        self._together.all.check()

    def take_up(self, why_not: WhyNot) -> State | None:
        """Return the state that rank 0 goes on from; or this rank's own, if all can go on from theirs."""
        if self._in_shards:
            return self._line.take_up(why_not, self._of_all)
        found = self._line.take_up(why_not) if self._leads else None
        state: State | None = self._together.all.broadcast(found)
        return state

    def save(self, state: State) -> None:
        """Have rank 0 write a state down: the others have the same. Or all, if each has its own, and room for it."""
        if self._in_shards:
            [is_full] = self._together.all.agree("a state", not self._line.has_room())
            if is_full:
                return
        if self._leads or self._in_shards:
            self._line.save(state)

    def settle(self) -> None:
        """Wait until the newest state is written down, if that can be."""
        if self._leads or self._in_shards:
            self._line.settle()

    def warn(self, text: str) -> None:
        """Have users told something."""
        self._line.warn(text)

    @property
    def _leads(self) -> bool:
        return self._together.number == 0

    @property
    def _in_shards(self) -> bool:
        return self._together.in_shards

    def _of_all(self, problem: str | None) -> str | None:
        """Return what keeps the first rank that cannot go on from a state; None if all can."""
        problems = enumerate(self._together.all.gather(problem, "the state to go on from"))
        return next((f"rank {rank}: {one}" if one else "" for rank, one in problems if one is not None), None)

    def _hear_out(self) -> None:
        while self._under_way:
            step, reduced = self._under_way.popleft()
            agreed = reduced.wait()
            self.halted = self.halted or agreed.stop
            self._told(agreed.values)
            if self._leads:
                self._line.report(step, agreed.values)
