"""How long it takes to look at a large project, and what of it would be sent."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

ENTRY: Final = "python train.py --seed {seed}"
MODEL: Final = "anthropic:claude-sonnet-5-5"
"""Its window is known. Nothing is sent to anybody."""
MARKED: Final = 5
LINES: Final = 120
"""Of each module, about."""

NET: Final = """\
from torch import nn


class Net{nth}(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.first = nn.Linear(32, width)
        self.middle = nn.Linear(width, width)  # ABLATABLE_COMPONENT
        self.last = nn.Linear(width, 10)

    def forward(self, x):
        return self.last(self.middle(self.first(x).relu()).relu())
"""
FUNCTION: Final = """\


def step_{nth}(values, scale={scale}):
    \"\"\"Return the values, scaled and shifted.\"\"\"
    total = 0.0  # of what was scaled
    for value in values:
        total += scale * value + {nth}
    return total
"""


def cells(small: bool, files: int) -> Sequence[Cell]:
    return [Cell("étude, a project", {"files": 20 if small else files})]


def work(args: Mapping[str, Any], place: Path) -> Result:
    project = place / "project"
    write(project, args["files"])
    scan_s, scanned = timed("scan", project)
    preview_s, shown = timed("preview", project, "--entry", ENTRY, "--backend", MODEL)
    return {
        "files": len(list(project.rglob("*"))),
        "scan_s": scan_s,
        "preview_s": preview_s,
        "both_s": scan_s + preview_s,
        "sent": len(shown["sent"]),
        "sent_kb": sum((project / path).stat().st_size for path in shown["sent"]) / 1024,
        "left_out": len(shown["left_out"]),
        "of_window": max(map(share_of_window, shown["requests"].values())),
        "details": {"marks": len(scanned["annotations"])} if "annotations" in scanned else {},
    }


def share_of_window(question: Mapping[str, Any]) -> float:
    """Return how much of what a model takes a question and its answer may be."""
    from etude.mage.asking.budget import most_input
    from etude.mage.backends.capabilities import capability_of
    from etude.mage.backends.protocol import Message, Request

    service, _, model = MODEL.partition(":")
    messages = tuple(Message(role=one["role"], text=one["text"]) for one in question["messages"])
    request = Request(system=question["system"], messages=messages, most_tokens=question["most_tokens"])
    return (most_input(request) + request.most_tokens) / capability_of(service, model).context


def write(project: Path, files: int) -> None:
    """Write a project: modules that import one another, five with a marked layer, texts, and a program."""
    draw = random.Random(0)
    package = project / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    modules = files - 12
    for nth in range(modules):
        others = sorted(draw.sample(range(nth), min(nth, 2)))
        text = "".join(f"from package import module_{other}\n" for other in others)
        text += NET.format(nth=nth) if nth < MARKED else ""
        text += "".join(FUNCTION.format(nth=one, scale=draw.random()) for one in range(LINES // 8))
        (package / f"module_{nth}.py").write_text(text)
    for nth in range(10):
        (project / f"notes_{nth}.md").write_text("# Notes\n\n" + "A line of a document.\n" * 200)
    (project / "train.py").write_text("from package.module_0 import Net0\n\nprint(Net0())\n")


def timed(command: str, project: Path, *options: str) -> tuple[float, Mapping[str, Any]]:
    """Return how long a command takes, from its start to its end, and what it printed."""
    began_s = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", "from etude.cli import main; main()", "mage", command, str(project), *options, "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    found: Mapping[str, Any] = json.loads(done.stdout)
    return time.perf_counter() - began_s, found


BENCHMARK = Benchmark(
    name="mage_scan",
    cells=cells,
    work=work,
    quantities=(
        Quantity("files", "", 0),
        Quantity("scan_s", "s", 2),
        Quantity("preview_s", "s", 2),
        Quantity("both_s", "s", 2),
        Quantity("sent", "files", 0),
        Quantity("sent_kb", "kB", 1),
        Quantity("left_out", "files", 0),
        Quantity("of_window", "of the window", 3),
    ),
    targets=(
        Target("scan and preview", "étude, a project: both_s", 5, "s", at_least=False, worst=True),
        Target("what is sent fits", "étude, a project: of_window", 1, "of the window", at_least=False, worst=True),
    ),
    note=(
        "Two commands, `etude mage scan` and `etude mage preview`, from start to end: a project of modules that\n"
        "import one another, five of them with a marked layer, and ten documents. Nothing is sent to anybody.\n"
        "of_window: the longest question and its answer, as many tokens as they may be, in the model's window."
    ),
    numbers={"files": (150, "files of the project")},
)

if __name__ == "__main__":
    BENCHMARK.main()
