"""What a killed driver left whole: outcomes that are known from then on, and must never be run for again.

An outcome counts once it is whole on disk, in the journal or in a spool, and no sooner. So this is noted while the
driver is dead and before anything is torn. A completion that was in neither died with the processes, and nobody
promised it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from etude.core.events import AnyFact, Assigned, How
from etude.core.history import History
from etude.core.lifecycle import LIVE
from etude.wire.messages import Ended


@dataclass(frozen=True)
class _Left:
    """An outcome that was whole in a spool and not in the journal, and how many facts the journal had then."""

    trial: int
    attempt: int
    seq: int


class Known:
    """Remembers what was whole at each death of a driver, and says what became of it."""

    def __init__(self) -> None:
        self.left: dict[tuple[int, int], _Left] = {}
        """Trial and attempt -> the outcome that was found in a spool."""
        self._seq = 0
        self._digest = _digest([])
        self._gone: list[str] = []

    def note(self, facts: Sequence[AnyFact], history: History, spooled: Sequence[Ended]) -> None:
        """Take in what a driver left that has just died.

        Args:
            facts: Its journal.
            history: The state that they make.
            spooled: What can be read in the spools.
        """
        self._compare(facts)
        self._seq, self._digest = len(facts), _digest(facts)
        for ended in spooled:
            trial = history.trials[ended.trial] if ended.trial < len(history.trials) else None
            # One that the driver had given up, or taken in already, is nobody's any more.
            if trial is None or trial.state not in LIVE or trial.attempt != ended.attempt:
                continue
            if ended.outcome.how is How.FINISHED:
                key = (ended.trial, ended.attempt)
                self.left.setdefault(key, _Left(*key, len(facts)))

    def again(self, facts: Sequence[AnyFact]) -> list[str]:
        """Return each hand-out of a trial whose outcome was whole in a spool before."""
        return [
            f"fact {number}: trial {left.trial} was handed out again, and the outcome of its attempt {left.attempt} "
            f"had been whole in a spool when a driver died after fact {left.seq}"
            for left in self.left.values()
            for number, fact in enumerate(facts[left.seq :], start=left.seq + 1)
            if isinstance(fact, Assigned) and fact.trial == left.trial
        ]

    def gone(self, facts: Sequence[AnyFact]) -> list[str]:
        """Return what the journal had when a driver died and did not have later."""
        self._compare(facts)
        return list(self._gone)

    def _compare(self, facts: Sequence[AnyFact]) -> None:
        if _digest(facts[: self._seq]) != self._digest:
            self._gone.append(f"the first {self._seq} facts are not those that the journal had when a driver died")


def _digest(facts: Sequence[AnyFact]) -> bytes:
    digest = hashlib.blake2b()
    for fact in facts:
        digest.update(repr(fact).encode(errors="surrogatepass"))  # as text: not a number is not equal to itself
    return digest.digest()
