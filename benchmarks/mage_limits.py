"""How much longer than its time limit a command lasts whose grandchild has a session of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

LIMIT_S: Final = 2.0
PATIENCE_S: Final = 20
"""How long the grandchild lives: without it, waiting for the end of its pipe would have no end."""
ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin"}
TIERS: Final = ("bwrap", "namespaces", "limits", "outer")
RUN: Final = "subprocess.run"
GROUP: Final = "killpg, then communicate"


def cells(small: bool) -> Sequence[Cell]:
    limit_s, patience_s = (0.3, 2) if small else (LIMIT_S, PATIENCE_S)
    common = {"limit_s": limit_s, "patience_s": patience_s}
    ours = [Cell(f"étude, {tier}", {"how": tier, **common}) for tier in TIERS]
    return [*ours, *(Cell(name, {"how": name, **common}) for name in (RUN, GROUP))]


def work(args: Mapping[str, Any], place: Path) -> Result:
    limit_s, how = float(args["limit_s"]), args["how"]
    sleep = f"sleep {args['patience_s']}.{os.getpid():07}"  # by which the grandchild is found again
    command = ["sh", "-c", f"setsid {sleep} & exec {sleep}"]
    with tempfile.TemporaryDirectory(dir=place) as folder:
        if how in TIERS:
            found = sandboxed(how, command, limit_s, Path(folder))
        else:
            began_s = time.perf_counter()
            (run if how == RUN else kill_group)(command, limit_s)
            found = {"overrun_s": time.perf_counter() - began_s - limit_s}
    left = processes(sleep.split()[1])
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return {**found, "left": len(left)}


def sandboxed(tier: str, command: Sequence[str], limit_s: float, folder: Path) -> Result:
    from etude.core.errors import SandboxMissing
    from etude.mage.sandbox.finding import find_sandbox
    from etude.mage.sandbox.protocol import Job, Limits

    try:
        sandbox = find_sandbox(tier)
    except SandboxMissing as error:
        raise SystemExit(f"{tier}: {error}") from None
    began_s = time.perf_counter()
    assert sandbox.run(Job(["true"], folder, environment=ENVIRONMENT)).code == 0
    start_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    ran = sandbox.run(Job(command, folder, environment=ENVIRONMENT, limits=Limits(wall_s=limit_s)))
    assert ran.timed_out
    return {"overrun_s": time.perf_counter() - began_s - limit_s, "start_ms": 1000 * start_s}


def run(command: Sequence[str], limit_s: float) -> None:
    """Use what everybody uses: on POSIX it comes back at once, and leaves the grandchild running."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, timeout=limit_s, check=False, env=ENVIRONMENT)


def kill_group(command: Sequence[str], limit_s: float) -> None:
    """Kill the group, and read what it has printed: the grandchild is in another one, and holds the pipe."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT, start_new_session=True)
    try:
        process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def processes(argument: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cmdline").read_bytes().split(b"\0")[1:2] == [argument.encode()]:
                    found.append(int(entry.name))
    return found


BENCHMARK = Benchmark(
    name="mage_limits",
    cells=cells,
    work=work,
    quantities=(Quantity("overrun_s", "s", 3), Quantity("left", "processes", 0), Quantity("start_ms", "ms", 0)),
    targets=(
        *(
            Target(f"a time limit in {tier}", f"étude, {tier}: overrun_s", 1.0, "s", at_least=False, worst=True)
            for tier in TIERS
        ),
        *(
            Target(f"left behind by {tier}", f"étude, {tier}: left", 0, "processes", at_least=False, worst=True)
            for tier in TIERS
        ),
    ),
    note=(
        "A shell that has left a grandchild in a session of its own, which holds the pipe for 20 s (--small: 2 s).\n"
        "overrun: wall time beyond the limit of 2 s. left: processes that are still there after it. start: a command\n"
        "that does nothing, from call to answer."
    ),
)

if __name__ == "__main__":
    if sys.platform != "linux":
        raise SystemExit("Sandboxes are compared on Linux.")
    BENCHMARK.main()
