"""What came of a study under faults, and what its journal says against a promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etude.core.events import AnyFact, Assigned, Settled
from etude.core.lifecycle import Turn


@dataclass(frozen=True)
class Chaos:
    """What came of a study under faults.

    Attributes:
        faults: How many of each kind fell.
        delayed: Messages that came late.
        doubled: Messages that came twice.
        tails: Tears after the last commit of a journal, by kind.
        spools: Spools that were left with half an outcome at their end.
        spared: How often a fault was put off, since a trial might have had no retry left.
        starts: How often the driver was started.
        attempts: How many attempts were handed out.
        finished: How many trials finished.
        unfinished: How many did not.
        left_whole: Outcomes that were whole in a spool and not yet in the journal when a driver was killed.
        died: Trainings that were completed and whose outcome was whole nowhere, so that they ran again; None if the
            training function keeps no log (see ``LOG``).
        broken: What the journal says against the promise that what was whole in a spool or committed is neither lost,
            nor run again, nor doubled.
        left: Processes that were still there some seconds after the end; they were ended.
        returncode: How the last driver ended.
        output: What it printed.
        errors: What all drivers printed as errors.
        folder: The study.
        seconds: How long it took.
    """

    faults: Mapping[str, int]
    delayed: int
    doubled: int
    tails: Mapping[str, int]
    spools: int
    spared: int
    starts: int
    attempts: int
    finished: int
    unfinished: int
    left_whole: int
    died: int | None
    broken: Sequence[str]
    left: Sequence[str]
    returncode: int
    output: str
    errors: str
    folder: Path
    seconds: float

    def __str__(self) -> str:
        """Return it as a table."""
        died = "not known" if self.died is None else self.died
        rows: list[tuple[str, Any]] = [
            *self.faults.items(),
            ("faults in all", sum(self.faults.values())),
            ("put off: no retry left", self.spared),
            ("messages delayed", self.delayed),
            ("messages doubled", self.doubled),
            *((f"torn tail: {kind}", number) for kind, number in self.tails.items()),
            ("torn spools", self.spools),
            ("driver starts", self.starts),
            ("attempts", self.attempts),
            ("trials finished", self.finished),
            ("trials not finished", self.unfinished),
            ("outcomes only in a spool when a driver was killed", self.left_whole),
            ("completions that died before their outcome was written", died),
            ("results lost, run again or doubled", len(self.broken)),
            ("processes left behind", len(self.left)),
            ("seconds", round(self.seconds, 1)),
        ]
        return "\n".join(f"{name:<55} {value:>8}" for name, value in rows)


def broken(facts: Sequence[AnyFact]) -> list[str]:
    """Return what a journal says against the promise that a committed result is neither run again nor doubled.

    Example:
        >>> from etude.core.events import How, Outcome
        >>> end = Settled(at=1.0, trial=0, turn=Turn.FINISHED, attempt=1, outcome=Outcome(How.FINISHED))
        >>> broken([end, Assigned(at=2.0, trial=0, attempt=2, worker="w1")])
        ['fact 2: trial 0 was handed out again after it had finished']
    """
    finished: set[int] = set()
    found = []
    for number, fact in enumerate(facts, start=1):
        if isinstance(fact, Assigned) and fact.trial in finished:
            found.append(f"fact {number}: trial {fact.trial} was handed out again after it had finished")
        elif isinstance(fact, Settled) and fact.turn is Turn.FINISHED:
            if fact.trial in finished:
                found.append(f"fact {number}: trial {fact.trial} finished twice")
            finished.add(fact.trial)
    return found
