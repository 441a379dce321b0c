"""What the benchmarks share: cells in processes of their own, how they are sampled, and how they are shown.

A *cell* is one thing that is measured once: a process of its own, with an empty studies folder on disk.
Cells take turns (A B A B), so that what else the machine does meets them all alike. ``probe`` tells how
quiet it was: wall over CPU of a short spin, before and after each cell. 1 is a core to oneself; do not
trust rows far above it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
MEMORY_FILE_SYSTEMS: Final = ("tmpfs", "ramfs")
SAMPLE_EVERY_S: Final = 0.05
CELL_LIMIT_S: Final = 900.0
TICK: Final = os.sysconf("SC_CLK_TCK")

ROLES: Final = ("driver", "supervisors", "warm", "templates", "children")
"""Who is how many parents below the measured process, in Étude. Peers have their workers right below it."""

LR: Final = (1e-4, 1e-1)
DROP: Final = (0.0, 0.5)
UNITS: Final = (16, 256)
OPT: Final = ("sgd", "adam", "rms")
"""The four parameters of the benchmarks, for us and for the peers."""

Result = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One thing to measure.

    Attributes:
        name: What it is called in the table.
        args: What its process is told, as JSON.
        sampled: Whether memory and CPU of its processes are sampled, which costs it some speed.
        limit_s: Seconds after which it is ended, and the benchmark with it.
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    sampled: bool = False
    limit_s: float = CELL_LIMIT_S


@dataclass(frozen=True)
class Quantity:
    """A number that cells give: its key in their results, and its unit."""

    key: str
    unit: str
    digits: int = 3


@dataclass(frozen=True)
class Target:
    """What a row has to reach: at least or at most ``limit``.

    Attributes:
        what: What it is about.
        row: The row's name.
        limit: What its median has to reach.
        unit: Of the limit.
        at_least: Whether more is better.
        over: A row whose median it is divided by: then the limit is of the ratio.
        worst: Whether the worst run has to reach it, and not only the median.
    """

    what: str
    row: str
    limit: float
    unit: str
    at_least: bool = True
    over: str = ""
    worst: bool = False


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its cells, what is shown of them, and what has to be reached.

    Attributes:
        name: The module's name in this package.
        cells: Given ``small``, and ``numbers`` by name, what to measure.
        work: Runs a cell, in a process of its own: its arguments and an empty folder -> its results.
        quantities: What a row is made of for each cell that gives it.
        targets: What has to be reached.
        note: A line or more on how to read it.
        numbers: Options of its own, whole numbers of 1 or more: name -> the default, and what it says.
        totals: Given what the cells of one run gave, by name, further rows of that run: what only all of them say.
        texts: Further options of its own, texts: name -> what it says. They are empty if they are left out.
        tables: Given what the cells gave, further tables to print, each with its head.
    """

    name: str
    cells: Callable[..., Sequence[Cell]]
    work: Callable[[Mapping[str, Any], Path], Result]
    quantities: Sequence[Quantity]
    targets: Sequence[Target]
    note: str = ""
    numbers: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    totals: Callable[[Mapping[str, Result]], Mapping[str, Result]] | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    tables: Callable[[Mapping[str, Sequence[Result]]], Sequence[Sequence[Sequence[str]]]] | None = None

    def main(self) -> None:
        """Run as a command."""
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{self.name}")
        parser.add_argument("--runs", type=int, default=3, help="measure every cell so often (default: 3)")
        parser.add_argument("--small", action="store_true", help="tiny sizes: shows that it runs, and no more")
        parser.add_argument("--only", default="", help="only cells whose name contains this, or one of several: tpe,gp")
        parser.add_argument("--work-dir", type=Path, default=None, help="where to put studies: a folder on a disk")
        parser.add_argument(
            "--kept",
            type=Path,
            default=None,
            help="a file that keeps each measurement: a run that ended goes on with it",
        )
        for name, (default, told) in self.numbers.items():
            parser.add_argument(f"--{name}", type=int, default=default, help=f"{told} (default: {default})")
        for name, told in self.texts.items():
            parser.add_argument(f"--{name}", default="", help=told)
        parser.add_argument("--cell", default=None, help=argparse.SUPPRESS)
        options = parser.parse_args()
        if options.cell is not None:
            print(json.dumps(self.work(json.loads(options.cell), Path.cwd())))
            return
        own = {name: getattr(options, name) for name in self.numbers}
        for name, number in {"runs": options.runs, **own}.items():
            if number < 1:
                parser.error(f"--{name} has to be 1 or more")
        wanted = options.only.split(",")
        own |= {name: getattr(options, name) for name in self.texts}
        cells = [cell for cell in self.cells(options.small, **own) if any(part in cell.name for part in wanted)]
        if not cells:
            parser.error(f"no cell's name contains {options.only!r}")
        with scratch(options.work_dir) as place:
            warm_up()
            results = self.measure(cells, options.runs, place, Measured(options.kept))
        self._show(results, small=options.small)

    def measure(self, cells: Sequence[Cell], runs: int, place: Path, kept: Measured) -> dict[str, list[Result]]:
        """Return what each cell gave, run by run; what is kept of an earlier call is not measured again."""
        results: dict[str, list[Result]] = {cell.name: [] for cell in cells}
        for nth in range(runs):
            for cell in cells:
                print(f"run {nth + 1} of {runs}: {cell.name}", file=sys.stderr, flush=True)
                results[cell.name].append(kept.get(cell, nth, functools.partial(run_cell, self.name, cell, place)))
            if self.totals is not None:
                for name, found in self.totals({cell.name: results[cell.name][-1] for cell in cells}).items():
                    results.setdefault(name, []).append({"probe": results[cells[-1].name][-1]["probe"], **found})
        return results

    def _show(self, results: Mapping[str, list[Result]], *, small: bool) -> None:
        rows = [
            row(name, quantity, found)
            for name, found in results.items()
            for quantity in self.quantities
            if quantity.key in found[0]
        ]
        head = ("", "median", "min", "max", "runs", "unit", "probe")
        print_table([head, *(_shown(r) for r in rows)])
        print(
            f"\nprobe: wall/CPU of a short spin before and after each cell; 1.0 on a quiet core.\n{self.note}".rstrip()
        )
        for table in self.tables(results) if self.tables is not None else ():
            print()
            print_table(table)
        names = {r["name"] for r in rows}
        targets = [judge(t, rows) for t in self.targets if names.issuperset({t.row, t.over or t.row})]
        if targets:
            print()
            print_table([("target", "", "measured", ""), *(_judged(t) for t in targets)])
        print()
        print(
            json.dumps(
                {
                    "benchmark": self.name,
                    "commit": commit(),
                    "changed": changed(),
                    "small": small,
                    "machine": machine(),
                    "rows": rows,
                    "targets": targets,
                    "details": {
                        name: found[-1]["details"] for name, found in results.items() if "details" in found[-1]
                    },
                },
                ensure_ascii=False,
            )
        )


