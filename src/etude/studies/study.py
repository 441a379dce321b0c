"""One study, from plan to result: the shell that holds the driver's wires.

Everything happens in one thread with an event loop of its own. Events wait in one queue; ``_drain``
lets the driver handle them, commits all facts that came of it in one transaction, and only then
carries the commands out. So the journal always holds a prefix of what the driver saw, and nobody is
told anything that is not written down. Reports alone may wait a moment for company.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import sqlite3
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from etude.core.clock import Clock, WallClock
from etude.core.driver import Driver
from etude.core.errors import ConfigError, StudyError, StudyInUseError
from etude.core.events import (
    USUAL,
    AnyCommand,
    AnyEvent,
    AnyFact,
    Assign,
    Cancelled,
    Discard,
    End,
    Ended,
    Fail,
    Keep,
    Left,
    Note,
    Opened,
    Pause,
    Persist,
    Quarantined,
    Release,
    Reported,
    Retire,
    Retune,
    Room,
    Settled,
    StoodStill,
    Stop,
    Ticked,
    WaitUntil,
    WindDown,
)
from etude.core.history import History
from etude.core.limits import Limits
from etude.core.packing import Need
from etude.core.reuse import NOTHING, Reuse
from etude.core.spending import NO_CEILING
from etude.core.text import count
from etude.engines import Engine
from etude.engines.cluster import CREDENTIALS
from etude.engines.local import LocalEngine
from etude.places.url_depot import depot_at
from etude.store.artifacts import Artifacts
from etude.store.journal import FILE, Journal
from etude.store.mirror import Mirror
from etude.store.provenance import run_key
from etude.studies.at_work import LEASE_S, AtWork
from etude.studies.crew import Crew, as_events
from etude.studies.desk import Desk, thinks, wanted_workers
from etude.studies.machines import Machines
from etude.studies.pulse import Pulse
from etude.studies.safekeeping import Safekeeping
from etude.studies.tenancy import ALONE, Alone, Tenancy, come
from etude.tune import sampling
from etude.tune.question import Question
from etude.tune.sampler import recalls
from etude.tune.sampler_link import SamplerLink
from etude.wire import messages, spool
from etude.wire.messages import Serve

if TYPE_CHECKING:
    from etude.system.asked import System

REPORTS_WAIT_S: Final = 0.1
REPORTS_AT_ONCE: Final = 200
TICK_S: Final = 1.0
FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""What the system says when no more connections can be taken; with time they can."""

STILL_S: Final = 5.0
"""Who shows itself a sign of life each second, and has not for so long, has stood still."""


@dataclass
class Recipe:
    """Everything that a study's shell needs beside its folder.

    Attributes:
        question: What the study is to find out.
        engine: What starts the workers.
        workers: How many, at most.
        gpus: Those of this machine, for its workers to share.
        packs: Whether no more trials run on a machine than its memory is predicted to suffice for.
        keep: Whose weights are kept.
        least_workers: How many have to be there before the first trial is handed out.
        serve: What workers are told about the study.
        limits: How patient the driver is.
        provenance: Collects what is recorded about the run; it may take its time.
        mirrors: Keep copies of the study elsewhere.
        reuse: What trials of other studies give.
        system: How machines are tuned while trials run; None if they are left alone.
        workload: What tells its functions from others.
    """

    question: Question
    engine: Engine
    workers: int
    serve: Serve
    limits: Limits = field(default_factory=Limits)
    least_workers: int = 1
    gpus: tuple[str, ...] = ()
    packs: bool = False
    keep: Keep = USUAL
    provenance: Callable[[], Mapping[str, Any]] | None = None
    mirrors: tuple[Mirror, ...] = ()
    reuse: Reuse = NOTHING
    system: System | None = None
    workload: str = ""


