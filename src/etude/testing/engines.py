"""What every engine promises, as a check that anybody can run on their own.

The check stands where a driver does, and has real workers run attempts. Whether these are gone shows without looking
for processes, which may be where we cannot see them: each attempt holds a line to the check open, and so does a process
that it leaves behind in a session of its own. The kernel hangs up when the last of them has ended.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

from etude.core.events import How, Params
from etude.engines import Engine
from etude.engines.named import METHODS
from etude.engines.simulated import Simulated
from etude.testing.door import Door
from etude.testing.studies import check_studies
from etude.wire.channel import Channel
from etude.wire.messages import Broken, Ended, Message, Ready, Reports, Run, Serve, decode_from_worker, encode
from etude.wire.search_path import search_path

PATIENCE_S: Final = 60.0
VALUE: Final = 2.0
"""What an attempt returns."""

MOST: Final = 4
"""So many workers the check starts for one study."""


def check_engine(make: Callable[[], Engine | Simulated], *, patience_s: float = PATIENCE_S) -> None:
    """Check what every engine promises; a third-party engine runs this in its own tests.

    It prepares the engine, if it has that, starts workers, has them run attempts, ends one, has one killed, and stops
    the engine in the middle of attempts; then it takes the same engine up again. At last it runs a study, in which
    trials finish, fail and are stopped, goes on with it on another engine of that kind, and sees whether it comes out
    as on this machine, trial by trial. It takes seconds, and needs what an engine needs now: workers that see this
    machine's folder for temporary files. A simulated engine starts no workers, and is asked for the study alone.

    Args:
        make: Returns a new engine.
        patience_s: For how many seconds something may fail to happen until that counts as never.

    Raises:
        AssertionError: A promise was broken; the message says which.

    Example:
        >>> from etude.engines.local import LocalEngine
        >>> check_engine(LocalEngine)
    """
    with tempfile.TemporaryDirectory(prefix="etude-", ignore_cleanup_errors=True) as folder:
        engine = make()
        if not isinstance(engine, Simulated):
            _check_workers(engine, Path(folder), patience_s)
        check_studies(make, Path(folder, "studies"))


def _check_workers(engine: Engine, folder: Path, patience_s: float) -> None:
    """Check what an engine promises of its workers, one by one."""
    lacks = [f"{method}()" for method in METHODS if not callable(getattr(engine, method, None))]
    assert not lacks, f"an engine starts workers, and {type(engine).__name__} has no {' and no '.join(lacks)}"
    with _prepared(engine, MOST), _Driver(engine, folder, patience_s) as driver:
        _check_that_they_work_and_end_when_told(driver)
        _check_that_a_killed_one_is_noticed(driver)
        _check_that_a_stop_ends_what_runs(driver)
    with _prepared(engine, 1), _Driver(engine, folder, patience_s) as driver:
        for worker in driver.start(1):  # a study after the other
            worker.work()


def attempt(run: Any, line: str, does: Literal["return", "stay", "kill"], victim: int = 0) -> float:
    """Be the training function of the check.

    Args:
        run: The run handle.
        line: Path of the socket that the check listens on.
        does: Return at once, stay until the check hangs up, or stay when ``victim`` was killed.
        victim: The process of the attempt's worker.
    """
    if does == "return":
        run.report(score=1.0)
        return VALUE
    with socket.socket(socket.AF_UNIX) as held:
        held.connect(line)
        if sys.platform == "linux":  # elsewhere nobody promises to find it
            subprocess.Popen(["cat"], stdin=held.fileno(), stdout=subprocess.DEVNULL, start_new_session=True)
        run.report(score=1.0)
        if does == "kill":
            os.kill(victim, signal.SIGKILL)
        held.recv(1)
    return VALUE


def _check_that_they_work_and_end_when_told(driver: _Driver) -> None:
    told, other = driver.start(2)
    for worker in (told, other):
        worker.work()
    line = told.stay("stay")
    driver.end(told.name)
    assert told.is_gone(), "a worker that end() was called for ends, and its socket with it; this one did not"
    assert line.is_dead(), "end() ends all that a worker started, also what an attempt left in a session of its own"
    for name in (told.name, "nobody"):
        try:
            driver.end(name)
        except Exception as error:
            raise AssertionError(
                f"end() of a worker that has ended already is fine, and here it raised {error!r}"
            ) from error
    other.work()


def _check_that_a_killed_one_is_noticed(driver: _Driver) -> None:
    (worker,) = driver.start(1)
    worker.get_ready()
    line = worker.stay("kill")
    assert worker.is_gone(), (
        "the socket of a worker that was killed ends, and this one's did not. Perhaps somebody else holds the worker's "
        "end of it open, such as the process that started the worker"
    )
    driver.end(worker.name)
    assert line.is_dead(), "end() of a worker that was killed ends what that one had started"


def _check_that_a_stop_ends_what_runs(driver: _Driver) -> None:
    (fresh,) = driver.start(1)
    fresh.get_ready()
    line = fresh.stay("stay")
    driver.hang_up()
    driver.engine.stop()
    assert line.is_dead(), "stop() ends the attempts that run, and this one goes on"


@contextlib.contextmanager
def _prepared(engine: Engine, n: int) -> Iterator[None]:
    """Let it reach its cluster first, as a study does, and leave no worker behind.

    If a promise was broken, that one is told and not what comes of it.
    """
    try:
        if prepare := getattr(engine, "prepare", None):
            prepare(n)
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            engine.stop()
        raise
    engine.stop()


class _Driver:
    """What an engine's workers talk to."""

    def __init__(self, engine: Engine, folder: Path, patience_s: float) -> None:
        self.engine = engine
        self.patience_s = patience_s
        self.study = uuid.uuid4().hex
        self.serve = Serve(
            study=self.study,
            functions=pickle.dumps({"train": attempt}),
            preload=(),
            path=search_path(),
            cwd=str(folder),
            metrics=("score",),
            watched="score",
            spool=str(_made(folder / "spool")),
            trials=str(_made(folder / "trials")),
        )
        self.address = str(folder / self.study[:8])
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.address)
        self.listener.listen()
        self.listener.settimeout(patience_s)
        self.handed_out = 0
        self.door = Door(self.serve, self._connected)
        self._workers: list[_Worker] = []
        self._started: list[_Worker] = []
        self._threads: set[int] = set()
        self._lines: list[_Line] = []

    def start(self, n: int) -> list[_Worker]:
        """Start workers, and look at how they are handed over."""
        known = {worker.name for worker in self._workers}
        self._threads.clear()
        self._started = []
        self.engine.start(n, self.door)
        if self.door.invited:
            while len(self._started) < n:
                self._take_in(*self._arrived())
        assert len(self._started) == n, (
            f"start({n}) connects {n} workers before it returns, unless nodes bring them, and here it was "
            f"{len(self._started)}"
        )
        assert self._threads <= {threading.get_ident()}, "connect is called in the thread that called start"
        for worker in self._started:
            assert isinstance(worker.name, str), f"a worker's name is a str, and this one is {worker.name!r}"
            assert worker.name not in known, f"each worker has a name of its own, and {worker.name!r} came twice"
            known.add(worker.name)
        return self._started

    def end(self, name: str) -> None:
        """End a worker, as a study does: a node ends its own, and the engine the others."""
        if not self.door.ends(name):
            self.engine.end(name)

    def _connected(self, name: str, sock: socket.socket) -> None:
        assert isinstance(sock, socket.socket), f"what is handed over is a socket, and this is {sock!r}"
        self._threads.add(threading.get_ident())
        self._take_in(name, sock)

    def _take_in(self, name: str, sock: socket.socket) -> None:
        self._started.append(_Worker(name, sock, self))
        self._workers.append(self._started[-1])

    def _arrived(self) -> tuple[str, socket.socket]:
        """Return the next worker that a node brought."""
        try:
            return self.door.came.get(timeout=self.patience_s)
        except queue.Empty:
            told = "".join(f": {error}" for error in self.door.errors)
            raise AssertionError(
                f"the engine took an invitation, and no node brought a worker within {self.patience_s:g} s{told}"
            ) from None

    def line(self) -> _Line:
        """Return the line of the attempt that has just begun."""
        sock, _ = self.listener.accept()
        sock.settimeout(self.patience_s)
        self._lines.append(_Line(sock))
        return self._lines[-1]

    def hang_up(self) -> None:
        """Close our ends to the workers, as a driver does when its study is over."""
        for worker in self._workers:
            worker.channel.close()
        self.door.close()

    def __enter__(self) -> _Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        for line in self._lines:
            line.sock.close()
        self.listener.close()