class Measured:
    """Measurements in a file, one line each, so that a benchmark of hours that ends early loses one cell at most.

    Args:
        file: Where they lie; None to keep none. Those of another commit, of changed files or with other arguments are
            left alone.
    """

    def __init__(self, file: Path | None) -> None:
        self._file, self._commit = file, None if changed() else commit()
        lines = file.read_text(encoding="utf-8").splitlines() if file is not None and file.is_file() else []
        self._found = {self._key(line["of"]): line["result"] for line in map(json.loads, lines)}

    def get(self, cell: Cell, nth: int, measure: Callable[[], Result]) -> Result:
        """Return what a cell gave in a run; what is not known is measured, and kept."""
        of = {"commit": self._commit, "cell": cell.name, "args": dict(cell.args), "nth": nth}
        found = self._found.get(self._key(of)) if self._commit is not None else None
        if found is None:
            found = measure()
            if self._file is not None:
                with self._file.open("a", encoding="utf-8") as file:
                    print(json.dumps({"of": of, "result": found}), file=file)
        return found

    @staticmethod
    def _key(of: Mapping[str, Any]) -> str:
        return json.dumps(of, sort_keys=True)


# --- cells ----------------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """Return what cells find in their environment.

    Where Python is told to keep no bytecode, every import would be a compilation; it is kept aside then.
    """
    found = {**os.environ, "ETUDE_PROGRESS": "0", "OMP_NUM_THREADS": "1"}
    found["PYTHONPATH"] = os.pathsep.join([p for p in (os.environ.get("PYTHONPATH"), str(ROOT)) if p])
    if found.pop("PYTHONDONTWRITEBYTECODE", ""):
        found.setdefault("PYTHONPYCACHEPREFIX", str(ROOT / "benchmarks" / "out" / "bytecode"))
    return found


def warm_up() -> None:
    """Import once what cells import, so that bytecode is there and files are in memory."""
    modules = [
        "etude.launching.launch",
        "etude.worker.supervisor",
        "etude.tune.sampling",
        "optuna",
        "numpy",
        "threadpoolctl",
    ]
    modules += ["torch"] if has_torch() else []
    code = f"import sys; sys.argv = ['', '0']; import {', '.join(modules)}"
    subprocess.run([sys.executable, "-c", code], env=environment(), cwd=ROOT, check=False, capture_output=True)


def run_cell(benchmark: str, cell: Cell, place: Path) -> Result:
    """Measure a cell once, in a process and a folder of its own."""
    work = Path(tempfile.mkdtemp(prefix="cell-", dir=place))
    before = probe()
    process = subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.{benchmark}", "--cell", json.dumps(dict(cell.args))],
        env={**environment(), "ETUDE_STUDIES": str(work / "studies")},
        cwd=work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    sampler = Sampler(process.pid) if cell.sampled else None
    try:
        out, _ = process.communicate(timeout=cell.limit_s)
    finally:
        if process.poll() is None:  # not reaped, so its pid is still its own
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        sampled = sampler.end() if sampler is not None else {}
    if process.returncode != 0:
        raise SystemExit(f"{cell.name} ended with code {process.returncode}; its error stands above.")
    result: Result = sampled or json.loads(out.splitlines()[-1])  # sampling costs speed: no times are taken
    result["probe"] = (before + probe()) / 2
    shutil.rmtree(work, ignore_errors=True)
    return result


def probe(cpu_s: float = 0.1) -> float:
    """Return wall over CPU of a short spin: how much of a core is ours."""
    wall, cpu = time.perf_counter(), time.process_time()
    while time.process_time() - cpu < cpu_s:
        pass
    return (time.perf_counter() - wall) / (time.process_time() - cpu)


class Sampler:
    """Samples memory and CPU of a process and all its descendants, from a thread.

    Memory is the sum of proportional set sizes at its peak. CPU is by role, with that of children that were
    reaped; what a process uses after its last sample is missed, so it is a lower bound.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._over = threading.Event()
        self._peak_kb = 0
        self._most = 0
        self._depth: dict[int, int] = {}  # when first seen: an orphan rises
        self._cpu: dict[int, tuple[float, float]] = {}  # own, reaped
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def end(self) -> Result:
        """Stop, and return what was found."""
        self._over.set()
        self._thread.join()
        cpu = dict.fromkeys(ROLES, 0.0)
        for pid, (own, reaped) in self._cpu.items():
            role = ROLES[min(self._depth[pid], len(ROLES) - 1)]
            if role == "children":
                continue  # their template has reaped nearly all of them
            cpu[role] += own
            if role == "templates":
                cpu["children"] += reaped
        return {"pss_mb": self._peak_kb / 1024, "details": {"cpu_s": cpu, "processes": self._most}}

    def _work(self) -> None:
        while not self._over.wait(SAMPLE_EVERY_S):
            tree = list(descendants(self._root))
            kb = 0
            for pid, depth in tree:
                kb += pss_kb(pid)
                with contextlib.suppress(OSError, IndexError):
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    self._depth.setdefault(pid, depth)
                    self._cpu[pid] = (
                        (int(fields[11]) + int(fields[12])) / TICK,
                        (int(fields[13]) + int(fields[14])) / TICK,
                    )
            self._peak_kb = max(self._peak_kb, kb)
            self._most = max(self._most, len(tree))


