"""Writes the journal of a study that never ran: for tests of what reads studies, such as parts of a report."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from etude.core.events import (
    AnyFact,
    Assigned,
    Closed,
    How,
    Joined,
    Left,
    Opened,
    Outcome,
    Queued,
    Reported,
    Settled,
    Start,
    Tuned,
    Usage,
)
from etude.core.lifecycle import Turn
from etude.core.removal import Arm
from etude.core.system import Order, Taken
from etude.store.journal import Journal

BEGAN_AT: Final = 1_750_000_000.0
ENDS: Final[Mapping[str, tuple[Turn, How]]] = {
    "finished": (Turn.FINISHED, How.FINISHED),
    "stopped": (Turn.STOP_SEEN, How.STOPPED),
    "failed": (Turn.GIVEN_UP, How.RAISED),
    "invalid": (Turn.REFUSED, How.INVALID),
}
"""State -> how a trial comes there. Others are not ended: ``running`` and ``queued``."""


@dataclass(frozen=True)
class Tuning:
    """An epoch of a trial whose machine was tuned.

    Attributes:
        taken: What it took.
        order: The setting of the next one, and why.
    """

    taken: Taken
    order: Order


@dataclass(frozen=True)
class Written:
    """A trial to write down.

    Attributes:
        params: Its configuration.
        value: Its main metric, if it finishes.
        metrics: Its other metrics.
        curve: What it reports of the watched metric.
        state: Where it stands at last: ``finished``, ``stopped``, ``failed``, ``invalid``, ``running`` or ``queued``.
        seed: Its training seed.
        arm: Its arm, in an ablation.
        start: What the weights are called that it began with; None for random ones.
        reason: Why it stands there.
        took_s: Seconds that it ran.
        tuned: Its epochs, if its machine was tuned.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    value: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    curve: Sequence[float] = ()
    state: str = "finished"
    seed: int = 0
    arm: str | None = None
    start: str | None = None
    reason: str = ""
    took_s: float = 10.0
    tuned: Sequence[Tuning] = ()


def write_study(
    folder: str | os.PathLike[str],
    trials: Sequence[Written],
    *,
    metrics: Mapping[str, Any] | None = None,
    verb: str = "",
    question: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    complete: bool = True,
    workers: int = 2,
) -> Path:
    """Write a study's journal as if these trials had been run, and return its folder: open it with ``etude.open``.

    Args:
        folder: Where, not there yet.
        trials: Its trials, in order.
        metrics: Metric -> ``"max"`` or ``"min"``, the main one first; ``{"accuracy": "max"}`` if left out.
        verb: ``"ablate"`` or ``"fit"``, if it is no search.
        question: What was asked, as a study has it.
        meta: What else was recorded.
        complete: Whether the plan was carried out to its end.
        workers: How many workers there were.
    """
    journal, facts = begin_study(
        folder,
        trials,
        metrics=metrics,
        verb=verb,
        question=question,
        meta=meta,
        complete=complete,
        workers=workers,
    )
    try:
        journal.append(facts)
        journal.lease.release()
    finally:
        journal.close()
    return Path(folder)


def begin_study(
    folder: str | os.PathLike[str],
    trials: Sequence[Written],
    *,
    metrics: Mapping[str, Any] | None = None,
    verb: str = "",
    question: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    complete: bool = True,
    workers: int = 2,
) -> tuple[Journal, list[AnyFact]]:
    """Begin to write a study, for tests of what follows one that grows; ``write_study`` tells of the arguments.

    Returns:
        Its journal, which is empty and is written by this process, and the facts to append, in order.
    """
    place, modes = Path(folder), dict(metrics or {"accuracy": "max"})
    asked = {"trials": len(trials), **({"verb": verb} if verb else {}), **(question or {})}
    arms = list(dict.fromkeys(one.arm for one in trials if one.arm is not None))
    if arms:
        asked = {"arms": [{"name": name} for name in arms], **asked}
    told = {"name": place.name, "metrics": modes, "watched": next(iter(modes)), "fidelity": None, "question": asked}
    journal = Journal.create(place, {**told, **(meta or {})})
    journal.take("written")
    return journal, _facts(trials, next(iter(modes)), complete=complete, workers=workers)


def _facts(trials: Sequence[Written], metric: str, *, complete: bool, workers: int) -> list[AnyFact]:
    found: list[tuple[float, int, AnyFact]] = [(BEGAN_AT, 0, Opened(at=BEGAN_AT, driver="written", epoch=1))]
    free = {f"w{nth}": BEGAN_AT + 1.0 for nth in range(workers)}
    found += [(at, 0, Joined(at=at, worker=name, machine="written")) for name, at in free.items()]
    for number, one in enumerate(trials):
        worker = min(free, key=lambda name: free[name])
        start = free[worker]
        arm = Arm(one.arm) if one.arm is not None else None
        weights = Start(one.start, "0" * 64) if one.start is not None else None
        queued = Queued(at=start, trial=number, params=dict(one.params), seed=one.seed, arm=arm, start=weights)
        found.append((start, 2, queued))
        if one.state == "queued":
            continue
        found.append((start, 3, Assigned(at=start, trial=number, attempt=1, worker=worker)))
        for step, value in enumerate(one.curve, 1):
            at = start + one.took_s * step / (len(one.curve) + 1)
            found.append((at, 4, Reported(at=at, trial=number, attempt=1, step=step, metrics={metric: float(value)})))
        for nth, epoch in enumerate(one.tuned, 1):
            at = start + one.took_s * nth / (len(one.tuned) + 1)
            fact = Tuned(at=at, trial=number, attempt=1, machine="written", taken=epoch.taken, order=epoch.order)
            found.append((at, 4, fact))
        end = free[worker] = start + one.took_s
        if one.state in ENDS:
            found.append((end, 1, _end(number, one, end)))
        else:
            del free[worker]
    last = max(at for at, _, _ in found)
    if complete or all(one.state in ENDS for one in trials):
        found += [(last, 5, Left(at=last, worker=name)) for name in free]
        why = "all trials ended" if complete else "stopped by hand"
        found.append((last, 6, Closed(at=last, reason=why, complete=complete)))
    return [fact for _, _, fact in sorted(found, key=lambda one: one[:2])]


def _end(number: int, one: Written, at: float) -> Settled:
    turn, how = ENDS[one.state]
    usage = Usage(wall_s=one.took_s, cpu_s=one.took_s * 0.9, memory_mb=100.0)
    value = one.value if one.state == "finished" else None
    outcome = Outcome(how, value=value, extra=dict(one.metrics), reason=one.reason, usage=usage)
    return Settled(at=at, trial=number, turn=turn, attempt=1, outcome=outcome, reason=one.reason)
