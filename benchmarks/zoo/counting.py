"""One family, pair by pair: what became of each, strictly counted.

A pair runs if the remover accepted it and no oracle found a fault. Accepted with a fault is wrong, never a smaller
success. Run as a module with a family, a remover, a number of pairs and a file, which gets a line for each pair.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.zoo.families import FAMILIES
from benchmarks.zoo.family import Family
from benchmarks.zoo.oracles import Judge
from benchmarks.zoo.pairs import Pair, pairs
from benchmarks.zoo.removers import REMOVERS, Refused, Remover

PAIR_LIMIT_S: Final = 60
RAN, REFUSED, WRONG, RAISED, LATE = "ran", "refused", "wrong", "raised", "late"


@dataclass(frozen=True)
class Outcome:
    """What became of a pair.

    Attributes:
        family: The family's name.
        path: The part.
        type: Its class's name.
        part: must run, edge or dead.
        hard: Whether identity does not do.
        outcome: ran, refused, wrong, raised (an error that is no refusal) or late.
        rung: How deep the repair cut; 0 if there is none.
        code: Of the refusal, or the error's name.
        told: The remover's words, the reason of a refusal, or the faults.
        instead: What a refusal names instead.
        seconds: What the remover took.
    """

    family: str
    path: str
    type: str
    part: str
    hard: bool
    outcome: str
    rung: int = 0
    code: str = ""
    told: Sequence[str] = ()
    instead: str = ""
    seconds: float = 0.0


class _Late(BaseException):
    """A pair's time is over; no handler of errors takes it for one."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise within, after so many seconds of the processor: how busy the machine is does not count."""

    def over(number: int, frame: Any) -> None:
        raise _Late

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def outcomes(family: Family, remove: Remover, sample: int) -> Iterator[Outcome]:
    """Yield what becomes of each pair of a family, or of so many."""
    judge = Judge(family)
    for pair in pairs(family, sample):
        yield outcome(family, pair, remove, judge)


def outcome(family: Family, pair: Pair, remove: Remover, judge: Judge) -> Outcome:
    """Take a part out and judge what is left."""
    known: dict[str, Any] = {
        "family": family.name,
        "path": pair.path,
        "type": pair.type,
        "part": pair.part,
        "hard": pair.hard,
    }
    began = time.perf_counter()
    try:
        with limited(PAIR_LIMIT_S):
            try:
                repaired, rung = remove(family.build(), pair.path, family.example())
            except Refused as refusal:
                return Outcome(**known, outcome=REFUSED, code=refusal.code, told=(str(refusal),),
                               instead=refusal.instead, seconds=time.perf_counter() - began)  # fmt: skip
            except Exception as error:
                return Outcome(**known, outcome=RAISED, code=type(error).__name__, told=(str(error)[:300],),
                               seconds=time.perf_counter() - began)  # fmt: skip
            took = time.perf_counter() - began
            faults = judge.faults(repaired, pair.path)
    except _Late:
        return Outcome(**known, outcome=LATE, code="late", seconds=time.perf_counter() - began)
    if faults:
        told = (*(str(fault) for fault in faults), *(f"changes: {change}" for change in repaired.changes))
        return Outcome(**known, outcome=WRONG, rung=rung, code=faults[0].oracle, told=told, seconds=took)
    return Outcome(**known, outcome=RAN, rung=rung, told=tuple(repaired.changes), seconds=took)


def quiet() -> None:
    """Silence what libraries have to say, and use one thread."""
    import torch

    warnings.simplefilter("ignore")
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"  # before it is imported, and many families do without it
    torch.set_num_threads(1)


def main(name: str, remover: str, sample: str, file: str) -> None:
    """Write a line for each pair of a family."""
    quiet()
    with Path(file).open("a") as lines:
        for one in outcomes(FAMILIES[name], REMOVERS[remover], int(sample)):
            lines.write(json.dumps(asdict(one), ensure_ascii=False) + "\n")
            lines.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