class Study(AtWork):
    """A real study at work.

    Args:
        journal: Its journal, open for writing, without the lease.
        recipe: What to do.
        driver_id: Marks this process and all that it starts.
        sweep: Ends what an earlier driver of this study left behind, given that driver's id.
        clock: The driver's clock.
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
        super().__init__(
            journal,
            recipe.question,
            History(recipe.question.metrics),
            driver_id=driver_id,
            clock=clock or WallClock(),
            workers=recipe.workers,
            thread="etude-driver",
        )
        self._recipe = recipe
        self._sweep = sweep
        question = recipe.question
        varied = question.metrics.fidelity is not None
        self._machines = Machines(recipe.system, recipe.workload, trials=question.trials, varied=varied)
        self._driver = Driver(
            recipe.question.plan,
            self.history,
            recipe.limits,
            need=self._need(),
            prefixes=recipe.question.prefixes,
            reuse=recipe.reuse,
            conductor=self._machines.conductor,
        )
        self._events: deque[AnyEvent] = deque()
        self._desk = Desk(self._question, self.clock)
        self._drain_is_due = False
        self._flush_timer: asyncio.TimerHandle | None = None
        self._blocked = False
        self._limit = ""  # the one that ended it
        self._pulse = Pulse(self.clock, limit_s=STILL_S, beat_s=TICK_S)
        self._crew = Crew(
            recipe.engine,
            recipe.serve,
            gpus=recipe.gpus,
            clock=self.clock,
            wanted=self._wanted_workers,
            most=recipe.workers,
            least=recipe.least_workers,
            tell=self._tell,
            note=self._note,
            fail=self._fail,
        )
        self._sampler: SamplerLink | None = None
        if thinks(self._question):
            assert self._question.sampler is not None
            assert self._question.set_up is not None
            self._sampler = SamplerLink(
                self._question.set_up,
                self.history,
                recalls=recalls(self._question.sampler),
                answered=self._on_answer,
                failed=self._fail,
            )
        self._safekeeping = Safekeeping(recipe.mirrors, self._crew)
        self._artifacts = Artifacts(depot_at(recipe.serve.states, Path(recipe.serve.trials)), note=self._note)
        self._tenancy: Tenancy | Alone = ALONE
        self._worked = False  # whether a trial was handed out
        self._recording: asyncio.Task[None] | None = None
        self._ended: asyncio.Event
        self._loop: asyncio.AbstractEventLoop

    def _need(self) -> Need | None:
        if not self._recipe.packs:
            return None
        from etude.tune.memory import MemoryModel

        assert self._question.space is not None
        return MemoryModel(self._question.space, self.history)

    def stop(self, reason: str = "stopped by hand") -> None:
        """Have the study wind down; it can go on later."""
        super().stop(reason)
        with contextlib.suppress(RuntimeError, AttributeError):  # it has ended already, or not yet begun
            self._loop.call_soon_threadsafe(self._wind_down, reason)

    def _take_up(self) -> None:
        if self._journal.lost:
            self._note(self._journal.lost)
        for fact in self._journal.facts():
            self.history.apply(fact)
            if self._sampler is not None:
                self._sampler.tell([fact])
        for earlier in set(self.history.drivers) - {self._driver_id}:
            self._sweep(earlier)
        self._machines.take_up(self.history)
        (self.folder / CREDENTIALS).unlink(missing_ok=True)  # of a run whose driver was killed: they let nobody in
        self._sweep_states()  # nobody writes there any more
        self._safekeeping.attach(self._note)

    def _let_go(self) -> None:
        self._safekeeping.close(0)
        super()._let_go()

    def _open(self, epoch: int) -> None:
        # They came before this run, so no time of this run is theirs.
        self._events.extend(self._spooled(self.history.at or self.clock.now_s()))
        opened = Opened(at=self.clock.now_s(), driver=self._driver_id, epoch=epoch, keep=self._recipe.keep)
        self._events.append(opened)

    # --- the thread -------------------------------------------------------------------------------

    def _work(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_mistake)
        self._ended = asyncio.Event()
        if self._why_early:  # it was stopped before it began
            self._ended.set()
        self._pulse.start()
        ticks = self._loop.create_task(self._tick())
        self._safekeeping.start(self._loop, self._fail)
        try:
            self._come()
            self._drain()
            if not self._events and not self._desk.facts:  # what was spooled is in the journal
                spool.clear(self._recipe.serve.spool)
            if not self._ended.is_set():
                self._crew.begin()
            await self._ended.wait()
        finally:
            ticks.cancel()
            self._pulse.stop()
            await self._close()

    def _wanted_workers(self) -> int:
        return wanted_workers(self.history, trials=self.trials, workers=self._recipe.workers)

    # --- others on this machine -------------------------------------------------------------------

    def _come(self) -> None:
        """Take this study's place among others on the machine, if its workers are there."""
        recipe = self._recipe
        if isinstance(recipe.engine, LocalEngine):
            ranks = recipe.serve.parallel.ranks if recipe.serve.parallel is not None else 1
            self._tenancy = come(
                recipe.system,
                self.folder.name,
                machine=recipe.engine.machine(),
                cores=recipe.serve.threads * ranks,
                resources=recipe.serve.resources,
                wanted=self._wanted_workers,
                most=recipe.workers,
            )
        self._fill()

    def _fill(self) -> None:
        """Let the driver know if there is room for another number of trials than before."""
        self._tenancy.fill()
        if self._tenancy.note:
            self._note(self._tenancy.note)
        if (room := self._tenancy.news()) is not None:
            self._tell(Room(at=self.clock.now_s(), trials=room))

    def _make_room(self, event: AnyEvent) -> None:
        """Give back what a trial held that is over, before the driver hands out the next one."""
        if type(event) is Ended:
            self._tenancy.ended(event.trial)
        elif type(event) is Left and (worker := self.history.workers.get(event.worker)) and worker.trial is not None:
            self._tenancy.ended(worker.trial)
        if (room := self._tenancy.news()) is not None:
            self._desk.sort(self._driver.handle(Room(at=event.at, trials=room)), answer=self._events.append)

    def _wind_down(self, reason: str) -> None:
        super()._wind_down(reason)
        self._ended.set()

    def _end_at(self, limit: str, reason: str) -> None:
        self._limit = limit
        self._wind_down(reason)

    async def _close(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        await self._crew.close()
        self._tenancy.close()
        if self._sampler is not None:
            self._sampler.close()
        self._record_provenance()
        if self._recording is not None:
            await asyncio.wait([self._recording], timeout=TICK_S * 10)
        try:
            with contextlib.suppress(StudyInUseError):
                self._write_the_end()
                spool.clear(self._recipe.serve.spool)
                self._sweep_states()
        except sqlite3.Error as error:
            self._say_what_is_not_written(error)
        finally:  # whatever was wrong, the next driver finds the study free
            await self._loop.run_in_executor(None, self._artifacts.close)
            self._machines.close(self.clock.now_s())
            self._say_of_machines()
            self._keep_notes(self.history.epoch)
            await self._loop.run_in_executor(None, self._safekeeping.close, self._journal.seq)
            self._keep_notes(self.history.epoch)  # once more, since a mirror may have said what it lacks
            with contextlib.suppress(sqlite3.Error, OSError):
                await self._loop.run_in_executor(None, self._journal.sync)
                self._journal.lease.release()
            self._journal.close()

    def _write_the_end(self) -> None:
        """Write down what the workers left, and why it ended if that was not the plan's doing."""
        if not self._driver.over:
            # No limit may close the study before all that has ended is taken in: what is not would be run again.
            self._driver.limits = msgspec.structs.replace(self._driver.limits, ceiling=NO_CEILING)
            for event in [*self._events, *self._spooled(self.clock.now_s())]:
                self._take_in(event)
            reason = self._why_early or "stopped"
            self._take_in(Cancelled(at=self.clock.now_s(), reason=reason, limit=self._limit))
        self._commit()

    def _say_what_is_not_written(self, error: sqlite3.Error) -> None:
        """Tell what becomes of that which the journal does not have at the end."""
        facts = self._desk.facts
        ended = {(f.trial, f.attempt) for f in facts if type(f) is Settled and f.outcome is not None and f.attempt}
        kept = ended & {(one.trial, one.attempt) for one in spool.read_all(self._recipe.serve.spool)}
        again = " The others are run again." if len(kept) < len(ended) else ""
        self._note(
            f"{self.folder} could not be written up to the end ({error}): {count(len(facts), 'fact')} are not in the "
            f"journal. Of {count(len(ended), 'attempt')} that ended since it could, the outcomes of {len(kept)} are in "
            f"the spool, and the next call takes them in.{again}"
        )

    def _on_mistake(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception that nobody caught, in a callback of the loop's: users must not wait for ever."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in FULL and "socket" in context:
            self._note(f"Nobody can be let in for a moment: {error.strerror}.")  # asyncio tries again in a second
            return
        self._fail(error or StudyError(str(context.get("message"))))

    # --- the queue --------------------------------------------------------------------------------

    def _tell(self, event: AnyEvent) -> None:
        """Put an event into the queue; it is handled together with whatever else comes by then."""
        still_s = self._pulse.missed_s()
        if still_s:  # no limit was reached in that time, so the driver is told before anything that came after it
            self._events.append(StoodStill(at=event.at, seconds=still_s))
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
        self._make_room(event)
        commands = self._driver.handle(event)
        self._say_of_machines()
        self._desk.sort(commands, answer=self._events.append)
        for command in commands:
            if type(command) is Persist and isinstance(fact := command.fact, Quarantined):
                self._note(f"Worker {fact.worker} is in quarantine: {fact.reason}. Another process takes its place.")

    def _say_of_machines(self) -> None:
        for note in self._machines.unsaid():
            self._note(note)

    def _flush(self) -> None:
        """Commit and carry out; reports that nothing hangs on may wait for others."""
        desk = self._desk
        only_reports = not desk.orders and not desk.questions and all(type(fact) is Reported for fact in desk.facts)
        if only_reports and len(desk.facts) < REPORTS_AT_ONCE:
            if desk.facts and self._flush_timer is None:
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
            self._desk.facts.clear()
            self._fail(error)
            return
        except sqlite3.Error as error:
            self._block(error)
            return
        orders, self._desk.orders = self._desk.orders, []
        for order in orders:
            self._carry_out(order)
        self._safekeeping.hurry()
        self._crew.flush()
        questions, self._desk.questions = self._desk.questions, []
        if self._sampler is not None:  # after the workers, since it wakes a process that will be busy
            self._sampler.tell(facts)
            self._sampler.ask(questions)

    def _commit(self) -> list[AnyFact]:
        facts = self._desk.facts
        if facts:
            self._journal.append(facts)
            self._desk.facts = []
        for fact in facts if self.history.shelf.used else ():
            if type(fact) is Settled and fact.attempt is not None:
                self._artifacts.tidy(fact.trial, fact.attempt, self.history.shelf.files_of(fact.trial))
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

    # --- commands ---------------------------------------------------------------------------------

    def _carry_out(self, command: AnyCommand) -> None:
        match command:
            case Assign() | Retune() | Stop() | Pause():
                self._order(command)
            case Release() | Discard() | Note():
                self._keep(command)
            case Retire(worker=worker):
                self._crew.retire(worker)
            case WaitUntil(at=at):
                delay_s = max(0.0, at - self.clock.now_s())
                self._loop.call_later(delay_s, lambda: self._tell(Ticked(at=self.clock.now_s())))
            case WindDown(reason=reason, limit=limit):
                self._end_at(limit, reason)
            case End():
                self._ended.set()
            case Fail(error=error):
                self._fail(error)

    def _order(self, command: Assign | Retune | Stop | Pause) -> None:
        """Tell a worker what becomes of an attempt."""
        trial, attempt = command.trial, command.attempt
        match command:
            case Assign():
                self._crew.send(command.worker, messages.Run.of(command))
                self._worked = True
                self._tenancy.begun(trial)
            case Retune(order=order) if self._tenancy.resize(trial, order.setting):
                self._crew.send(command.worker, messages.Retune(trial, attempt, order))
            case Stop():
                self._crew.send(command.worker, messages.Halt(trial, attempt))
            case Pause():
                self._crew.send(command.worker, messages.Hold(trial, attempt))

    def _keep(self, command: Release | Discard | Note) -> None:
        """See to what is kept on disks: of outcomes until all copies of the study have them, and of states."""
        match command:
            case Release():
                self._safekeeping.release(command, self._journal.seq)
            case Discard(files=files):
                self._artifacts.discard(files)
            case Note(worker=worker, trial=trial, checkpoint=checkpoint):
                noted = messages.Noted(trial, checkpoint.attempt, checkpoint.key)
                self._artifacts.then(partial(self._loop.call_soon_threadsafe, self._send, worker, noted))

    def _sweep_states(self) -> None:
        """Remove states that nobody needs, where there ever were any: a large study has many folders to look into."""
        if self.history.shelf.used:
            self._artifacts.sweep(self.history.shelf.files)

    def _send(self, worker: str, message: messages.Message) -> None:
        """Send a message that was not ready when what it follows from was written down."""
        self._crew.send(worker, message)
        self._crew.flush()

    # --- proposals --------------------------------------------------------------------------------

    def _on_answer(self, answer: sampling.Answer, upto: int) -> None:
        if answer.refused:
            self._fail(ConfigError(answer.problem))
        elif answer.params is None:
            self._fail(StudyError(f"The sampler failed on proposal {answer.k}:\n{answer.problem}"))
        else:
            self._tell(self._desk.suggested(answer.k, answer.redraw, answer.params, upto))

    def _spooled(self, at: float) -> list[AnyEvent]:
        """Outcomes that an earlier driver, or a worker that is gone, did not live to tell or to write down."""
        return [event for ended in spool.read_all(self._recipe.serve.spool) for event in as_events(ended, at=at)]

    # --- time -------------------------------------------------------------------------------------

    def _heed_the_ceiling(self, now_s: float) -> None:
        """End the study at a limit while nothing can be written: the driver is told nothing then, and does not see."""
        ceiling, spending = self._recipe.limits.ceiling, self.history.spending
        reached = ceiling.reached(spending, failed=self.history.failed, now_s=now_s)
        if reached is not None and not self._ended.is_set():
            self._end_at(*reached)

    async def _tick(self) -> None:
        next_lease = 0.0
        while not self._ended.is_set():
            await asyncio.sleep(TICK_S)
            now = self.clock.now_s()
            self._crew.tick(now)
            self._record_provenance()
            try:
                if now >= next_lease and not self._blocked:
                    next_lease = now + LEASE_S
                    self._journal.lease.beat()
                await self._loop.run_in_executor(None, self._journal.sync)
            except (sqlite3.Error, OSError) as error:
                self._note(f"{self.folder} cannot be written ({error}).")
            self._heed_a_stop_request()
            if self._blocked:
                self._heed_the_ceiling(now)
            self._fill()
            if not (self.folder / FILE).exists():
                gone = f"The journal {self.folder / FILE} is gone: somebody removed or moved the study's folder."
                self._fail(StudyError(f"{gone} What this run did since cannot be kept. Run it again."))
            self._tell(Ticked(at=now))

    def _record_provenance(self) -> None:
        """Collect what is known about this run, once it works and without haste, and write it down."""
        collect = self._recipe.provenance
        if collect is None or not self._worked or self._recording is not None:
            return

        async def record() -> None:
            found = await self._loop.run_in_executor(None, collect)
            with contextlib.suppress(sqlite3.Error, StudyInUseError):
                self._record(run_key(self.history.epoch), found)

        self._recording = self._loop.create_task(record())
