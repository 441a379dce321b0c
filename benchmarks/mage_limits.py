"""How much longer than its time limit a command lasts whose grandchild has a session of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

LIMIT_S: Final = 2.0
PATIENCE_S: Final = 20.0
"""How long the grandchild lives: without it, waiting for subprocess.run would have no end."""
ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin"}
TIERS: Final = ("bwrap", "namespaces", "limits", "outer")


def cells(small: bool) -> Sequence[Cell]:
    limit_s, patience_s = (0.5, 2.0) if small else (LIMIT_S, PATIENCE_S)
    common = {"limit_s": limit_s, "patience_s": patience_s}
    ours = [Cell(f"étude, {tier}", {"tier": tier, **common}) for tier in TIERS]
    return [*ours, Cell("subprocess.run", {"tier": "", **common})]


def work(args: Mapping[str, Any], place: Path) -> Result:
    limit_s = float(args["limit_s"])
    script = f"setsid sleep {args['patience_s']} & exec sleep {args['patience_s']}"
    command = ["sh", "-c", script]
    if not args["tier"]:
        began_s = time.perf_counter()
        try:
            subprocess.run(command, capture_output=True, timeout=limit_s, check=False, env=ENVIRONMENT)
        except subprocess.TimeoutExpired:
            pass
        return {"overrun_s": time.perf_counter() - began_s - limit_s}
    from etude.core.errors import SandboxMissing
    from etude.mage.sandbox.finding import find_sandbox
    from etude.mage.sandbox.protocol import Job, Limits

    try:
        sandbox = find_sandbox(args["tier"])
    except SandboxMissing as error:
        print(f"{args['tier']} is left out: {error}", file=sys.stderr)
        return {}
    with tempfile.TemporaryDirectory(dir=place) as folder:
        began_s = time.perf_counter()
        ran = sandbox.run(Job(["true"], Path(folder), environment=ENVIRONMENT))
        start_ms = 1000 * (time.perf_counter() - began_s)
        assert ran.code == 0
        began_s = time.perf_counter()
        ran = sandbox.run(Job(command, Path(folder), environment=ENVIRONMENT, limits=Limits(wall_s=limit_s)))
        assert ran.timed_out
        return {"overrun_s": time.perf_counter() - began_s - limit_s, "start_ms": start_ms}


BENCHMARK = Benchmark(
    name="mage_limits",
    cells=cells,
    work=work,
    quantities=(Quantity("overrun_s", "s", 3), Quantity("start_ms", "ms", 0)),
    targets=tuple(
        Target(f"a time limit in {tier}", f"étude, {tier}: overrun_s", 1.0, "s", at_least=False, worst=True)
        for tier in TIERS
    ),
    note=(
        "overrun: wall time beyond the limit of a shell that has left a grandchild in a session of its own, which holds\n"
        "the pipe for 20 s (with --small 2 s): subprocess.run waits for it. start: a command that does nothing, from\n"
        "call to answer. A tier that the kernel does not permit has no row, and that is said."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
