"""The child: the one process that runs the user's code, one attempt after the other or just one."""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from etude.core.errors import Invalid, ResultError
from etude.core.events import How, Outcome, Usage
from etude.core.removal import FINGERPRINTS, ROWS, Arm
from etude.core.signature import Signature
from etude.core.system import Order, Taken
from etude.core.text import brief
from etude.data.seen import Seen
from etude.frameworks import torch_adapter
from etude.places.depot import Depot
from etude.places.url_depot import depot_at
from etude.wire.channel import Channel
from etude.wire.messages import (
    Broken,
    Ended,
    Halt,
    Hold,
    Measured,
    Meet,
    Meeting,
    Noted,
    Reports,
    Retune,
    Run,
    Saved,
    Serve,
    TakenUp,
    ToWorker,
    Warned,
    decode_to_worker,
    encode,
    pack_outcome,
)
from etude.wire.spool import append
from etude.worker import processes
from etude.worker.alone import ALONE, Alone
from etude.worker.bind import Bound, Functions
from etude.worker.edits import edited, not_imported
from etude.worker.looked import Looked
from etude.worker.machine import gpus_of
from etude.worker.probing import Probing
from etude.worker.rank_line import RankLine
from etude.worker.result import read_result
from etude.worker.run import Hold as HoldSeen
from etude.worker.run import Run as RunHandle
from etude.worker.run import State, WhyNot, default_device
from etude.worker.run import Stop as StopSeen
from etude.worker.start import load_optimizers, load_start
from etude.worker.states import OfAll, States
from etude.worker.together import Together
from etude.worker.tuning import Advice, Guarded, Machine, Silent

MAX_REASON: Final = 2000
REHEARSALS: Final = 16
IDLE_S: Final = 0.02
"""A child that waits longer than this for its attempt, in seconds, has time to spare."""

SPOOLED_REPORTS: Final = 1000
"""An attempt that made more reports than this leaves only its outcome in the spool, and no curve."""

Word = Measured | Saved | TakenUp | Warned
"""What an attempt tells beside its reports."""

RANK: Final = "rank-"
"""How the folders of ranks after the first begin, in that of their attempt."""

GATHER_S: Final = 0.01
"""Reports that follow each other within this time, in seconds, travel together."""


def main(functions: Functions, signature: Signature, serve: Serve, sock: Any, *, log: int, spool: int) -> NoReturn:
    """Serve attempts until told otherwise; the process ends here.

    Args:
        functions: The user's functions, by role.
        signature: What they take.
        serve: The study that they belong to.
        sock: Our end of the channel to the supervisor.
        log: File descriptor that takes the attempt's output.
        spool: File descriptor that takes its outcome.
    """
    code = 1
    try:
        _detach(log)
        _set_threads(serve.threads)
        channel = Channel(sock)
        if not select.select([channel], [], [], IDLE_S)[0]:
            rehearse(2)  # nobody is in a hurry: take the page faults now, not when there is something to do
        _attend(functions, signature, serve, channel, spool)
        _run_exit_handlers()
        code = 0
    except BaseException:
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        os._exit(code)


