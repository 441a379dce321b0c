"""One simulated study, from plan to result: the shell that lets the driver work in virtual time.

The driver, the plan, the sampler and the stopper are those of a real study, and so are journal and history. What
is not there is everything around them: no event loop, no process, no waiting. ``VirtualRun`` lets one thing happen
after the other, and the time is whatever it is then.

Facts are written in large batches, since nobody waits for them: who kills a simulation loses what the next run of
it works out again.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from etude.core.clock import WallClock
from etude.core.events import Cancelled, Joined, Opened, Params
from etude.core.limits import Limits
from etude.engines.curves import CurveSource
from etude.engines.simulated import Simulated
from etude.store.journal import Journal
from etude.store.provenance import run_key
from etude.studies.at_work import LEASE_S, AtWork
from etude.studies.virtual_run import VirtualRun
from etude.tune.question import Question

FACTS_AT_ONCE: Final = 20_000
EVENTS_PER_LOOK: Final = 500
"""So many events are handled between two looks at the real world: whether to stop, whether to show a sign of life."""

DRIVER: Final = "simulated"
"""Names the driver in the journal: the same in each run, since equal calls give equal journals."""


@dataclass
class Rehearsal:
    """Everything that a simulated study needs beside its folder.

    Attributes:
        question: What the study is to find out.
        engine: How its workers are.
        source: What its trials report, and when.
        workers: How many, where the engine does not say.
        defaults: Values of parameters that a configuration leaves out.
        limits: How patient the driver is.
        timeout_s: Seconds after which an attempt is ended; None for no limit.
        grace_s: Seconds that an attempt has to see a stop.
        provenance: Collects what is recorded about the run.
    """

    question: Question
    engine: Simulated
    source: CurveSource
    workers: int
    defaults: Params = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    timeout_s: float | None = None
    grace_s: float = 10.0
    provenance: Callable[[], Mapping[str, Any]] | None = None


class Simulation(AtWork):
    """A simulated study at work.

    Args:
        journal: Its journal, open for writing, without the lease.
        rehearsal: What to do.
        driver_id: Marks this process.
    """

    def __init__(self, journal: Journal, rehearsal: Rehearsal, *, driver_id: str) -> None:
        question = rehearsal.question
        run = VirtualRun(question, rehearsal.limits, fail=self._fail, thought=self._look_around)
        super().__init__(
            journal,
            question,
            run.history,
            driver_id=driver_id,
            clock=run.clock,
            workers=rehearsal.engine.most_workers or rehearsal.workers,
            thread="etude-simulation",
        )
        self._rehearsal = rehearsal
        self._run = run
        self._wall = WallClock()
        self._beaten_at = 0.0
        self._opened: Opened

    def _take_up(self) -> None:
        started = 0
        for fact in self._journal.facts():
            self._run.take_up(fact)
            started += type(fact) is Joined
        rehearsal = self._rehearsal
        self._run.hire(
            rehearsal.engine,
            rehearsal.source,
            workers=rehearsal.workers,
            defaults=rehearsal.defaults,
            started=started,
            timeout_s=rehearsal.timeout_s,
            grace_s=rehearsal.grace_s,
        )

    def _open(self, epoch: int) -> None:
        self._opened = Opened(at=self.clock.now_s(), driver=DRIVER, epoch=epoch)

    # --- the thread -------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._go_through()
        except Exception as error:
            self._fail(error)
        finally:
            self._close()

    def _go_through(self) -> None:
        run = self._run
        run.open(self._opened)
        handled = 0
        while not run.over and not self._why_early:
            run.go_on()
            handled += 1
            if run.unwritten >= FACTS_AT_ONCE:
                self._commit()
            if not handled % EVENTS_PER_LOOK:
                self._look_around()

    def _commit(self) -> None:
        """Write down what there is."""
        facts = self._run.take_facts()
        if facts:
            self._journal.append(facts)

    def _close(self) -> None:
        try:
            if self._rehearsal.provenance is not None:
                self._record(run_key(self.history.epoch), self._rehearsal.provenance())
            if not self._run.over:
                self._run.cancel(Cancelled(at=self.clock.now_s(), reason=self._why_early or "stopped"))
            self._commit()
        except Exception as error:
            self._fail(error)
        finally:  # whatever was wrong, the next driver finds the study free
            with contextlib.suppress(sqlite3.Error, OSError):
                self._journal.sync()
                self._journal.lease.release()
            self._journal.close()

    def _look_around(self) -> None:
        """Show that we are alive, and see whether somebody wants us to stop; now and then, since it takes time."""
        now = self._wall.now_s()
        if now - self._beaten_at < LEASE_S:
            return
        self._beaten_at = now
        self._journal.lease.beat()
        self._heed_a_stop_request()