def descendants(pid: int, depth: int = 0) -> Iterator[tuple[int, int]]:
    """Yield a process and all its descendants, each with how many parents lie between."""
    yield pid, depth
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split():
                    yield from descendants(int(child), depth + 1)


def pss_kb(pid: int) -> int:
    """Return a process's proportional set size; 0 if it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


# --- places ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def scratch(parent: Path | None) -> Iterator[Path]:
    """Give a folder on a disk, not in memory: what is durable has to cost what it costs."""
    candidates = [parent] if parent is not None else [Path(tempfile.gettempdir()), Path("/var/tmp"), ROOT]
    place = next((p for p in candidates if file_system(p) not in MEMORY_FILE_SYSTEMS), None)
    if place is None:
        raise SystemExit(f"{candidates[0]} lies in memory. Name a folder on a disk with --work-dir.")
    folder = Path(tempfile.mkdtemp(prefix="etude-bench-", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def file_system(folder: Path) -> str:
    """Return the kind of file system that a folder lies on; empty where the kernel does not tell."""
    where = str(folder.resolve())
    found = (0, "")
    with contextlib.suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            mount, kind = line.split()[1:3]
            if where == mount or where.startswith(mount.rstrip("/") + "/"):
                found = max(found, (len(mount), kind))
    return found[1]


def space() -> dict[str, Any]:
    """Return the four parameters as Étude takes them."""
    import etude

    return {
        "lr": etude.loguniform(*LR),
        "drop": etude.uniform(*DROP),
        "units": etude.integers(*UNITS),
        "opt": etude.choice(OPT),
    }


def has_torch() -> bool:
    """Say whether torch is installed, without importing it."""
    return importlib.util.find_spec("torch") is not None


# --- rows -----------------------------------------------------------------------------------------


def row(cell: str, quantity: Quantity, found: Sequence[Result]) -> Result:
    """Return what is said of one number of a cell."""
    values = [float(f[quantity.key]) for f in found]
    return {
        "name": f"{cell}: {quantity.key}",
        "unit": quantity.unit,
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "runs": len(values),
        "probe": round(statistics.median(f["probe"] for f in found), 2),
        "digits": quantity.digits,
    }


def judge(target: Target, rows: Sequence[Result]) -> Result:
    """Say whether a target is met by its row."""
    of = {r["name"]: r for r in rows}
    which = ("min" if target.at_least else "max") if target.worst else "median"
    measured = of[target.row][which] / (of[target.over]["median"] if target.over else 1.0)
    met = measured >= target.limit if target.at_least else measured <= target.limit
    told = f"{'>=' if target.at_least else '<='} {target.limit:g} {target.unit}".rstrip()
    return {"what": target.what, "target": told, "measured": measured, "met": met}


def _shown(row: Result) -> tuple[str, ...]:
    numbers = (f"{row[key]:,.{row['digits']}f}" for key in ("median", "min", "max"))
    return (row["name"], *numbers, str(row["runs"]), row["unit"], f"{row['probe']:.2f}")


def _judged(target: Result) -> tuple[str, ...]:
    return (target["what"], target["target"], f"{target['measured']:,.4g}", "met" if target["met"] else "MISSED")


def print_table(lines: Sequence[Sequence[str]]) -> None:
    """Print lines of cells, the first column to the left and all others to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for nth, line in enumerate(lines):
        told = [
            line[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)),
        ]
        print("  ".join(told).rstrip())
        if nth == 0:
            print("-" * (sum(widths) + 2 * (len(widths) - 1)))


def commit() -> str | None:
    """Return the commit that the measured code lies on; None outside git."""
    return _git("rev-parse", "--short", "HEAD")


def changed() -> bool:
    """Say whether the measured code differs from its commit."""
    return bool(_git("status", "--porcelain", "--", "src"))


def _git(*words: str) -> str | None:
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    return None


def machine() -> dict[str, Any]:
    """Return what the numbers depend on."""
    cpu = platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": cores,
        "cpu": cpu,
        "memory_gb": round(memory, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }
