"""Time limits hold: against grandchildren in sessions of their own, full pipes, deaf and stopped processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tiers import Left, permitted

from etude.mage.sandbox import supervising
from etude.mage.sandbox.protocol import Job, Limits, Ran, Sandbox, Tier
from etude.mage.sandbox.supervising import below, is_alive

LIMIT_S = 1.0
OVERRUN_S = 1.0
PATIENCE_S = 30.0

OUTLIVING = {
    "a grandchild in a session of its own": "setsid sleep 600 & sleep 600",
    "one that is orphaned, and holds the pipe": "(setsid sh -c 'sleep 600 & exec sleep 600' &) ; exec sleep 600",
    "one that forked twice": "( ( sleep 600 & ) & ) ; sleep 600",
    "one that is deaf to polite signals": "trap '' TERM INT HUP; while :; do sleep 600; done",
    "one that stops itself": "kill -STOP $$",
    "one that prints without end": "yes",
    "one that prints errors without end": "yes >&2",
    "one that has closed its outputs": "exec >&- 2>&-; sleep 600",
    "one that stops its parents": "kill -STOP $PPID; sleep 600",
}


@pytest.fixture(params=list(Tier))
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Give a sandbox of each tier that this kernel permits."""
    return permitted(request.param)


def run(sandbox: Sandbox, script: str, folder: Path, wall_s: float) -> Ran:
    return sandbox.run(
        Job(["sh", "-c", script], folder, environment={"PATH": "/usr/bin:/bin"}, limits=Limits(wall_s=wall_s))
    )


@pytest.mark.parametrize("script", OUTLIVING.values(), ids=OUTLIVING)
def test_a_time_limit_holds(sandbox: Sandbox, script: str, tmp_path: Path, left_below: Left) -> None:
    ran = run(sandbox, script, tmp_path, LIMIT_S)
    assert (ran.code, ran.signal, ran.timed_out, ran.stopped) == (None, signal.SIGKILL, True, "time limit")
    assert LIMIT_S <= ran.wall_s <= LIMIT_S + OVERRUN_S
    assert not left_below()


@pytest.mark.parametrize("script", ["setsid sleep 600 & exit 3", "( ( sleep 600 & ) & ) ; exit 3"])
def test_what_outlives_its_program_ends_with_it(
    sandbox: Sandbox, script: str, tmp_path: Path, left_below: Left
) -> None:
    ran = run(sandbox, script, tmp_path, 60.0)
    assert (ran.code, ran.timed_out) == (3, False)
    assert not left_below()


def test_a_gigabyte_that_is_printed_is_read_and_not_kept(sandbox: Sandbox, tmp_path: Path) -> None:
    code = "import os\npart = b'x' * (1 << 20)\nfor _ in range(1 << 10): os.write(1, part)"
    ran = sandbox.run(
        Job(
            [sys.executable, "-c", code],
            tmp_path,
            reads=[Path(sys.prefix), Path(sys.base_prefix)],
            limits=Limits(wall_s=120.0, output_bytes=1 << 20),
        )
    )
    assert ran.code == 0
    assert ran.out.count(b"x") == 1 << 20
    assert b"[... 1,072,693,248 bytes are left out ...]" in ran.out


def all_end(started: Sequence[int]) -> None:
    """See processes end that would be there for ten minutes."""
    until_s = time.monotonic() + PATIENCE_S
    while left := [one for one in started if is_alive(one)]:
        assert time.monotonic() < until_s, f"these are still there: {left}"
        os.sched_yield()


def test_whoever_is_killed_while_a_command_runs_takes_it_along(tmp_path: Path, sandbox: Sandbox) -> None:
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:  # a process of its own, which starts a sandbox and is killed
        os.close(ours)
        os.dup2(theirs, 9)
        os.set_inheritable(9, False)
        run(sandbox, f"echo $$ > {tmp_path}/begun; setsid sleep 600 & sleep 600", tmp_path, 600.0)
        os._exit(0)
    os.close(theirs)
    while not (tmp_path / "begun").exists() or not (tmp_path / "begun").read_text():
        os.sched_yield()
    started = below(pid)
    assert len(started) >= 3
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert os.read(ours, 1) == b""
    os.close(ours)
    all_end(started)


def test_a_supervisor_that_nobody_listens_to_ends_what_it_started(tmp_path: Path) -> None:
    spec = {
        "parent": os.getpid(),
        "is_first": False,
        "folder": str(tmp_path),
        "rlimits": {},
        "command": ["sh", "-c", "setsid sleep 600 & echo $$ > begun; sleep 600"],
        "environment": {"PATH": os.environ["PATH"]},
    }
    (spec_out, spec_in), (nobody, status) = os.pipe(), os.pipe()
    os.write(spec_in, json.dumps(spec).encode())
    os.close(spec_in)
    os.close(nobody)
    fds = (spec_out, status, os.dup(2))
    with subprocess.Popen([sys.executable, "-I", "-S", supervising.__file__, *map(str, fds)], pass_fds=fds) as process:
        for fd in fds:
            os.close(fd)
        while len(started := below(process.pid)) < 3:
            assert process.poll() is None
            os.sched_yield()
        process.terminate()
    all_end(started)
