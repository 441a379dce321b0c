"""How long a newcomer waits, from the clone of this repository to the first finished study: ``make demo``."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import ROOT, Benchmark, Cell, Quantity, Result, Target

LIMIT_S: Final = 180.0


def cells(small: bool) -> Sequence[Cell]:
    return [Cell("étude", {"small": small}, limit_s=1800.0)]


def work(args: Mapping[str, Any], place: Path) -> Result:
    import etude

    began = time.perf_counter()
    there = place / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(there)], check=True)
    cloned_s = time.perf_counter() - began
    here = ROOT / ".venv"
    if args["small"]:  # in the environment that is there
        (there / ".venv").symlink_to(here)
    as_it_is = ["-o", ".venv/.setup-done"] if args["small"] else []
    done = subprocess.run(["make", "demo", *as_it_is], cwd=there, capture_output=True, text=True, check=False)
    took_s = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"make demo failed: {done.stderr[-2000:]}")
    (study,) = (place / "studies").iterdir()  # where all studies of a cell are
    found = etude.open(study)
    assert found.complete, "the study has not ended"
    return {"finished_s": took_s, "cloned_s": cloned_s, "trials": sum(found.counts().values())}


BENCHMARK: Final = Benchmark(
    "first_study",
    cells,
    work,
    [Quantity("finished_s", "s", 1), Quantity("cloned_s", "s", 1), Quantity("trials", "trials", 0)],
    [
        Target(
            "from the clone to the first finished study", "étude: finished_s", LIMIT_S, "s", at_least=False, worst=True
        )
    ],
    note="git clone of this repository from the same disk, then make demo in it, which makes a virtual environment and "
    "installs what the demo needs: wheels come from where this machine has them, so a slow line adds what it takes to "
    "fetch torch. finished_s is all of it.",
)

if __name__ == "__main__":
    BENCHMARK.main()
