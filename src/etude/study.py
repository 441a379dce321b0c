"""One study, from plan to result: the shell that holds the driver's wires.

Everything happens in one thread with an event loop of its own. Events wait in one queue; ``_drain``
lets the driver handle them, commits all facts that came of it in one transaction, and only then
carries the commands out. So the journal always holds a prefix of what the driver saw, and nobody is
told anything that is not written down. Reports alone may wait a moment for company.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from etude.core import events
from etude.core.clock import Clock, WallClock
from etude.core.driver import Driver, Limits
from etude.core.errors import ConfigError, StudyError, StudyInUseError
from etude.core.events import (
    AnyCommand,
    AnyEvent,
    AnyFact,
    Assign,
    Cancelled,
    End,
    Fail,
    Opened,
    Params,
    Pause,
    Persist,
    Release,
    Reported,
    Retire,
    Stop,
    Suggest,
    Suggested,
    Ticked,
    WaitUntil,
)
from etude.core.history import History
from etude.crew import Crew
from etude.engines import Engine
from etude.store.journal import FILE, Journal
from etude.tune import sampling
from etude.tune.question import Question
from etude.tune.sampler import Request, checked, needs_process, recalls
from etude.tune.sampler_link import SamplerLink
from etude.wire import messages, spool
from etude.wire.messages import Serve

REPORTS_WAIT_S: Final = 0.1
REPORTS_AT_ONCE: Final = 200
TICK_S: Final = 1.0
LEASE_S: Final = 2.0
STOP_FILE: Final = "stop-requested"


@dataclass
class Recipe:
    """Everything that a study's shell needs beside its folder.

    Attributes:
        question: What the study is to find out.
        engine: What starts the workers.
        workers: How many.
        serve: What workers are told about the study.
        limits: How patient the driver is.
        provenance: Collects what is recorded about the run; it may take its time.
    """

    question: Question
    engine: Engine
    workers: int
    serve: Serve
    limits: Limits = field(default_factory=Limits)
    provenance: Callable[[], Mapping[str, Any]] | None = None


class Study:
    """A study at work.

    Args:
        journal: Its journal, open for writing, without the lease.
        recipe: What to do.
        driver_id: Marks this process and all that it starts.
        sweep: Ends what an earlier driver of this study left behind, given that driver's id.
        clock: The driver's clock.

    Attributes:
        history: The study as it stands. Other threads may look.
        notes: What users should be told, once each.
        error: What ended the study, if it was no end of the plan's.
    """

    def __init__(
        self,
        journal: Journal,
        recipe: Recipe,
        *,
        driver_id: str,
        sweep: Callable[[str], int],
        clock: Clock | None = None,
    ) -> None:
        self.folder = journal.folder
        self.history = History(recipe.question.metrics)
        self.notes: list[str] = []
        self.error: BaseException | None = None
        self._journal = journal
        self._recipe = recipe
        self._driver_id = driver_id
        self._sweep = sweep
        self._clock = clock or WallClock()
        self._question = recipe.question
        self._driver = Driver(recipe.question.plan, self.history, recipe.limits)
        self._events: deque[AnyEvent] = deque()
        self._facts: list[AnyFact] = []
        self._orders: list[AnyCommand] = []  # for workers, and for ourselves
        self._questions: list[tuple[int, int]] = []  # for the sampler: k and redraw
        self._drain_is_due = False
        self._flush_timer: asyncio.TimerHandle | None = None
        self._blocked = False
        self._crew = Crew(
            recipe.engine,
            recipe.serve,
            clock=self._clock,
            wanted=self._wanted_workers,
            tell=self._tell,
            note=self._note,
            fail=self._fail,
        )
        self._sampler: SamplerLink | None = None
        if self._question.sampler is not None and self._question.set_up is not None:
            self._sampler = SamplerLink(
                self._question.set_up,
                self.history,
                recalls=recalls(self._question.sampler),
                answered=self._on_answer,
                failed=self._fail,
            )
        self._worked = False  # whether a trial was handed out
        self._why_early = ""
        self._recording: asyncio.Task[None] | None = None
        self._ended: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._work, name="etude-driver", daemon=True)
        self._done = threading.Event()

    # --- for other threads ------------------------------------------------------------------------

    def start(self) -> None:
        """Take the study up and let its thread work on.

        Raises:
            StudyInUseError: Another driver works on it.
            JournalError: The journal is damaged.
        """
        (self.folder / STOP_FILE).unlink(missing_ok=True)  # meant for a driver that is gone
        try:
            epoch = self._journal.take(self._driver_id)
            for fact in self._journal.facts():
                self.history.apply(fact)
                if self._sampler is not None:
                    self._sampler.tell([fact])
            for earlier in set(self.history.drivers) - {self._driver_id}:
                self._sweep(earlier)
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._journal.lease.release()
            self._journal.close()
            raise
        self._events.extend(self._spooled())
        self._events.append(Opened(at=self._clock.now_s(), driver=self._driver_id, epoch=epoch))
        self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the study to end; return whether it has."""
        return self._done.wait(timeout_s)

    @property
    def over(self) -> bool:
        """Whether the study has ended, for this driver."""
        return self._done.is_set()

    @property
    def workers(self) -> int:
        """How many workers it is given."""
        return self._recipe.workers

    @property
    def trials(self) -> int:
        """How many trials it will have, at most."""
        return self._question.trials

    def stop(self, reason: str = "stopped by hand") -> None:
        """Have the study wind down; it can go on later."""
        self._why_early = self._why_early or reason
        with contextlib.suppress(RuntimeError, AttributeError):  # it has ended already, or not yet begun
            self._loop.call_soon_threadsafe(self._wind_down, reason)

    # --- the thread -------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self.error = error
        finally:
            self._done.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_mistake)
        self._ended = asyncio.Event()
        if self._why_early:  # it was stopped before it began
            self._ended.set()
        ticks = self._loop.create_task(self._tick())
        try:
            self._drain()
            if not self._events and not self._facts:  # what was spooled is in the journal
                spool.clear(self._recipe.serve.spool)
            if not self._ended.is_set():
                self._crew.start(self._wanted_workers())
            await self._ended.wait()
        finally:
            ticks.cancel()
            await self._close()

    def _wanted_workers(self) -> int:
        """No more workers than there are trials left to run."""
        left = self.history.unsettled + self.trials - len(self.history.trials)
        return max(1, min(self._recipe.workers, left))

    def _wind_down(self, reason: str) -> None:
        """End before the plan does; it can go on later."""
        self._why_early = self._why_early or reason
        self._ended.set()

    async def _close(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        await self._crew.close()
        if self._sampler is not None:
            self._sampler.close()
        self._record_provenance()
        if self._recording is not None:
            await asyncio.wait([self._recording], timeout=TICK_S * 10)
        try:
            with contextlib.suppress(sqlite3.Error, StudyInUseError):
                self._write_the_end()
                spool.clear(self._recipe.serve.spool)
        finally:  # whatever was wrong, the next driver finds the study free
            with contextlib.suppress(sqlite3.Error, OSError):
                await self._loop.run_in_executor(None, self._journal.sync)
                self._journal.lease.release()
            self._journal.close()

    def _write_the_end(self) -> None:
        """Write down what the workers left, and why it ended if that was not the plan's doing."""
        if not self._driver.over:
            for event in [*self._events, *self._spooled()]:
                self._take_in(event)
            self._take_in(Cancelled(at=self._clock.now_s(), reason=self._why_early or "stopped"))
        self._commit()

    def _on_mistake(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception that nobody caught, in a callback of the loop's: users must not wait for ever."""
        self._fail(context.get("exception") or StudyError(str(context.get("message"))))

    def _fail(self, error: BaseException) -> None:
        """End the study with an error; everything that was committed stays."""
        if self.error is None:
            self.error = error
        self._wind_down(str(error).strip().rpartition("\n")[2] or type(error).__name__)

    # --- the queue --------------------------------------------------------------------------------

    def _tell(self, event: AnyEvent) -> None:
        """Put an event into the queue; it is handled together with whatever else comes by then."""
        self._events.append(event)
        if not self._drain_is_due:
            self._drain_is_due = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._drain_is_due = False
        if self._blocked or self._ended.is_set():
            return
        try:
            while self._events:
                self._take_in(self._events.popleft())
            self._flush()
        except Exception as error:
            self._fail(error)

    def _take_in(self, event: AnyEvent) -> None:
        for command in self._driver.handle(event):
            match command:
                case Persist(fact=fact):
                    self._facts.append(fact)
                case Suggest(k=k, redraw=redraw) if not self._needs_process(k):
                    # Pure, so it needs nothing on disk, and nobody waits for it.
                    self._events.append(self._propose(k, redraw))
                case Suggest(k=k, redraw=redraw):
                    self._questions.append((k, redraw))
                case _:
                    self._orders.append(command)

    def _flush(self) -> None:
        """Commit and carry out; reports that nothing hangs on may wait for others."""
        only_reports = not self._orders and not self._questions and all(type(fact) is Reported for fact in self._facts)
        if only_reports and len(self._facts) < REPORTS_AT_ONCE:
            if self._facts and self._flush_timer is None:
                self._flush_timer = self._loop.call_later(REPORTS_WAIT_S, self._flush_now)
            return
        self._flush_now()

    def _flush_now(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        try:
            facts = self._commit()
        except StudyInUseError as error:
            self._facts.clear()
            self._fail(error)
            return
        except sqlite3.Error as error:
            self._block(error)
            return
        orders, self._orders = self._orders, []
        for order in orders:
            self._carry_out(order)
        self._crew.flush()
        questions, self._questions = self._questions, []
        if self._sampler is not None:  # after the workers, since it wakes a process that will be busy
            self._sampler.tell(facts)
            self._sampler.ask(questions)

    def _commit(self) -> list[AnyFact]:
        facts = self._facts
        if facts:
            self._journal.append(facts)
            self._facts = []
        return facts

    def _block(self, error: sqlite3.Error) -> None:
        """The disk does not take it: hand out nothing, keep what is in memory, and try again."""
        if not self._blocked:
            self._note(
                f"{self.folder} cannot be written ({error}). Nothing is handed out until it can; "
                "what ended meanwhile is kept in memory."
            )
        self._blocked = True
        self._loop.call_later(TICK_S, self._unblock)

    def _unblock(self) -> None:
        if self._ended.is_set():
            return
        self._blocked = False
        self._flush_now()
        self._drain()

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # --- commands ---------------------------------------------------------------------------------

    def _carry_out(self, command: AnyCommand) -> None:
        match command:
            case Assign(worker=worker, trial=trial, attempt=attempt, params=params, seed=seed):
                self._crew.send(worker, messages.Run(trial, attempt, params, seed))
                self._worked = True
            case Stop(worker=worker, trial=trial, attempt=attempt):
                self._crew.send(worker, messages.Halt(trial, attempt))
            case Pause(worker=worker, trial=trial, attempt=attempt):
                self._crew.send(worker, messages.Hold(trial, attempt))
            case Release(worker=worker, trial=trial, attempt=attempt):
                self._crew.send(worker, messages.Forget(trial, attempt))
            case Retire(worker=worker):
                self._crew.part_with(worker, "let go")
            case WaitUntil(at=at):
                delay_s = max(0.0, at - self._clock.now_s())
                self._loop.call_later(delay_s, lambda: self._tell(Ticked(at=self._clock.now_s())))
            case End():
                self._ended.set()
            case Fail(error=error):
                self._fail(error)

    # --- proposals --------------------------------------------------------------------------------

    def _needs_process(self, k: int) -> bool:
        return self._question.sampler is not None and needs_process(self._question.sampler, k)

    def _propose(self, k: int, redraw: int) -> Suggested:
        sampler, space = self._question.sampler, self._question.space
        assert sampler is not None
        assert space is not None
        request = Request(k, redraw, space, self._question.seed, len(self._question.metrics.names))
        return self._suggested(k, redraw, checked(sampler.suggest(request), sampler, request), upto=None)

    def _suggested(self, k: int, redraw: int, params: Params, upto: int | None) -> Suggested:
        try:
            forbidden = self._question.forbids(params)
        except Exception as error:
            forbidden = f"constraint raised {type(error).__name__}: {error}"
        return Suggested(at=self._clock.now_s(), k=k, params=params, redraw=redraw, upto=upto, forbidden=forbidden)

    def _on_answer(self, answer: sampling.Answer, upto: int) -> None:
        if answer.refused:
            self._fail(ConfigError(answer.problem))
        elif answer.params is None:
            self._fail(StudyError(f"The sampler failed on proposal {answer.k}:\n{answer.problem}"))
        else:
            self._tell(self._suggested(answer.k, answer.redraw, answer.params, upto))

    def _spooled(self) -> list[AnyEvent]:
        """Outcomes that an earlier driver did not live to write down."""
        now = self._clock.now_s()
        return [
            events.Ended(at=now, worker="", trial=ended.trial, attempt=ended.attempt, outcome=ended.outcome)
            for ended in spool.read_all(self._recipe.serve.spool)
        ]

    # --- time -------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        next_lease = 0.0
        while not self._ended.is_set():
            await asyncio.sleep(TICK_S)
            now = self._clock.now_s()
            self._crew.tick(now)
            self._record_provenance()
            try:
                if now >= next_lease and not self._blocked:
                    next_lease = now + LEASE_S
                    self._journal.lease.beat()
                await self._loop.run_in_executor(None, self._journal.sync)
            except (sqlite3.Error, OSError) as error:
                self._note(f"{self.folder} cannot be written ({error}).")
            self._look_for_stop_request()
            if not (self.folder / FILE).exists():
                gone = f"The journal {self.folder / FILE} is gone: somebody removed or moved the study's folder."
                self._fail(StudyError(f"{gone} What this run did since cannot be kept. Run it again."))
            self._tell(Ticked(at=now))

    def _look_for_stop_request(self) -> None:
        path = self.folder / STOP_FILE
        if path.exists():
            path.unlink(missing_ok=True)
            self._wind_down("stopped by `etude stop`")

    def _record_provenance(self) -> None:
        """Collect what is known about this run, once it works and without haste, and write it down."""
        collect = self._recipe.provenance
        if collect is None or not self._worked or self._recording is not None:
            return

        async def record() -> None:
            found = await self._loop.run_in_executor(None, collect)
            with contextlib.suppress(sqlite3.Error, StudyInUseError):
                self._journal.record(f"run {self.history.epoch}", found)

        self._recording = self._loop.create_task(record())
