"""How far a worker is trusted: which trials it gets, how long it rests after failures, and when it is let go.

A broken node must not fail a study. So a trial goes to a worker on which it has not failed, a worker that fails often
waits before it gets more, and one that loses what does well elsewhere gets nothing any more.
"""

from __future__ import annotations

import math
from typing import Final

from etude.core.history import History, Trial, Worker
from etude.core.lifecycle import State
from etude.core.limits import Limits
from etude.core.packing import Packing

QUARANTINE_AFTER: Final = 3
"""A worker that lost this many trials which then did well elsewhere gets no more."""


def worker_for(trial: Trial, history: History, limits: Limits, packing: Packing, *, at: float) -> Worker | None:
    """Return an idle and rested worker for a trial, where there is room for it; None if it has to wait for one.

    One on which the trial failed gets it only if there is no other left, busy or not.
    """
    spurned: Worker | None = None
    sites = packing.sites_for(trial)
    for worker in history.idle.values():
        if worker.site not in sites or rested_at(worker, limits) > at:
            continue
        if worker.name not in trial.tried_on:
            return worker
        spurned = spurned or worker
    elsewhere = (w for w in history.workers.values() if w.name not in trial.tried_on)
    return None if any(not w.quarantined for w in elsewhere) else spurned


def rested_at(worker: Worker, limits: Limits) -> float:
    """Return when a worker may have work again, on the driver's clock."""
    if worker.fails <= 1:  # anybody may fail once
        return worker.last_fail_at
    return worker.last_fail_at + min(limits.max_backoff_s, limits.backoff_s * math.pow(2, worker.fails - 2))


def may_be_the_workers_fault(trial: Trial, history: History, limits: Limits) -> bool:
    """Whether an exception of a trial may come from where it ran, so that it is worth another worker."""
    worker = history.workers.get(trial.worker or "")
    if worker is None or worker.good_ends or trial.raised_on:
        return False
    others = (w for w in history.workers.values() if w is not worker)
    return limits.workers > 1 or any(not w.quarantined for w in others)


def why_quarantined(worker: Worker, history: History) -> str | None:
    """Return why a worker is to be let go; None if it is not."""
    elsewhere = sorted(n for n in worker.hurt if history.trials[n].state is State.FINISHED)
    if len(elsewhere) < QUARANTINE_AFTER:
        return None
    return f"it lost trials {elsewhere}, which finished on other workers"
