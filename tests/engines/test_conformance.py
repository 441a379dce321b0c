"""The check that every engine passes, and what it finds."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import etude
from etude import Engine
from etude.engines import Door
from etude.engines.cluster import Cluster
from etude.engines.local import WORKER_MARK, LocalEngine, WorkerProcess
from etude.testing import check_engine
from etude.worker import processes


def test_the_local_engine_keeps_what_engines_promise() -> None:
    check_engine(LocalEngine)


class Plain:
    """An engine as small as can be; those below break one promise of it each."""

    def __init__(self) -> None:
        self.workers: dict[str, WorkerProcess] = {}

    def start(self, n: int, door: Door) -> None:
        for _ in range(n):
            worker = WorkerProcess()
            self.workers[worker.name] = worker
            door.connect(worker.name, worker.line())

    def end(self, worker: str) -> None:
        if worker in self.workers:
            self.workers.pop(worker).kill()

    def stop(self) -> None:
        while self.workers:
            self.workers.popitem()[1].end()


def test_a_small_engine_keeps_them_too() -> None:
    check_engine(Plain)


class Reaching(Plain):
    """Has to reach a cluster first, which has room for as many workers as it was told then."""

    def __init__(self) -> None:
        super().__init__()
        self.room = 0

    def prepare(self, n: int) -> None:
        assert not self.workers
        self.room = n

    def start(self, n: int, door: Door) -> None:
        self.room -= n
        assert self.room >= 0, "there is no room"
        super().start(n, door)

    def stop(self) -> None:
        super().stop()
        self.room = 0


def test_the_check_prepares_an_engine_for_as_many_workers_as_it_starts() -> None:
    check_engine(Reaching)


class Joining(Cluster):
    """Workers that come by themselves, with somebody who sees to it that they do."""

    def __init__(self, place: Path) -> None:
        super().__init__(credentials=place / "credentials.json")
        self.nodes: list[subprocess.Popen[bytes]] = []

    def start(self, n: int, door: Door) -> None:
        super().start(n, door)
        command = [sys.executable, "-c", "from etude.cli import main; main()", "worker", "--workers", str(n)]
        self.nodes.append(subprocess.Popen([*command, "--credentials", str(self.credentials)]))

    def stop(self) -> None:
        while self.nodes:
            node = self.nodes.pop()
            try:
                node.wait(60)
            finally:
                node.kill()
                node.wait()
        super().stop()


def test_an_engine_whose_workers_come_over_the_network_keeps_them_too(tmp_path: Path) -> None:
    check_engine(lambda: Joining(tmp_path))


class NobodyComes(Cluster):
    """Lets workers in, and starts none."""


def test_the_check_says_so_if_nobody_comes() -> None:
    with pytest.raises(AssertionError, match=r"took an invitation, and no node brought a worker within 0\.2 s"):
        check_engine(NobodyComes, patience_s=0.2)


def test_the_simulated_engine_keeps_what_is_promised_of_studies() -> None:
    check_engine(lambda: etude.Simulated(curves=lambda params, seed: [], startup_s=5.0, report_s=0.5, stragglers=0.5))


def test_the_check_finds_a_study_that_comes_out_otherwise() -> None:
    lossy = etude.Simulated(curves=lambda params, seed: [], failures=1.0)
    with pytest.raises(AssertionError, match=r"equal trials and values.*'state': 'finished'.*'state': 'failed'"):
        check_engine(lambda: lossy)


def test_the_check_says_so_if_that_is_no_engine_at_all() -> None:
    with pytest.raises(
        AssertionError, match=r"an engine starts workers, and object has no start\(\) and no end\(\) and"
    ):
        check_engine(object)  # type: ignore[arg-type]


class OneTooFew(Plain):
    def start(self, n: int, door: Door) -> None:
        super().start(max(1, n - 1), door)


class OneName:
    """A door that gives all workers the same name."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.folder = door.folder
        self.invite = door.invite
        self.fail = door.fail

    def connect(self, name: str, sock: socket.socket) -> None:
        self.door.connect("worker", sock)


class AllAlike(Plain):
    def start(self, n: int, door: Door) -> None:
        super().start(n, OneName(door))


class FromElsewhere(Plain):
    def start(self, n: int, door: Door) -> None:
        thread = threading.Thread(target=super().start, args=(n, door))
        thread.start()
        thread.join()


class EndsOnlyOnce(Plain):
    def end(self, worker: str) -> None:
        self.workers.pop(worker).kill()


class OnlyTheFirst(Plain):
    def start(self, n: int, door: Door) -> None:
        if not self.workers:
            super().start(n, door)


class NobodyThere(Plain):
    """Hands over sockets at whose other end nobody is."""

    def start(self, n: int, door: Door) -> None:
        for nth in range(n):
            ours, its = socket.socketpair()
            its.close()
            door.connect(f"w{nth}", ours)


@pytest.mark.parametrize(
    ("engine", "found"),
    [
        (OneTooFew, r"start\(2\) connects 2 workers before it returns, unless nodes bring them, and here it was 1"),
        (AllAlike, "each worker has a name of its own, and 'worker' came twice"),
        (FromElsewhere, "connect is called in the thread that called start"),
        (EndsOnlyOnce, r"end\(\) of a worker that has ended already is fine, and here it raised KeyError"),
        (OnlyTheFirst, r"start\(1\) connects 1 workers before it returns, unless nodes bring them, and here it was 0"),
        (NobodyThere, "Ready was expected of worker 'w0', and it left"),
    ],
)
def test_the_check_finds_an_engine_that_breaks_a_promise(engine: Callable[[], Engine], found: str) -> None:
    with pytest.raises(AssertionError, match=found):
        check_engine(engine)


class HoldsOn(Plain):
    """Has its workers behind a shell, which holds their sockets as well, and still does when they are gone."""

    def start(self, n: int, door: Door) -> None:
        for _ in range(n):
            worker = WorkerProcess(behind=["sh", "-c", '"$@"; exec sleep 600', "sh"])
            self.workers[worker.name] = worker
            door.connect(worker.name, worker.line())


class HangsUpOnly(Plain):
    """Ends the connection to a worker, and nothing else: all of its processes stand still, and none has ended."""

    def end(self, worker: str) -> None:
        for pid in processes.marked(WORKER_MARK, worker):
            os.kill(pid, signal.SIGSTOP)
        with self.workers[worker].line() as line:
            line.shutdown(socket.SHUT_RDWR)


class EndsNobody(Plain):
    def end(self, worker: str) -> None:
        pass


class StopsTooLate(Plain):
    """Stops its workers when it is told to for the second time."""

    told = False

    def stop(self) -> None:
        if self.told:
            super().stop()
        self.told = True


class Silent(Plain):
    """Hands over sockets at whose other end nobody speaks."""

    def start(self, n: int, door: Door) -> None:
        for nth in range(n):
            ours, its = socket.socketpair()
            self.others.append(its)
            door.connect(f"w{nth}", ours)

    def stop(self) -> None:
        for its in self.others:
            its.close()

    def __init__(self) -> None:
        super().__init__()
        self.others: list[socket.socket] = []


@pytest.mark.skipif(sys.platform != "linux", reason="what leaves its session is found on Linux alone")
@pytest.mark.parametrize(
    ("engine", "found"),
    [
        (HoldsOn, "the socket of a worker that was killed ends, and this one's did not"),
        (HangsUpOnly, r"end\(\) ends all that a worker started"),
        (EndsNobody, r"a worker that end\(\) was called for ends, and its socket with it; this one did not"),
        (StopsTooLate, r"stop\(\) ends the attempts that run, and this one goes on"),
    ],
)
def test_the_check_waits_for_what_should_end_and_finds_what_does_not(engine: Callable[[], Engine], found: str) -> None:
    with pytest.raises(AssertionError, match=found):
        check_engine(engine, patience_s=8.0)


def test_a_worker_that_never_speaks_is_found() -> None:
    with pytest.raises(AssertionError, match=r"Ready was expected of worker 'w\w+', and it did not come within 0.1 s"):
        check_engine(Silent, patience_s=0.1)