def _detach(log: int) -> None:
    """Cut the ties to the process that we were forked from."""
    os.setsid()  # Ctrl-C at a terminal reaches the driver alone
    atexit._clear()  # the template's exit handlers are not ours
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def open_streams() -> None:
    """Make ``sys.stdout`` and ``sys.stderr`` anew: line by line, so that a crash loses no line.

    Done once, before the fork, while both descriptors are pipes: a stream that was opened on a file
    would look for its place in it.
    """
    read, write = os.pipe()
    for fd, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(write, fd)
        stream = open(fd, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115 - for good
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.close(read)
    os.close(write)


def _set_threads(n: int) -> None:
    """Give BLAS and OpenMP the threads that the template, single-threaded for the fork, did without."""
    if n == 1:
        return
    if "threadpoolctl" in sys.modules:
        sys.modules["threadpoolctl"].threadpool_limits(n)
    if torch := torch_adapter():
        torch.set_threads(n)


THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def _attend(functions: Functions, signature: Signature, serve: Serve, channel: Channel, spool: int) -> None:
    """Run what the supervisor asks for, until it is gone or this process has served its turn."""
    files = serve.files
    while (content := channel.receive()) is not None:
        message = decode_to_worker(content)
        if isinstance(message, Run):
            if why := edited(files, cwd=serve.cwd):
                give_up(channel, serve, why)
                return
            if serve.reuse_child:  # what trials before it took is none of its own
                _forget_peaks()
            ended = _serve(functions, signature, serve, channel, spool, message)
            if not serve.reuse_child or ended.outcome.how is not How.FINISHED:
                return
            files = not_imported(files)


def give_up(channel: Channel, serve: Serve, why: str) -> None:
    """Tell that attempts would run an edited file, and wait for the end: who just ended would count as killed."""
    channel.send(encode(Broken(serve.study, why, edited=True)))
    while channel.receive() is not None:
        pass


def _serve(functions: Functions, signature: Signature, serve: Serve, channel: Channel, spool: int, job: Run) -> Ended:
    """Run one attempt, leave its outcome in the spool, then tell."""

    def say(text: str) -> None:
        line.warn(text)

    def told(last: Mapping[str, float]) -> None:
        run.last.update(last)

    may_keep = "run" in signature.given["train"]
    looked = Looked(serve.trials, job.start, joins=serve.joins, may_keep=may_keep, say=say)
    depot = depot_at(serve.states, Path(serve.trials))
    in_shards = serve.parallel is not None and serve.parallel.in_shards
    line = ChildLine(channel, job, depot, serve.watched, serve.named, seen=looked.seen, in_shards=in_shards)
    together = _together(serve, job, line)
    run = RunHandle(
        metrics=serve.metrics,
        watched=serve.watched,
        params={**signature.defaults(), **job.params},
        seed=job.seed,
        trial=job.trial,
        folder=lambda: make_folder(serve.trials, job.trial, job.attempt, together.number),
        device=default_device() if serve.functions else "cpu",  # who rehearses may not ask CUDA, before the fork
        line=line if isinstance(together, Alone) else RankLine(line, together, told=told),
        together=together,
        auto_report=serve.auto_report,
        probing=Probing(job.probe) if job.probe is not None else None,
        inherits=partial(load_optimizers, serve.trials, job.start) if job.start is not None else dict,
    )
    if serve.system is not None and run.probing is None:
        advice = line if job.leads else Silent(line)
        make = partial(_tuned, serve, job, advice, gpus=gpus_of(serve.gpus, run.device), ranks=together.ranks, say=say)
        run.tuning = Guarded(make, say)
    me = os.getpid()
    start = partial(load_start, serve.trials, job.start) if job.start is not None else None
    outcome = execute(functions, signature, job.params, run, start, looked, job.arm)
    if os.getpid() != me:  # a process that the training function forked, and let return
        os._exit(0)
    early = outcome.how is How.FINISHED and not line.settled
    if early:  # the outcome is safe whatever becomes of us while the last state is written
        if job.leads:
            append(spool, pack_outcome(Ended(job.trial, job.attempt, outcome, line.told, line.taken_up)))
        line.settle()
    line.close()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    ended = Ended(job.trial, job.attempt, outcome)
    if not early and job.leads:
        append(spool, pack_outcome(Ended(job.trial, job.attempt, outcome, line.told, line.taken_up)))
    channel.send(pack_outcome(ended))
    if outcome.how is How.FINISHED:  # else the process ends, and the others notice
        together.end()
    return ended


def _prints(bound: Bound, looked: Looked | None) -> dict[str, Any]:
    """Return the fingerprints of how a trial began, and of the data that it had; nothing where nobody can tell."""
    rows = {ROWS: looked.prints} if looked is not None and looked.prints else {}
    found = {**bound.fingerprints.get(FINGERPRINTS, {}), **rows}
    return {FINGERPRINTS: found} if found or bound.fingerprints else {}


def _tuned(
    serve: Serve, job: Run, advice: Advice, *, gpus: tuple[str, ...], ranks: int, say: Callable[[str], None]
) -> Machine:
    """Return the machine of an attempt, to be tuned while it trains."""
    from etude.worker.tuned import Tuning

    assert serve.system is not None
    return Tuning(
        serve.system,
        job.order,
        advice=advice,
        cores=serve.threads,
        gpus=gpus,
        ranks=ranks,
        say=say,
        always=frozenset(serve.named),
    )


def _together(serve: Serve, job: Run, line: ChildLine) -> Together | Alone:
    if job.rank is None or serve.parallel is None:
        return ALONE
    return Together(
        job.rank,
        serve.parallel,
        attempt=job.attempt,
        announce=line.announce,
        await_port=line.await_port,
        say=line.warn,
    )


def execute(
    functions: Functions,
    signature: Signature,
    params: Mapping[str, Any],
    run: RunHandle,
    start: Callable[[Any], object] | None = None,
    looked: Looked | None = None,
    arm: Arm | None = None,
) -> Outcome:
    """Call the training function and return what came of it; only exceptions that end the process escape."""
    wall, cpu, beside_mb = time.perf_counter(), _cpu_s(), _memory_of_others_mb()
    how, value, reason, trace, raised_in = How.FINISHED, None, "", "", ""
    extra: dict[str, Any] = {}
    bound: Bound | None = None
    try:
        run.together.begin()
        bound = Bound(functions, signature, params, run, start, looked.take if looked is not None else None, arm)
        returned = bound.train()
        run.check_inherited()
        run.tuning.rest(whole=not run.stop_seen)
        if run.probing is not None:
            run.end_probe()
        run.finish()
        value, extra = read_result(returned, metrics=run.metrics, reported=run.last, logged=run.logged)
        value, extra = run.reduced(returned, value, extra)
        extra |= {**run.importance.told(), **bound.by_class(), **_prints(bound, looked)}
    except StopSeen:
        run.tuning.rest(whole=False)
    except HoldSeen:
        how = How.PAUSED
    except Invalid as error:
        how, reason = How.INVALID, str(error)
    except ResultError as error:
        how, reason, trace = How.UNUSABLE, str(error), traceback.format_exc()
    except BaseException as error:
        how = How.OUT_OF_MEMORY if is_memory_error(error) else How.RAISED
        how = How.LOST if run.together.has_lost(error) else how
        reason, trace = one_line(error), whole_traceback(error)
        raised_in = bound.raised_in(error) if bound else ""
        sys.stderr.write(trace)
    run.tuning.end()
    if run.stop_seen:  # whatever was returned or raised afterwards
        how, reason, trace, raised_in = How.STOPPED, "", "", ""
        value, extra = None, run.probing.told(run.last) if run.probing is not None else {}
    usage = Usage(time.perf_counter() - wall, _cpu_s() - cpu, _memory_mb(beside_mb), _gpu_peak_mb())
    derived = {k: brief(v) for k, v in bound.derived.items()} if bound else {}
    data_params = {k: brief(v) for k, v in bound.data_params.items()} if bound and derived else {}
    return Outcome(
        how,
        value=value,
        extra=extra,
        reason=reason,
        traceback=trace,
        raised_in=raised_in,
        derived=derived,
        data=data_params,
        usage=usage,
    )


def install_main(functions: Functions) -> None:
    """Let ``__main__`` hold what the user's script gave along: what is pickled in a trial is looked up there."""
    main = types.ModuleType("__main__")
    for function in functions.values():
        inner: Any = inspect.unwrap(function)
        while isinstance(inner, functools.partial):
            inner = inner.func
        inner = getattr(inner, "__func__", inner if inspect.isroutine(inner) else type(inner).__call__)
        names = getattr(inner, "__globals__", {})
        if names.get("__name__") == "__main__":
            vars(main).update({name: value for name, value in names.items() if not name.startswith("__")})
            main.__dict__.setdefault(inner.__name__, inner)
    sys.modules["__main__"] = main


def rehearse(times: int = REHEARSALS) -> None:
    """Attend to a few attempts of nothing, before the fork.

    What Python does once in a process, and what it notes in code that has run a few times, is done then. Each
    child has it from the start, and writes to fewer of the pages that it shares with the template.
    """
    ours, theirs = socket.socketpair()
    spool = os.open(os.devnull, os.O_WRONLY)
    with ours, theirs:
        driver, channel = Channel(ours), Channel(theirs)
        for number in range(times):
            driver.send(encode(Run(number, 1, {}, 0)))
        ours.shutdown(socket.SHUT_WR)
        functions = {"train": lambda: 0.0}
        serve = Serve("", b"", (), (), "", ("value",), "value", "", "", reuse_child=True)
        _attend(functions, Signature.read(functions), serve, channel, spool)
    os.close(spool)


class ChildLine:
    """Reports out, stop and pause in, without ever making the training thread wait.

    The training thread appends to a list and, if our thread is asleep, wakes it. While reports keep
    coming, that thread sends them in bundles, so that a report costs the training thread about a
    microsecond. It is started by the first report.
    """

    def __init__(
        self,
        channel: Channel,
        job: Run,
        depot: Depot,
        watched: str,
        named: Collection[int] = (),
        *,
        seen: Callable[[], Seen] | None = None,
        in_shards: bool = False,
    ) -> None:
        self.halted = False
        self.held = False
        self._channel = channel
        self._trial = job.trial
        self._attempt = job.attempt
        self._watched = watched
        seen = seen if job.leads else None
        self._states = States(job, depot, say=self._say, named=named, seen=seen, in_shards=in_shards)
        self._rows: list[tuple[int, dict[str, float]]] = []
        self.said: list[tuple[int, dict[str, float]]] | None = []
        """All that was reported; None if it is too much to keep."""
        self._words: list[Word] = []
        self._order: Order | None = None
        self._has_order = threading.Event()
        self._asleep = False
        self._closing = False
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake_read, self._wake_write = -1, -1

    def report(self, step: int, metrics: dict[str, float]) -> None:
        """Take a report; it is sent soon."""
        self._rows.append((step, metrics))
        self._wake()

    def announce(self, port: int) -> None:
        """Let the other ranks know at which port this one awaits them."""
        self._channel.send(encode(Meeting(self._trial, self._attempt, port)))

    def await_port(self, timeout_s: float) -> int:
        """Wait until rank 0 has said at which port it awaits this one.

        Raises:
            TimeoutError: It did not.
        """
        until = time.monotonic() + timeout_s
        while select.select([self._channel], [], [], max(0.0, until - time.monotonic()))[0]:
            for content in self._channel.read() or _leave():
                message = decode_to_worker(content)
                if isinstance(message, Meet):
                    return message.port
                self._take(message)
        raise TimeoutError(f"rank 0 was not there after {timeout_s:g} s")

    def take_up(self, why_not: WhyNot, of_all: OfAll = lambda problem: problem) -> State | None:
        """Return the state to go on from; where it is in shards, ``of_all`` says what is wrong with any."""
        return self._states.take_up(why_not, of_all)

    @property
    def settled(self) -> bool:
        """Whether no state is left to be written."""
        return self._states.settled

    @property
    def told(self) -> list[tuple[int, dict[str, float]]]:
        """What was reported of the watched metric, for the spool; nothing if it is too much to keep."""
        return [row for row in [*self.said, *self._rows] if self._watched in row[1]] if self.said is not None else []

    @property
    def taken_up(self) -> TakenUp | None:
        """From where the attempt went on, if it did."""
        return self._states.taken_up

    def has_room(self) -> bool:
        """Wait until no state waits to be written; return whether that is so."""
        return self._states.has_room()

    def save(self, state: State) -> None:
        """Take a state; it is written soon."""
        self._states.save(state)

    def turn(self, at: str) -> None:
        """Nobody else is waited for."""

    def settle(self) -> None:
        """Wait until the newest state is written, and told."""
        self._states.settle()

    def warn(self, text: str) -> None:
        """Have users told something."""
        self._say(Warned(self._trial, text))

    def measured(self, taken: Taken) -> None:
        """Tell what an epoch took."""
        self._has_order.clear()
        self._say(Measured(self._trial, self._attempt, taken))

    def ordered(self, wait_s: float) -> Order | None:
        """Return the newest order, once; wait so long for one that is under way."""
        self._has_order.wait(wait_s)
        order, self._order = self._order, None
        return order

    def _say(self, message: Word) -> None:
        """Take something else to tell, after what was reported before; any thread may."""
        self._words.append(message)
        self._wake()

    def _wake(self) -> None:
        if self._asleep:
            self._asleep = False
            os.write(self._wake_write, b"x")
        elif self._thread is None:
            self._start()

    def close(self) -> None:
        """Send what is left and end the thread."""
        self._states.close()
        if self._thread is not None:
            self._closing = True
            os.write(self._wake_write, b"x")
            self._thread.join()
            os.close(self._wake_read)
            os.close(self._wake_write)
        self._send()

    def _start(self) -> None:
        with self._starting:
            if self._thread is not None:
                return
            self._wake_read, self._wake_write = os.pipe()
            self._thread = threading.Thread(target=self._work, name="etude-reports", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while not self._closing:
            self._send()
            self._listen(GATHER_S)
            if not self._rows and not self._words and not self._closing:
                self._asleep = True
                if self._rows or self._words:  # one came in between
                    self._asleep = False
                else:
                    self._listen(None)
                    self._asleep = False

    def _listen(self, timeout_s: float | None) -> None:
        """Wait for word from the supervisor, or for the training thread's wake-up if there is no time limit."""
        sources: list[Any] = [self._channel, self._wake_read] if timeout_s is None else [self._channel]
        ready, _, _ = select.select(sources, [], [], timeout_s)
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        if self._channel in ready:
            for content in self._channel.read() or _leave():
                self._take(decode_to_worker(content))

    def _take(self, message: ToWorker) -> None:
        if (getattr(message, "trial", None), getattr(message, "attempt", None)) == (self._trial, self._attempt):
            self.halted |= isinstance(message, Halt)
            self.held |= isinstance(message, Hold)
            if isinstance(message, Retune):
                self._order = message.order
                self._has_order.set()
            if isinstance(message, Noted):
                self._states.noted(message.key)

    def _send(self) -> None:
        words, self._words = self._words, []  # first: a state comes after the reports that were made before it
        rows, self._rows = self._rows, []
        for beginning in [word for word in words if isinstance(word, TakenUp)]:  # and what it goes on from, before all
            self._channel.send(encode(beginning))
        if rows:
            if self.said is not None:
                self.said += rows
                self.said = self.said if len(self.said) <= SPOOLED_REPORTS else None
            self._channel.send(encode(Reports(self._trial, self._attempt, rows)))
        for word in [word for word in words if not isinstance(word, TakenUp)]:
            self._channel.send(encode(word))


def _leave() -> NoReturn:
    """The supervisor is gone: nobody wants this attempt any more."""
    os._exit(1)


def folder_of(trials: str, trial: int, attempt: int, rank: int = 0) -> Path:
    """Return the folder for an attempt's files; ranks after the first have one each in it."""
    folder = Path(trials, f"{trial:05d}", f"attempt-{attempt}")
    return folder / f"{RANK}{rank}" if rank else folder


def make_folder(trials: str, trial: int, attempt: int, rank: int = 0) -> Path:
    """Return the folder for an attempt's files, made if need be."""
    folder = folder_of(trials, trial, attempt, rank)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _cpu_s() -> float:
    return sum(
        u.ru_utime + u.ru_stime
        for u in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def _memory_mb(before_mb: float) -> float:
    """Return the peak of this process, or of the largest that it has started and waited for since, such as a command.

    Args:
        before_mb: The peak of those that it had waited for before: the kernel forgets it never.
    """
    own_mb, beside_mb = processes.peak_memory_mb(resource.getrusage(resource.RUSAGE_SELF)), _memory_of_others_mb()
    return max(own_mb, beside_mb) if beside_mb > before_mb else own_mb


def _memory_of_others_mb() -> float:
    return processes.peak_memory_mb(resource.getrusage(resource.RUSAGE_CHILDREN))


def _forget_peaks() -> None:
    """Have the peaks of memory start over."""
    processes.forget_peak_memory()
    if torch := torch_adapter():
        torch.forget_gpu_peak()


def _gpu_peak_mb() -> float | None:
    return torch.gpu_peak_mb() if (torch := torch_adapter()) else None


def is_memory_error(error: BaseException) -> bool:
    """Say whether memory ran out: Python's own, or torch's."""
    return isinstance(error, MemoryError) or any(c.__name__ == "OutOfMemoryError" for c in type(error).__mro__)


def one_line(error: BaseException) -> str:
    """Return an exception in one line."""
    try:
        text = " ".join(str(error).split())[:MAX_REASON]
    except Exception:  # an exception that cannot be shown
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def whole_traceback(error: BaseException) -> str:
    """Return the traceback without our own frames between the user's functions: they tell nobody anything."""
    ours = os.path.dirname(os.path.abspath(__file__))
    told: traceback.TracebackException | None = traceback.TracebackException.from_exception(error)
    text = told
    while told is not None:
        theirs = [f for f in told.stack if os.path.dirname(os.path.abspath(f.filename)) != ours]
        if theirs:  # else it is ours, and the frames are all there is to tell
            told.stack = traceback.StackSummary.from_list(theirs)
        told = told.__cause__ or told.__context__
    return "".join(text.format()) if text else ""


def _run_exit_handlers() -> None:
    """Run what the user's code registered for the end of the process."""
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
