"""Bytes over the network, measured: two ranks on machines of their own fetch what they draw from a third one."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import ROOT, Benchmark, Cell, Quantity, Result, Target
from benchmarks.moved import networks

FORMS: Final = {
    "vanilla": "",
    "random, interval 30": "Random",
    "stripes, interval 30": "Stripes",
    "sticky, interval 30": "StickyStripes",
}
"""What is compared, and the partition of each; none where all examples are shuffled over all ranks in every epoch."""

USUAL: Final = {"n": 5_000, "batch": 500, "warmup": 5, "interval": 30, "epochs": 65}
SMALL: Final = {"n": 400, "batch": 100, "warmup": 2, "interval": 3, "epochs": 8}
FRAMES: Final = (1_500, 9_000)
"""Lengths of real frames: the usual one of Ethernet, and that of its jumbo frames."""
LIMIT_S: Final = 1200.0
JOIN_S: Final = 60.0
NODES: Final = ("one", "two")
WORKER: Final = "from etude.cli import main; main()"
DRIVER: Final = "import sys; from benchmarks.moved.study import study; study(sys.argv[1])"


def cells(small: bool) -> Sequence[Cell]:
    if lacks := networks.why_not():
        raise SystemExit(f"No network namespaces can be made here: {lacks}.")
    sizes = {**(SMALL if small else USUAL), "measure": "variance"}
    forms = ["sticky, interval 30"] if small else FORMS
    trained = [Cell(f"étude {form}", {**sizes, "partition": FORMS[form]}, limit_s=LIMIT_S) for form in forms]
    return [*trained, Cell("étude frames", {"n": sizes["n"], "frames": FRAMES})]


def work(args: Mapping[str, Any], place: Path) -> Result:
    from benchmarks.moved.images import RECORD_B, cifar

    records, which = cifar(args["n"])
    records.tofile(place / "records")
    if "frames" in args:
        return framed(args, place, RECORD_B)
    with networks.network(NODES) as (hub, nodes), contextlib.ExitStack() as started:
        port = served(started, hub, place / "records", RECORD_B)
        told = trained(started, args, hub, nodes, port, place)
    if told["state"] != "finished":
        raise SystemExit(f"the training came to no end: {told}")
    return {**counted(args, told, [read(place / name) for name in NODES], RECORD_B), "details": {"records": which}}


def framed(args: Mapping[str, Any], place: Path, record_b: int) -> Result:
    """Return what links carry beyond the records where they carry real frames."""
    from benchmarks.moved.frames import beyond

    with networks.network(NODES[:1]) as (hub, [node]), contextlib.ExitStack() as started:
        port = served(started, hub, place / "records", record_b)
        return {
            f"frames_{frame_b}_percent": beyond(hub, node, port, frame_b=frame_b, n=args["n"], cache=place / "cache")
            for frame_b in args["frames"]
        }


def served(started: contextlib.ExitStack, hub: networks.Place, path: Path, record_b: int) -> int:
    """Start the server of records in the middle, and return its port."""
    words = hub.command(sys.executable, "-m", "benchmarks.moved.blocks", str(path), str(record_b))
    server = started.enter_context(process(words, stdout=subprocess.PIPE, text=True))
    return int(server.stdout.readline())


def trained(
    started: contextlib.ExitStack,
    args: Mapping[str, Any],
    hub: networks.Place,
    nodes: Sequence[networks.Place],
    port: int,
    place: Path,
) -> Result:
    """Train with the driver in the middle, and a worker on each node; return what the driver told."""
    from benchmarks.moved.study import CACHE, SERVER

    credentials = place / "credentials.json"
    asked = json.dumps({**args, "bind": networks.control_of(), "credentials": str(credentials)})
    driver = started.enter_context(
        process(hub.command(sys.executable, "-c", DRIVER, asked), stdout=subprocess.PIPE, text=True)
    )
    patience = time.monotonic() + JOIN_S
    while not credentials.exists() and driver.poll() is None and time.monotonic() < patience:
        time.sleep(0.05)
    for number, node in enumerate(nodes):
        own = {SERVER: f"{networks.server_of(number)}:{port}", CACHE: str(place / node.name / "cache")}
        (place / node.name).mkdir()
        words = node.command(sys.executable, "-c", WORKER, "worker", "--credentials", str(credentials))
        started.enter_context(process(words, env={**os.environ, **own}, stdout=sys.stderr))
    told, _ = driver.communicate()
    if driver.returncode != 0:
        raise SystemExit(f"the driver ended with code {driver.returncode}; its error stands above.")
    found: Result = json.loads(told.splitlines()[-1])
    return found


@contextlib.contextmanager
def process(words: Sequence[str], **settings: Any) -> Any:
    """Give a process while the block runs."""
    with subprocess.Popen(words, cwd=ROOT, **settings) as started:
        try:
            yield started
        finally:
            started.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                started.wait(20)
            started.kill()


def read(folder: Path) -> list[tuple[int, int]]:
    """Return what a node noted before the first epoch, and after each: what it fetched, and what its link carried."""
    from benchmarks.moved.study import NOTES

    return [(fetched, link_b) for fetched, link_b in map(json.loads, (folder / NOTES).read_text().splitlines())]


def counted(
    args: Mapping[str, Any], told: Mapping[str, Any], notes: Sequence[Sequence[tuple[int, int]]], record_b: int
) -> Result:
    """Return the numbers of a training, given what nodes noted."""
    epochs, last = args["epochs"], args["warmup"] + args["interval"]  # where the last interval begins
    if any(len(node) != epochs + 1 for node in notes):
        raise SystemExit(f"nodes noted {[len(node) for node in notes]} times, and not {epochs + 1}.")
    fetched, link_b = (
        [sum(node[at + 1][what] - node[at][what] for node in notes) for at in range(epochs)] for what in (0, 1)
    )
    found: Result = {
        "link_mb": sum(link_b) / 1e6,
        "counted_mb": sum(fetched) * record_b / 1e6,
        "off_percent": 100 * abs(sum(link_b) / (sum(fetched) * record_b) - 1),
        "kb_per_epoch": sum(link_b[last:]) / len(link_b[last:]) / 1e3,
    }
    moved = told["metrics"].get("examples_moved")
    if moved:
        found["moved_percent"] = 100 * moved / args["n"] / (told["metrics"]["repartitions"] - 1)
        found["told_off_percent"] = 100 * abs(sum(link_b[last:]) / (moved * record_b) - 1)  # Étude counts from there on
    return found


BENCHMARK = Benchmark(
    name="importance_io",
    cells=cells,
    work=work,
    quantities=(
        Quantity("link_mb", "MB", 2),
        Quantity("counted_mb", "MB", 2),
        Quantity("off_percent", "%", 2),
        Quantity("kb_per_epoch", "kB", 1),
        Quantity("moved_percent", "%", 2),
        Quantity("told_off_percent", "%", 2),
        *(Quantity(f"frames_{frame_b}_percent", "%", 2) for frame_b in FRAMES),
    ),
    targets=(
        *(
            Target(f"the link beside the count: {form}", f"étude {form}: off_percent", 2, "%", False, worst=True)
            for form in FORMS
        ),
        *(
            Target(
                f"the link beside Étude's count: {form}", f"étude {form}: told_off_percent", 2, "%", False, worst=True
            )
            for form, partition in FORMS.items()
            if partition
        ),
        *(
            Target(
                f"the same with real frames of {frame_b:,} bytes",
                f"étude frames: frames_{frame_b}_percent",
                2,
                "%",
                at_least=False,
                worst=True,
            )
            for frame_b in FRAMES
        ),
        Target(
            "an epoch's bytes over those of vanilla",
            "étude sticky, interval 30: kb_per_epoch",
            0.02,
            "",
            at_least=False,
            over="étude vanilla: kb_per_epoch",
        ),
    ),
    note=(
        "Network namespaces stand for machines: one with the driver and a server of records, and two nodes that\n"
        "join with `etude worker`, a rank on each. A node has one link for records and another for all else;\n"
        "link_mb is what the kernel counted on those for records, in both directions, headers and requests\n"
        "included. 5,000 images of CIFAR-10 (3,073 bytes each), 65 epochs, warm-up 5, interval 30. The training\n"
        "is `experiment.fit(ranks=2, partition=...)` with a data set that keeps what it draws in a file of its\n"
        "node, and drops at the end of an epoch what was not drawn in it; it knows nothing of partitions. Vanilla\n"
        "keeps as much. counted_mb: what the data set fetched. kb_per_epoch: over the links in the last 30\n"
        "epochs, with the assignment in the first of them. moved: of all examples, in an assignment, as Étude\n"
        "says; told_off compares that with the links. With 2 ranks half of the examples move in a random\n"
        "assignment, and a quarter in a sticky one. The kernel cuts nothing into frames where nobody needs it to,\n"
        "so that headers are few here. frames: what is carried beyond the records, headers, requests and\n"
        "acknowledgements, where each frame is a real one of so many bytes; this comes to all forms alike."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
