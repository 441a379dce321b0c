"""The supervisor: one light process per worker, which outlives whatever user code does.

It imports no framework and runs no user code. It passes messages between the driver and the child
that runs the attempt, keeps the child's output, ends what hangs, says how a child ended that could
not say so itself, and tells the driver that it is alive. One child waits, forked and ready, while
another works, so that the next attempt starts at once.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass
from typing import Final

import msgspec

from etude.core.clock import Silence
from etude.core.events import How, Outcome, Usage
from etude.wire import spool
from etude.wire.channel import Channel
from etude.wire.messages import (
    Abandon,
    Beat,
    Broken,
    Bye,
    Ended,
    Forget,
    Halt,
    Hello,
    Hold,
    Measured,
    Meet,
    Meeting,
    Message,
    Noted,
    Ready,
    Reports,
    Rest,
    Retune,
    Run,
    Saved,
    Serve,
    TakenUp,
    Warned,
    decode_from_worker,
    decode_to_worker,
    encode,
    plain_frame,
)
from etude.worker import machine, processes
from etude.worker.attempt import make_folder
from etude.worker.ends import outcome_of
from etude.worker.logs import AttemptLog
from etude.worker.template import Exited, Kill, Loaded, Start, Unloadable, decode_from_template, warm

ForChild = Halt | Hold | Meet | Noted | Retune
"""What is passed on to the child that runs the attempt."""

BEAT_S: Final = 1.0
LEAVE_S: Final = 5.0
"""Seconds that a child has for its exit handlers after it told its outcome."""
ABANDON_S: Final = 1.0
"""Seconds that a child has to come to an end by itself when another rank of its trial came to a bad one."""
GAP_S: Final = 5.0
"""A worker looks at the clock every second. If it did not for this long, it stood still, and so did its children."""
MEMORY_LIMIT: Final = "memory_limit"
REST_S: Final = 300.0
"""Seconds that a worker stays warm without a study before it leaves."""
MAX_TEMPLATES_LOST: Final = 5
LARGE_SPOOL: Final = 4 << 20
LOG_AT_ONCE: Final = 1 << 20
"""Bytes of one child's output that are taken in before the others get their turn."""


@dataclass(eq=False)
class Child:
    """A child process as its supervisor knows it."""

    number: int
    channel: Channel
    log: AttemptLog
    job: Run | None = None
    told: bool = False
    started: float = 0.0
    kill_at: float | None = None
    killed_as: How | None = None
    kills: int = 0
    abandoned: bool = False

    @property
    def busy(self) -> bool:
        """Whether it works on an attempt."""
        return self.job is not None and not self.told