class _Worker:
    """A worker, seen from the driver."""

    def __init__(self, name: str, sock: socket.socket, driver: _Driver) -> None:
        self.name = name
        self.channel = Channel(sock)
        self._driver = driver
        self._pid: int | None = None
        sock.settimeout(driver.patience_s)

    def get_ready(self) -> int:
        """Have it take up the study, and return its process."""
        if self._pid is None:
            self._send(self._driver.serve)
            self._pid = self._hear(Ready, lambda said: said.study == self._driver.study).pid
        return self._pid

    def work(self) -> None:
        """Have it run an attempt to its end."""
        self.get_ready()
        job = self._begin("return")
        ended = self._hear(Ended, lambda said: said.trial == job.trial)
        assert (ended.outcome.how, ended.outcome.value) == (How.FINISHED, VALUE), (
            f"an attempt that returns {VALUE} finishes with that, and this one ended so: {ended.outcome}"
        )

    def stay(self, does: Literal["stay", "kill"]) -> _Line:
        """Have it run an attempt that does not return, and return the attempt's line."""
        self._begin(does)
        return self._driver.line()

    def is_gone(self) -> bool:
        """Say whether its socket ends."""
        try:
            for _ in self._said():
                pass
        except TimeoutError:
            return False
        return True

    def _begin(self, does: Literal["return", "stay", "kill"]) -> Run:
        driver = self._driver
        driver.handed_out += 1
        params: Params = {"line": driver.address, "does": does, "victim": self._pid}
        job = Run(driver.handed_out, 1, params, 0)
        self._send(job)
        if does != "kill":  # its report may be lost
            self._hear(Reports, lambda said: said.trial == job.trial)
        return job

    def _send(self, message: Message) -> None:
        with contextlib.suppress(OSError):  # it is gone, and reading says so
            self.channel.send(encode(message))

    def _said(self) -> Iterator[bytes]:
        """Yield what it says until it is gone; raise TimeoutError when our patience ends, for it beats as it lives."""
        give_up_at = time.monotonic() + self._driver.patience_s
        while (content := self.channel.receive()) is not None:
            yield content
            if time.monotonic() > give_up_at:
                raise TimeoutError

    def _hear(self, kind: type[Any], is_meant: Callable[[Any], bool]) -> Any:
        """Return the next message of a kind."""
        wanted = f"{kind.__name__} was expected of worker {self.name!r}"
        try:
            for content in self._said():
                said: Message = decode_from_worker(content)
                assert not isinstance(said, Broken), f"{wanted}, and it says that it cannot work: {said.reason}"
                if isinstance(said, kind) and is_meant(said):
                    return said
        except TimeoutError:
            raise AssertionError(f"{wanted}, and it did not come within {self._driver.patience_s:g} s") from None
        raise AssertionError(f"{wanted}, and it left")


class _Line:
    """What an attempt, and what it started, hold open while they live."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def is_dead(self) -> bool:
        """Say whether the other end hangs up: all of them have ended."""
        try:
            return not self.sock.recv(1)
        except ConnectionError:
            return True
        except TimeoutError:
            return False


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder
