"""Running out of memory is told from other ends, and somebody else's is not taken for ours."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from etude.core.events import How
from etude.core.system import Watched
from etude.system.applied import tree
from etude.system.applied.tree import kills_of_attempt
from etude.wire.channel import Channel
from etude.wire.messages import Serve
from etude.worker import attempt, processes
from etude.worker.ends import outcome_of
from etude.worker.supervisor import Supervisor

V1 = "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
V2 = "memory.events", "low 0\nhigh 0\nmax 7\noom 3\noom_kill {}\noom_group_kill 0\n"


def machine(place: Path, groups: str, files: dict[str, tuple[str, str]], everywhere: int = 99) -> list[str]:
    """Lay out what a process sees of its groups; ``files`` has what stands in which, with one kill more for each."""
    (place / "proc" / "self").mkdir(parents=True)
    (place / "proc" / "self" / "cgroup").write_text(groups)
    (place / "proc" / "vmstat").write_text(f"nr_free_pages 12\noom_kill {everywhere}\n")
    for number, (folder, (name, text)) in enumerate(files.items(), start=1):
        (place / "fs" / folder).mkdir(parents=True, exist_ok=True)
        (place / "fs" / folder / name).write_text(text.format(number))
    return processes._counts_of_oom_kills(str(place / "proc"), str(place / "fs"))


@pytest.mark.parametrize(
    ("groups", "files", "count"),
    [
        ("0::/jobs/7\n", {"jobs/7": V2, "": V2}, 1),
        ("0::/jobs/7\n", {"": V2}, 1),  # a container that sees its own group as the root
        ("0::/\n", {}, 99),  # no group: the count of the machine is all there is
        ("4:cpu,memory:/jobs/7\n0::/\n", {"memory/jobs/7": V1, "memory": V1, "": V2}, 1),
        ("4:memory:/jobs/7\n", {"memory": V1}, 1),
    ],
)
def test_the_kills_of_our_own_group_are_counted(
    groups: str, files: dict[str, tuple[str, str]], count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = machine(tmp_path, groups, files)
    monkeypatch.setattr(processes, "_counts_of_oom_kills", lambda: found)
    assert processes.oom_kills() == count


def test_a_kill_is_the_kernels_if_our_group_counts_one_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine(tmp_path, "0::/jobs/7\n", {"jobs/7": V2})
    monkeypatch.setattr(processes, "_counts_of_oom_kills", lambda: found)
    ours, its = socket.socketpair()
    with closing(ours), closing(its):
        supervisor = Supervisor(Channel(its))
        with closing(supervisor._selector):
            (tmp_path / "proc" / "vmstat").write_text("oom_kill 100\n")  # somebody else's
            assert not supervisor._killed_for_memory(12)
            (tmp_path / "fs" / "jobs" / "7" / "memory.events").write_text(V2[1].format(2))
            assert supervisor._killed_for_memory(12)
            assert not supervisor._killed_for_memory(12), "one kill is one end"


def killed_by(number: int) -> int:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    child.send_signal(number)
    _, status = os.waitpid(child.pid, 0)
    child.returncode = -number
    return status


def test_a_kill_by_the_kernel_for_memory_is_called_so_and_another_signal_is_not() -> None:
    ended = outcome_of(killed_by(signal.SIGKILL), out_of_memory=True)
    assert (ended.how, ended.reason) == (How.OUT_OF_MEMORY, "killed by the kernel: out of memory")
    ended = outcome_of(killed_by(signal.SIGKILL))
    assert (ended.how, ended.reason) == (How.KILLED, "killed by SIGKILL")
    ended = outcome_of(killed_by(signal.SIGTERM), out_of_memory=True)
    assert (ended.how, ended.reason) == (How.KILLED, "killed by SIGTERM")


def test_torchs_own_error_is_out_of_memory() -> None:
    torch = pytest.importorskip("torch")
    assert attempt.is_memory_error(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    assert not attempt.is_memory_error(RuntimeError("CUDA error: device-side assert triggered"))


@pytest.mark.parametrize(
    ("groups", "ours", "version"),
    [
        ("4:memory:/job\n", "memory/job/etude-12", V1),
        ("0::/job\n", "job/etude-12", V2),
        ("0::/job/etude-rest\n", "job/etude-12", V2),  # where we were moved out of its way
    ],
)
def test_a_kill_in_the_group_that_an_attempt_has_of_its_own_is_counted(
    groups: str, ours: str, version: tuple[str, str], tmp_path: Path
) -> None:
    name, text = version
    (tmp_path / "fs" / "cpu").mkdir(parents=True)
    place = tmp_path / "fs" / groups.strip().replace("4:memory:", "memory").replace("0::/", "")
    place.mkdir(parents=True)
    if version is V2:
        (tmp_path / "fs" / "cgroup.controllers").write_text("cpu memory\n")
    machine(tmp_path, groups, {})
    at = {"proc": tmp_path / "proc", "groups": tmp_path / "fs"}
    assert kills_of_attempt(12, **at) == 0  # it has none
    (tmp_path / "fs" / ours).mkdir(parents=True)
    (tmp_path / "fs" / ours / name).write_text(text.format(0))
    assert kills_of_attempt(12, **at) == 0
    (tmp_path / "fs" / ours / name).write_text(text.format(1))
    assert kills_of_attempt(12, **at) == 1
    assert kills_of_attempt(13, **at) == 0


def test_the_group_of_an_attempt_is_asked_where_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "oom_kills", lambda: 0)
    monkeypatch.setattr(tree, "kills_of_attempt", lambda pid: pid == 12)
    ours, its = socket.socketpair()
    with closing(ours), closing(its):
        supervisor = Supervisor(Channel(its))
        with closing(supervisor._selector):
            serve = Serve("", b"", (), (), "", ("value",), "value", "", "")
            supervisor._serve = serve
            assert not supervisor._killed_for_memory(12)
            for watched in (Watched(knobs=("memory_limit",)), Watched(setting={"memory_limit": 1.0})):
                supervisor._serve = msgspec.structs.replace(serve, system=watched)
                assert supervisor._killed_for_memory(12)
                assert not supervisor._killed_for_memory(13)
