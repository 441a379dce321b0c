"""The workers of a study, as its shell sees them: started, heard, replaced, let go."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from etude.core import events
from etude.core.clock import Clock, Silence
from etude.core.errors import ConfigError, DefinitionChangedError, StudyError
from etude.core.events import AnyEvent, How, Joined, Left, Reported, Resumed
from etude.core.gpu_shares import Shares
from etude.core.text import count
from etude.engines import Engine
from etude.studies.gangs import HERE, Gangs, Singles
from etude.wire import messages, server, spool
from etude.wire.messages import Serve

if TYPE_CHECKING:
    import socket

    from etude.studies.nodes import Nodes
    from etude.wire.credentials import Invitation
    from etude.wire.gate import NodeWorker
    from etude.wire.server import WorkerLink

    Link = WorkerLink | NodeWorker

NODE_S: Final = 5.0
"""Seconds that a node has to end a worker; then it is taken to be gone, and what it may yet say is too late."""

LATE_S: Final = 60.0
"""Seconds after which users are told that the study still waits for workers."""

UNLOADABLE: Final = (
    "The workers cannot load your functions; the reason stands above. Whatever the functions use has to be importable "
    "where the workers run, or defined beside them."
)

BAD_STARTS: Final = 3
"""Workers in a row that ended before they were ready; then the study gives up on starting more."""


class Crew:
    """The workers of a study. Lives in the driver's event loop.

    Where several ranks train each trial, the driver hears of gangs of them (``gangs``), and what is said here of how
    many there are is of gangs as well.

    Args:
        engine: What starts workers.
        serve: What they are told about the study.
        gpus: Those of this machine, for its workers to share.
        clock: The driver's clock.
        wanted: How many there should be, as things stand.
        most: How many there may be.
        least: How many have to be ready before the driver hears of any.
        tell: Takes what happens as events.
        note: Takes what users should be told.
        fail: Takes the reason why the study cannot go on.
    """

    def __init__(
        self,
        engine: Engine,
        serve: Serve,
        *,
        gpus: Sequence[str],
        clock: Clock,
        wanted: Callable[[], int],
        most: int,
        least: int,
        tell: Callable[[AnyEvent], None],
        note: Callable[[str], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._engine = engine
        self._serve = serve
        self._shares = Shares(gpus, serve.resources.gpus if serve.resources is not None else None)
        self._clock = clock
        ranks = serve.parallel.ranks if serve.parallel is not None else 1
        self._ranks = ranks
        self._wanted_gangs = wanted
        self._least = least * ranks
        self._most = most * ranks
        self._gangs: Gangs | Singles = Singles(tell=tell, send=self._send)
        if ranks > 1:
            self._gangs = Gangs(
                ranks,
                in_shards=serve.parallel is not None and serve.parallel.in_shards,
                tell=tell,
                send=self._send,
                address=self._address,
                more=self._more_come,
                note=note,
            )
        self._early: dict[str, Joined] = {}
        self._tell = tell
        self._note = note
        self._fail = fail
        self._links: dict[str, Link] = {}
        self._silence = Silence(serve.silence_s)
        self._bad_starts: Counter[str] = Counter()  # of this machine, and of each node
        self._derived: dict[str, dict[str, Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._given: dict[str, messages.Run] = {}  # to each worker last
        self._missed: set[str] = set()  # workers that were gone when an attempt was to reach them
        self._replaces: dict[str, str] = {}
        self._replacing = ""
        self._closed = False
        self._late_at: float | None = None  # when the first workers are late; None before any was started
        self._nodes: Nodes | None = None
        self.folder = Path(serve.trials).parent

    def _wanted(self) -> int:
        return self._wanted_gangs() * self._ranks

    def begin(self) -> None:
        """Start as many workers as are wanted."""
        self._start(self._wanted())

    def _start(self, n: int, *, replaces: str = "") -> None:
        self._replacing = replaces
        self._loop = asyncio.get_running_loop()
        if self._late_at is None:
            self._late_at = self._clock.now_s() + LATE_S
        self._engine.start(n, self)

    # --- how workers come (engines.Door) ----------------------------------------------------------

    def connect(self, name: str, sock: socket.socket) -> None:
        """Take in a worker of this machine."""
        if not self._shares.has_room:
            sock.close()
            raise ConfigError(
                f"engine={type(self._engine).__name__}(...) started worker {name!r} on this machine, and its machine() "
                "named no GPUs that are free for it. Return etude.worker.machine.this_machine() there, and start no "
                "more workers than the study asks for."
            )
        link = server.connect(name, sock, self)
        self._replaces[name] = self._replacing
        self.take_in(link, msgspec.structs.replace(self._serve, gpus=self._shares.take(name)))

    def invite(self, bind: str, port: int = 0, advertise: Sequence[str] = ()) -> Invitation:
        """Let nodes in from now on."""
        from etude.studies.nodes import Nodes  # most studies have no workers elsewhere

        if self._nodes is None:
            self._nodes = Nodes(self._serve, self, note=self._note)
        return self._nodes.invite(bind, port, advertise)

    def tell(self, text: str) -> None:
        """Tell users something about how workers come."""
        self._note(text)

    def fail(self, error: BaseException) -> None:
        """Take in, from any thread, that no worker will come any more."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._fail, error)

    # --- what nodes ask of it (nodes.Host) --------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether there are as many workers as there may be."""
        return len(self._links) >= self._most

    def knows(self, worker: str) -> bool:
        """Return whether there is a worker of this name."""
        return worker in self._links

    def take_in(self, link: Link, serve: Serve | None = None) -> None:
        """Have a worker take the study up."""
        self._links[link.name] = link
        self.sign_of_life(link.name)
        self._do(link.open(serve or self._serve))

    def sign_of_life(self, worker: str) -> None:
        """Note that a worker has been heard."""
        self._silence.heard(worker, self._clock.now_s())

    def given(self, worker: str) -> messages.Run | None:
        """Return what a worker was given last."""
        return self._given.get(worker)

    # --- what the driver wants --------------------------------------------------------------------

    def send(self, worker: str, message: messages.Message) -> None:
        """Send a message to a worker, if it is there."""
        self._gangs.send(worker, message)

    def _send(self, worker: str, message: messages.Message) -> None:
        link = self._links.get(worker)
        if link is not None and link.carried and isinstance(message, messages.Run) and message.brings:
            assert self._nodes is not None, "it is one of theirs"
            self._do(self._nodes.bring(link, message))
        elif link is not None:
            link.send(message)
        if isinstance(message, messages.Run):
            if link is None:
                self._missed.add(worker)
            else:
                self._given[worker] = message

    def retire(self, worker: str) -> None:
        """Let a worker go that is to get no more work, and start another in its place."""
        for name in self._gangs.retire(worker):
            self.part_with(name, "let go")

    def flush(self) -> None:
        """Let what was sent leave now."""
        for link in self._links.values():
            link.flush()

    def tick(self, now_s: float) -> None:
        """Part with workers that have been silent for too long."""
        for worker in self._silence.tick(now_s):
            self.part_with(worker, f"silent for {self._serve.silence_s:g} s")
        self._say_if_nobody_comes(now_s)
        self._gangs.tick(now_s)
        if self._nodes is not None:
            self._nodes.tick(now_s)

    def part_with(self, worker: str, reason: str) -> None:
        """Let one process of the crew go, end what it holds, and start another in its place."""
        link = self._links.pop(worker, None)
        if link is None or self._closed:
            return
        link.close()
        self._silence.forget(worker)
        self._early.pop(worker, None)
        if not link.ready and not link.cut_off:  # it tells nothing of workers if a machine went away
            self._bad_starts[link.source] += 1
        if self._bad_starts[link.source] < BAD_STARTS:
            self._do(self._replace(link, reason))
        elif link.carried:
            self._give_up_on(
                link,
                f"{count(BAD_STARTS, 'worker')} in a row ended there before they were ready, the last one: {reason}",
            )
        else:
            self._fail(
                StudyError(
                    f"{count(BAD_STARTS, 'worker')} in a row ended before they were ready. See "
                    f"{self.folder / 'workers.log'}; `etude doctor` checks this machine."
                )
            )

    def _give_up_on(self, link: NodeWorker, reason: str) -> None:
        """Send a node home for good that is of no use; the study goes on if there is anybody else."""
        if any(other.ready for other in self._links.values()):
            self._note(f"Node {link.node.name} was sent home: {reason}")
            link.send_home(reason)
        else:
            self._fail(StudyError(f"Node {link.node.name} is of no use, and nobody else is there: {reason}"))

    async def close(self) -> None:
        """Let all workers rest."""
        self._closed = True
        for link in self._links.values():
            link.close()
        for task in self._tasks:
            task.cancel()
        if self._nodes is not None:
            self._nodes.close()
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._engine.stop)
        except Exception as error:  # what came of the study is written down all the same
            self._fail(error)

    # --- what workers say (wire.server.Listener) --------------------------------------------------

    def heard(self, link: Link, message: messages.FromWorker) -> None:
        """Take in what a worker says."""
        now = self._clock.now_s()
        self._silence.heard(link.name, now)
        if not link.ready:
            self._heard_early(link, message, now)
            return
        match message:
            case messages.Ended():
                self._take_end(link.name, message)
            case messages.Meeting():
                self._gangs.meet(link.name, message)
            case messages.Saved():
                self._gangs.save(now, link.name, message)
            case messages.Broken(reason=reason, edited=True):
                self._fail(DefinitionChangedError(reason))
            case messages.Broken(reason=reason):
                self.part_with(link.name, reason)
            case _:
                self._heard_of_attempt(message, now)

    def _heard_of_attempt(self, message: messages.FromWorker, now: float) -> None:
        """Take in what is said of an attempt at work."""
        match message:
            case messages.Reports(trial=trial, attempt=attempt, rows=rows):
                for step, metrics in rows:
                    self._tell(Reported(at=now, trial=trial, attempt=attempt, step=step, metrics=metrics))
            case messages.TakenUp():
                self._tell(as_resumed(message, at=now))
            case messages.Measured(trial=trial, attempt=attempt, taken=taken):
                self._tell(events.Measured(at=now, trial=trial, attempt=attempt, taken=taken))
            case messages.Warned(text=text):
                self._note(text)

    def gone(self, link: Link, reason: str) -> None:
        """Take in that a worker's connection ended."""
        if self._links.get(link.name) is link:
            self.part_with(link.name, reason)

    def _heard_early(self, link: Link, message: messages.FromWorker, now: float) -> None:
        """Before it is ready for this study, a worker may still speak of the one before."""
        match message:
            case messages.Ready(study=study) as ready if study == self._serve.study:
                link.ready = True
                self._bad_starts[link.source] = 0
                if ready.note:
                    self._note(f"Attempts are spawned, which is slower than a fork: {ready.note}.")
                self._early[link.name] = Joined(
                    at=now,
                    worker=link.name,
                    replaces=self._replaces.pop(link.name, ""),
                    machine=ready.machine,
                    memory_mb=ready.memory_mb,
                    gpus_mb=ready.gpus_mb,
                )
                self._tell_who_is_there(now)
            case messages.Broken(study=study, reason=reason, edited=True) if study == self._serve.study:
                self._fail(DefinitionChangedError(reason))
            case messages.Broken(study=study, reason=reason) if study == self._serve.study and link.carried:
                self._links.pop(link.name, None)
                self._silence.forget(link.name)
                self._give_up_on(link, f"{reason}\n{UNLOADABLE}")
            case messages.Broken(study=study, reason=reason) if study == self._serve.study:
                self._fail(StudyError(f"{reason}\n{UNLOADABLE}"))

    def _tell_who_is_there(self, now: float) -> None:
        """Let the driver hear of those that are ready, once there are enough of them."""
        if len(self._early) >= min(self._least, self._wanted()):
            self._least = 1
            self._late_at = math.inf
            came = [msgspec.structs.replace(joined, at=now) for joined in self._early.values()]
            self._early.clear()
            self._gangs.come(came)

    def _say_if_nobody_comes(self, now_s: float) -> None:
        """Tell once that the study waits, since there may not be room for so many workers."""
        if self._late_at is None or now_s < self._late_at:
            return
        self._late_at = math.inf
        awaited, there = min(self._least, self._wanted()), len(self._early)
        if there < awaited:
            self._note(
                f"The study waits for {count(awaited, 'worker')} to begin with. Of these, {there} "
                f"{'is' if there == 1 else 'are'} there after {LATE_S:g} s; it begins when all have come."
            )

    # --- who is gone ------------------------------------------------------------------------------

    async def _replace(self, link: Link, reason: str) -> None:
        """End a worker and all that it started, take in what it left behind, and start another.

        Only when nothing of it lives can an attempt of it end no more, and its trial be given to somebody else.
        """
        worker = link.name
        outcome = await self._ended(link)
        self._given.pop(worker, None)
        if self._closed:  # whoever closes reads the spool
            return
        if link.ready:
            if outcome is not None:
                self._take_end(worker, outcome)
                await asyncio.sleep(0)  # the driver may give it something more, which misses it
            began = worker not in self._missed
            self._missed.discard(worker)
            self._gangs.leave(Left(at=self._clock.now_s(), worker=worker, reason=reason, began=began))
        if not link.carried and len(self._links) < self._wanted():
            self._start(1, replaces=worker)
        if self._nodes is not None:
            self._nodes.fill_up()

    async def _ended(self, link: Link) -> messages.Ended | None:
        """Wait until nothing of a worker lives; return the outcome that it left behind, and perhaps did not tell."""
        if link.carried:
            await link.ended(NODE_S)
            return None  # its node has told it
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._engine.end, link.name)
        self._shares.give_back(link.name)
        return await loop.run_in_executor(None, self._left_behind, self._given.get(link.name))

    def _more_come(self) -> bool:
        """Whether there are workers that are not ready yet."""
        return any(not link.ready for link in self._links.values())

    def _address(self, worker: str) -> str:
        """Return where a worker can be reached by those of other machines."""
        here = HERE
        for link in self._links.values():
            if link.carried and not _is_loopback(link.node.theirs):
                if link.name == worker:
                    return link.node.theirs
                here = link.node.ours  # whoever is on this machine is reached as the driver is
        return here

    def _left_behind(self, job: messages.Run | None) -> messages.Ended | None:
        if job is None or not job.leads:  # only who speaks for the trial spools
            return None
        return spool.find_in(self._serve.spool, job.trial, job.attempt)

    def _take_end(self, worker: str, ended: messages.Ended) -> None:
        ended = msgspec.structs.replace(ended, outcome=self._check_derived(ended.outcome))
        *before, end = as_events(ended, at=self._clock.now_s(), worker=worker)
        for event in before:
            self._tell(event)
        assert isinstance(end, events.Ended)
        self._gangs.end(end)

    def _check_derived(self, outcome: events.Outcome) -> events.Outcome:
        """Derived values have to be the same on every trial with the same data."""
        if not outcome.derived:
            return outcome
        key = msgspec.json.encode(outcome.data, order="sorted").decode()
        known = self._derived.setdefault(key, outcome.derived)
        differing = [n for n in outcome.derived if known.get(n) != outcome.derived[n]]
        if not differing:
            return outcome
        name = differing[0]
        reason = (
            f"{name!r} is Derived, and data() gave {outcome.derived[name]} here but {known.get(name)} to an earlier "
            "trial with the same data parameters. It has to depend on the data alone."
        )
        return msgspec.structs.replace(outcome, how=How.UNUSABLE, value=None, reason=reason)

    def _do(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def as_events(ended: messages.Ended, *, at: float, worker: str = "") -> list[AnyEvent]:
    """Return what the end of an attempt means for the driver: the reports that came with it, and the end."""
    trial, attempt = ended.trial, ended.attempt
    before = [as_resumed(ended.taken_up, at=at)] if ended.taken_up is not None else []
    reports = [Reported(at=at, trial=trial, attempt=attempt, step=step, metrics=row) for step, row in ended.rows]
    end = events.Ended(at=at, worker=worker, trial=trial, attempt=attempt, outcome=ended.outcome)
    return [*before, *reports, end]


def as_resumed(said: messages.TakenUp, *, at: float) -> Resumed:
    """Return what it means that an attempt goes on from a checkpoint."""
    return Resumed(at=at, trial=said.trial, attempt=said.attempt, origin=said.origin)