class Supervisor:
    """Executes attempts for a driver.

    Args:
        driver: The channel to the driver.
    """

    def __init__(self, driver: Channel) -> None:
        self._driver = driver
        self._selector = selectors.DefaultSelector()
        self._selector.register(driver, selectors.EVENT_READ, self._on_driver)
        self._parent = os.getppid()
        self._warm: Channel | None = None
        self._warm_pid = 0
        self._template: Channel | None = None
        self._serve: Serve | None = None
        self._born = 0
        self._children: dict[int, Child] = {}
        self._spare: Child | None = None
        self._current: Child | None = None
        self._next_beat = 0.0
        self._looked_at = time.monotonic()
        self._rests_since = time.monotonic()
        self._leaving = False
        self._stale = False
        self._templates_lost = 0  # since an attempt ended well
        self._template_pid = 0
        self._spool = ""  # known once the template is ready
        self._held: Run | None = None  # a job that came before it was
        self._held_words: list[tuple[ForChild, bytes]] = []  # about that job
        self._unwritten: set[tuple[int, int]] = set()
        """Attempts whose outcomes were told and are not known to be in the journal."""
        self._taken: set[tuple[int, int]] = set()
        """Attempts of this study that were begun here: none is begun again, should a message come twice."""
        self._still = Silence(float("inf"))
        self._oom_kills = processes.oom_kills()

    def work(self) -> None:
        """Serve until the driver says goodbye or is gone."""
        self._tell(Hello(os.getpid()))
        while not self._leaving:
            self._stale = False
            for key, _ in self._selector.select(self._patience_s()):
                key.data()
                if self._leaving or self._stale:
                    break  # what is left of this round may belong to what is gone; the next round tells
            self._look_at_the_clock()
        self._end_study()

    # --- the driver -------------------------------------------------------------------------------

    def _on_driver(self) -> None:
        frames = self._driver.read()
        if frames is None:
            self._leaving = True
            return
        for content in frames:
            match decode_to_worker(content):
                case Serve() as serve:
                    self._take_up(serve)
                case Run() as job if (job.trial, job.attempt) not in self._taken:
                    self._taken.add((job.trial, job.attempt))
                    self._run(job)
                case Halt() | Hold() | Meet() | Noted() | Retune() as told:
                    self._pass_on(told, content)
                case Abandon(trial=trial, attempt=attempt):
                    self._abandon(trial, attempt)
                case Forget(trial=trial, attempt=attempt):
                    self._forget(trial, attempt)
                case Rest():
                    self._end_study()
                    self._serve, self._rests_since = None, time.monotonic()
                case Bye():
                    self._leaving = True

    def _tell(self, message: Message) -> None:
        self._send_raw(encode(message))

    def _send_raw(self, content: bytes) -> None:
        try:
            self._driver.send(content)
        except OSError:
            self._leaving = True

    def _at_work_on(self, trial: int, attempt: int) -> Child | None:
        """Return the child that works on an attempt, if it is the one at work."""
        child = self._current
        if child is None or not child.busy or child.job is None:
            return None
        return child if (child.job.trial, child.job.attempt) == (trial, attempt) else None

    def _abandon(self, trial: int, attempt: int) -> None:
        """End a child soon, unless it ends by itself before that."""
        if self._held is not None and (self._held.trial, self._held.attempt) == (trial, attempt):
            job, self._held = self._held, None
            self._tell(Ended(job.trial, job.attempt, outcome_of(None, killed_as=How.LOST)))
        elif (child := self._at_work_on(trial, attempt)) is not None:
            child.kill_at = min(child.kill_at or float("inf"), time.monotonic() + ABANDON_S)
            child.abandoned = True

    def _pass_on(self, message: ForChild, content: bytes) -> None:
        if self._held is not None:
            self._held_words.append((message, content))
            return
        child = self._at_work_on(message.trial, message.attempt)
        if child is None:
            return
        with contextlib.suppress(OSError):
            child.channel.send(content)
        if isinstance(message, Halt) and self._serve is not None:
            child.kill_at = min(child.kill_at or float("inf"), time.monotonic() + self._serve.grace_s)

    def _forget(self, trial: int, attempt: int) -> None:
        """Empty a spool that has grown large, at a moment when all that is in it is in the journal."""
        self._unwritten.discard((trial, attempt))
        if not self._unwritten and not any(c.busy for c in self._children.values()):
            with contextlib.suppress(OSError):
                if os.path.getsize(self._spool) > LARGE_SPOOL:
                    os.truncate(self._spool, 0)

    # --- a study ----------------------------------------------------------------------------------

    def _take_up(self, serve: Serve) -> None:
        if self._serve is None or self._serve.study != serve.study:  # else it is said twice
            self._end_study()
            self._taken.clear()
            self._begin_study(serve)

    def _begin_study(self, serve: Serve) -> None:
        self._serve = serve
        self._still = Silence(serve.silence_s)
        ours = self._ask_for_template(serve)
        self._still.heard("warm", time.monotonic())
        self._template = Channel(ours)
        self._selector.register(self._template, selectors.EVENT_READ, self._on_template)
        with contextlib.suppress(OSError):  # if it is gone, reading says so
            self._template.send(encode(serve))

    def _ask_for_template(self, serve: Serve) -> socket.socket:
        """Return our end of the channel to a new template. If it is gone at once, that ends, and says so."""
        ours, asked = self._pass_on_its_end(serve)
        if not asked:  # the warm process died since it was needed last
            ours.close()  # first: a new one would hold it open, and nobody would see when the template ends
            self._warm = None
            ours, _ = self._pass_on_its_end(serve)
        return ours

    def _pass_on_its_end(self, serve: Serve) -> tuple[socket.socket, bool]:
        if self._warm is None:
            self._warm = self._fork_warm()
        ours, its = socket.socketpair()
        with its:
            try:
                self._warm.send_with_fds(plain_frame(serve.preload), [its.fileno()])
            except OSError:
                return ours, False
        return ours, True

    def _fork_warm(self) -> Channel:
        ours, its = socket.socketpair()
        me = os.getpid()
        self._warm_pid = os.fork()
        if self._warm_pid == 0:
            ours.close()
            self._driver.close()
            warm(Channel(its), supervisor=me)
        its.close()
        return Channel(ours)

    def _end_study(self) -> None:
        """End everything that belongs to the study; the warm process stays."""
        self._stale = True
        for child in list(self._children.values()):
            self._drop(child)
        if self._template is not None:
            self._selector.unregister(self._template)
            self._template.close()  # at which it kills its children and ends
        self._unwritten.clear()
        self._template_pid = 0
        self._template = self._spare = self._current = None
        self._spool, self._held, self._held_words = "", None, []

    def _on_template(self) -> None:
        assert self._template is not None
        assert self._serve is not None
        frames = self._template.read()
        if frames is None:
            self._on_template_gone()
            return
        for content in frames:
            match decode_from_template(content):
                case Loaded(pid=pid, spool=path, note=note, gpus_mb=gpus_mb):
                    self._template_pid, self._spool = pid, path
                    self._still.heard("template", time.monotonic())
                    memory_mb = (machine.memory_gb() or 0.0) * 2**10
                    self._tell(Ready(self._serve.study, note, os.getpid(), machine.name(), memory_mb, gpus_mb))
                    self._spare = self._fork_child()
                    if self._held is not None:
                        self._run(self._held)
                case Unloadable(reason=reason, edited=edited):
                    self._tell(Broken(self._serve.study, reason, edited))
                case Exited() as exited:
                    self._on_exit(exited)

    def _on_template_gone(self) -> None:
        """Start over: whatever killed the template took its children along."""
        serve = self._serve
        lost = [c for c in self._children.values() if c.busy]
        held, words = self._held, self._held_words
        for child in lost:
            self._say_for(child, None)
        self._templates_lost += 1
        useless = not self._spool or self._templates_lost > MAX_TEMPLATES_LOST
        self._end_study()
        assert serve is not None
        if useless:
            self._tell(Broken(serve.study, "The process that loads your functions died, again and again or at once."))
        else:
            self._held, self._held_words = held, words
            self._begin_study(serve)

    # --- children ---------------------------------------------------------------------------------

    def _fork_child(self) -> Child | None:
        assert self._template is not None
        assert self._serve is not None
        ours, its = socket.socketpair()
        log = AttemptLog(self._serve.log_limit)
        self._born += 1
        try:
            self._template.send_with_fds(plain_frame(Start(self._born)), [its.fileno(), log.write_end])
        except OSError:  # the template is gone; its channel's end tells us next
            ours.close()
            log.close()
            return None
        finally:
            its.close()
            os.close(log.write_end)
        child = Child(self._born, Channel(ours), log)
        self._children[child.number] = child
        self._selector.register(child.channel, selectors.EVENT_READ, lambda: self._on_child(child))
        self._selector.register(log, selectors.EVENT_READ, lambda: self._on_log(child))
        return child

    def _run(self, job: Run) -> None:
        assert self._serve is not None
        self._held = None if self._spool else job
        if self._held is not None:
            return
        if self._current is None or not self._serve.reuse_child or self._current.kill_at is not None:
            self._current = self._spare or (self._fork_child() if self._template is not None else None)
            self._spare = None
        child = self._current
        if child is None:
            self._tell(Ended(job.trial, job.attempt, Outcome(How.KILLED, reason="no process could be started")))
            return
        serve = self._serve
        child.job, child.told, child.started = job, False, time.monotonic()
        child.kill_at = child.started + serve.timeout_s if serve.timeout_s is not None else None
        child.killed_as, child.kills, child.abandoned = None, 0, False
        rank = job.rank.number if job.rank is not None else 0
        child.log.belong_to(lambda: make_folder(serve.trials, job.trial, job.attempt, rank))
        with contextlib.suppress(OSError):  # it died while it waited; its end tells
            child.channel.send(encode(job))
        if self._spare is None and not serve.reuse_child:
            self._spare = self._fork_child()
        words, self._held_words = self._held_words, []
        for message, content in words:
            self._pass_on(message, content)

    def _on_child(self, child: Child) -> None:
        try:
            self._hear(child)
        except (ConnectionError, msgspec.DecodeError):  # user code wrote into what is not its own
            self._selector.unregister(child.channel)
            child.kill_at = time.monotonic()

    def _hear(self, child: Child) -> None:
        frames = child.channel.read()
        if frames is None:
            self._selector.unregister(child.channel)
            if child.busy:  # it cannot tell us anything any more, so it is of no use
                child.kill_at = min(child.kill_at or float("inf"), time.monotonic() + LEAVE_S)
            return
        for content in frames:
            message = decode_from_worker(content)
            if isinstance(message, Broken):  # it found a file edited, which may be before it has a job
                self._send_raw(content)
            elif child.told or child.job is None:
                continue
            elif isinstance(message, Ended):
                self._on_told(child, content, message)
            elif isinstance(message, Meeting | Reports | Measured | Saved | TakenUp | Warned):
                self._send_raw(content)

    def _on_told(self, child: Child, content: bytes, message: Ended) -> None:
        assert self._serve is not None
        child.log.drain()
        child.told = True
        self._templates_lost = 0
        self._unwritten.add((message.trial, message.attempt))
        goes_on = self._serve.reuse_child and message.outcome.how is How.FINISHED
        child.kill_at = None if goes_on else time.monotonic() + LEAVE_S
        if goes_on:
            child.log.finish()
        elif self._current is child:
            self._current = None
        self._send_raw(content)

    def _on_log(self, child: Child) -> None:
        if not child.log.drain(LOG_AT_ONCE):
            self._selector.unregister(child.log)

    def _on_exit(self, exited: Exited) -> None:
        child = self._children.get(exited.child)
        if child is None:
            return
        child.log.drain()
        if child.busy:
            usage = Usage(time.monotonic() - child.started, exited.cpu_s, exited.memory_mb)
            self._say_for(child, exited.status, usage, out_of_memory=self._killed_for_memory(exited.pid))
        if self._spare is child:
            self._spare = None
        self._drop(child)

    def _say_for(
        self, child: Child, status: int | None, usage: Usage | None = None, *, out_of_memory: bool = False
    ) -> None:
        """Tell what a child could not tell: from its spooled outcome if it left one, else as we saw it end."""
        assert child.job is not None
        assert self._serve is not None
        outcome = outcome_of(
            status,
            killed_as=child.killed_as,
            timeout_s=self._serve.timeout_s,
            out_of_memory=out_of_memory,
            usage=usage,
        )
        ended = Ended(child.job.trial, child.job.attempt, outcome)
        if child.job.leads:
            ended = spool.find(self._spool, ended.trial, ended.attempt) or ended
        child.told = True
        self._unwritten.add((ended.trial, ended.attempt))
        if self._current is child:
            self._current = None
        self._tell(ended)

    def _killed_for_memory(self, pid: int) -> bool:
        """Say whether the kernel has killed one of an attempt's processes for memory since the last look."""
        before, self._oom_kills = self._oom_kills, processes.oom_kills()
        return self._oom_kills > before or self._killed_in_its_group(pid)

    def _killed_in_its_group(self, pid: int) -> bool:
        """Say whether that was in the group that an attempt has of its own where memory is limited."""
        system = self._serve.system if self._serve is not None else None
        if system is None or MEMORY_LIMIT not in (*(system.knobs or ()), *(system.setting or ())):
            return False
        from etude.system.applied.tree import kills_of_attempt

        return kills_of_attempt(pid) > 0

    def _drop(self, child: Child) -> None:
        self._stale = True
        self._children.pop(child.number, None)
        for source in (child.channel, child.log):
            with contextlib.suppress(KeyError):
                self._selector.unregister(source)
        child.channel.close()
        child.log.close()
        if self._current is child:
            self._current = None

    # --- time -------------------------------------------------------------------------------------

    def _patience_s(self) -> float:
        times = [self._next_beat, *(c.kill_at for c in self._children.values() if c.kill_at is not None)]
        return max(0.0, min(times) - time.monotonic())

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        self._leave_out_gaps(now)
        if now >= self._next_beat:
            self._next_beat = now + BEAT_S
            if self._serve is not None:
                self._tell(Beat())
            elif now - self._rests_since > REST_S:
                self._leaving = True
            self._end_what_stands_still(now)
            if os.getppid() != self._parent:  # the driver died, and somebody else holds its socket open
                self._leaving = True
        for child in self._children.values():
            if child.kill_at is not None and now >= child.kill_at:
                self._kill(child, now)

    def _leave_out_gaps(self, now: float) -> None:
        """Time in which we stood still ourselves counts against no limit: most likely all of us did."""
        gap_s, self._looked_at = now - self._looked_at, now
        if gap_s > GAP_S:
            for child in self._children.values():
                child.started += gap_s
                child.kill_at = child.kill_at + gap_s if child.kill_at is not None else None

    def _end_what_stands_still(self, now: float) -> None:
        """End a process of ours that somebody stopped and does not let go on: we would wait for it for ever.

        Without a template no attempt starts, and without the warm process no template. If we stood still as well, with
        the whole machine or by the same hand, the gap in our own looking charges nobody.
        """
        pids = {"template": self._template_pid, "warm": self._warm_pid}
        for name, pid in pids.items():
            if not pid:
                self._still.forget(name)
            elif not processes.is_stopped(pid):
                self._still.heard(name, now)
        for name in self._still.tick(now):
            processes.kill(pids[name])

    def _kill(self, child: Child, now: float) -> None:
        child.kill_at = now + LEAVE_S  # once more, should it not be gone by then
        child.kills += 1
        if child.kills > 1:  # nobody carries it out: end the template itself, and start over
            processes.kill(self._template_pid)
            return
        if child.busy and child.killed_as is None and self._serve is not None:
            limit = self._serve.timeout_s
            late = limit is not None and now - child.started >= limit
            child.killed_as = How.TIMED_OUT if late else How.LOST if child.abandoned else How.KILLED
        assert self._template is not None
        with contextlib.suppress(OSError):
            self._template.send(plain_frame(Kill(child.number)))


def main() -> None:
    """Run a supervisor on the socket that the engine handed over as the first argument."""
    processes.adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    driver = Channel(socket.socket(fileno=int(sys.argv[1])))
    sys.argv[1:] = []
    code = 0
    try:
        Supervisor(driver).work()
    except Exception:
        traceback.print_exc()
        code = 1
    os._exit(code)  # what we forked dies with us; there is nothing else to put in order


if __name__ == "__main__":
    main()
