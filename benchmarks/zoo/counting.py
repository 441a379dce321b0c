"""One family, pair by pair: what became of each, strictly counted.

A pair runs if the remover accepted it and no oracle found a fault. Accepted with a fault is wrong, never a smaller
success.
"""

from __future__ import annotations

import copy
import os
import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.zoo.family import Family
from benchmarks.zoo.oracles import Judge
from benchmarks.zoo.pairs import Pair
from benchmarks.zoo.removers import Refused, Remover

PAIR_LIMIT_S: Final = 60
AGAIN_S: Final = 0.5
RAN, REFUSED, WRONG, RAISED, LATE, DIED = "ran", "refused", "wrong", "raised", "late", "died"


@dataclass(frozen=True)
class Outcome:
    """What became of a pair.

    Attributes:
        family: The family's name.
        path: The part.
        type: Its class's name.
        part: must run, edge or dead.
        hard: Whether identity does not do.
        blind: What became of identity in its place.
        outcome: ran, refused, wrong, raised (an error that is no refusal), late or died (and the process with it).
        rung: How deep the repair cut; 0 if there is none.
        code: Of the refusal, or the error's name.
        told: The remover's words, the reason of a refusal, or the faults.
        instead: What a refusal names instead.
        seconds: Of the processor, that the remover took.
        judged_s: Of the processor, that the oracles took.
    """

    family: str
    path: str
    type: str
    part: str
    hard: bool
    blind: str
    outcome: str
    rung: int = 0
    code: str = ""
    told: Sequence[str] = ()
    instead: str = ""
    seconds: float = 0.0
    judged_s: float = 0.0


class _Late(BaseException):
    """A pair's time is over; no handler of errors takes it for one."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise within, after so many seconds of the processor: how busy the machine is does not count."""

    def over(number: int, frame: Any) -> None:
        raise _Late

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN_S)  # what is raised within a destructor is lost
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def outcomes(family: Family, listed: Sequence[Pair], remove: Remover) -> Iterator[Outcome]:
    """Yield what becomes of each of a family's pairs."""
    judge = Judge(family)
    for pair in listed:
        yield outcome(family, pair, remove, judge)


def outcome(family: Family, pair: Pair, remove: Remover, judge: Judge) -> Outcome:
    """Take a part out and judge what is left."""
    began = time.process_time()
    try:
        with limited(PAIR_LIMIT_S):
            try:
                repaired, rung = remove(copy.deepcopy(judge.fresh), pair.path, family.example())
            except Refused as refusal:
                return _of(family, pair, REFUSED, code=refusal.code, told=(str(refusal),), instead=refusal.instead,
                           seconds=time.process_time() - began)  # fmt: skip
            except Exception as error:
                return _of(family, pair, RAISED, code=type(error).__name__, told=(str(error)[:300],),
                           seconds=time.process_time() - began)  # fmt: skip
            took = time.process_time() - began
            faults = judge.faults(repaired, pair.path)
    except _Late:
        return _of(family, pair, LATE, code="late", seconds=time.process_time() - began)
    times = {"seconds": took, "judged_s": time.process_time() - began - took}
    if faults:
        told = (*(str(fault) for fault in faults), *(f"changes: {change}" for change in repaired.changes))
        return _of(family, pair, WRONG, rung=rung, code=faults[0].oracle, told=told, **times)
    return _of(family, pair, RAN, rung=rung, told=tuple(repaired.changes), **times)


def _of(family: Family, pair: Pair, what: str, **more: Any) -> Outcome:
    return Outcome(family.name, pair.path, pair.type, pair.part, pair.hard, pair.blind, what, **more)


def quiet() -> None:
    """Silence what libraries have to say, and use one thread."""
    import torch

    warnings.simplefilter("ignore")
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"  # before it is imported, and many families do without it
    torch.set_num_threads(1)
