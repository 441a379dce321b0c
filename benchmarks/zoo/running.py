"""All families, several at a time, into a file of lines that an interrupted run goes on from.

Each family has a process of its own, forked from one that has imported everything: no pair and no family waits for an
interpreter. A line is written by one call, so that several processes can write into one file. The first line says what
was measured; the next of a family lists its pairs; then there is one for each pair.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

FAMILY_LIMIT_S: Final = 1_800
POLL_S: Final = 0.05
COMPARED: Final = ("twins", "depths")
"""What is compared beside the families: models with what a person wrote, and with what a configuration makes."""

Line = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What a process does.

    Attributes:
        name: A family's name, or one of ``COMPARED``.
        most: So many of its pairs, or of what is compared.
    """

    name: str
    most: int


class Lines:
    """What was found so far, in a file.

    Args:
        file: The file; it is made if it is not there.
        head: What is measured. A file with another one is of another measurement.

    Raises:
        SystemExit: It is.
    """

    def __init__(self, file: Path, head: Mapping[str, Any]) -> None:
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        whole, _, torn = file.read_text().rpartition("\n")
        if torn:  # what was being written when the run was interrupted
            file.write_text(f"{whole}\n" if whole else "")
        lines = self.read()
        if not lines:
            self.add({"head": dict(head)})
        elif lines[0].get("head") != dict(head):
            raise SystemExit(
                f"{file} is of {lines[0].get('head')}, and this would be of {dict(head)}. Name another with --into."
            )

    def add(self, line: Line) -> None:
        """Append a line."""
        with self._file.open("ab", buffering=0) as lines:
            lines.write((json.dumps(line, ensure_ascii=False) + "\n").encode())

    def read(self) -> list[Line]:
        """Return all lines."""
        return [json.loads(line) for line in self._file.read_text().splitlines()]

    def pairs(self, family: str) -> list[Line] | None:
        """Return the pairs of a family; None if they are not listed."""
        return next((line["pairs"] for line in self.read() if line.get("listed") == family), None)

    def found(self, name: str) -> list[Line]:
        """Return what became of a family's pairs, or of what is compared."""
        return [line for line in self.read() if name in (line.get("family"), line.get("compared"))]

    def left(self, task: Task) -> list[Line] | None:
        """Return a family's pairs that nothing is known of yet; None if they are not even listed."""
        listed = self.pairs(task.name)
        if listed is None:
            return None
        known = {line["path"] for line in self.found(task.name)}
        return [pair for pair in listed if pair["path"] not in known]

    def is_done(self, task: Task) -> bool:
        """Say whether nothing is left to be done."""
        return bool(self.found(task.name)) if task.name in COMPARED else self.left(task) == []


def run(tasks: Sequence[Task], lines: Lines, *, jobs: int, limit_s: float = FAMILY_LIMIT_S) -> None:
    """Do tasks, so many at a time, and say on the standard error stream how far it is."""
    _warm_up()
    forked = multiprocessing.get_context("fork")
    waiting = [task for task in tasks if not lines.is_done(task)]
    at_work: dict[Task, tuple[Any, float]] = {}
    began, done = time.monotonic(), len(tasks) - len(waiting)
    while waiting or at_work:
        while waiting and len(at_work) < jobs:
            process = forked.Process(target=_do, args=(waiting[0], lines), name=waiting[0].name)
            process.start()
            at_work[waiting.pop(0)] = process, time.monotonic()
        time.sleep(POLL_S)
        for task, (process, since) in list(at_work.items()):
            late = time.monotonic() - since > limit_s
            if process.is_alive() and not late:
                continue
            if late:
                process.kill()
            process.join()
            del at_work[task]
            if not lines.is_done(task):
                ended = f"took more than {limit_s:g} s" if late else f"ended with code {process.exitcode}"
                if _blame(task, lines, ended, all_of_it=late):
                    waiting.append(task)
                    continue
            done += 1
            print(f"{done} of {len(tasks)}, {time.monotonic() - began:.0f} s: {_told(task, lines)}", file=sys.stderr,
                  flush=True)  # fmt: skip


def _blame(task: Task, lines: Lines, ended: str, *, all_of_it: bool) -> bool:
    """Write down the pair with which a process ended; return whether others are left."""
    left = lines.left(task) if task.name not in COMPARED else None
    if left is None:  # the untouched model does not even run, or what is compared ended: nobody may overlook that
        raise SystemExit(f"{task.name} {ended}.")
    for pair in left if all_of_it else left[:1]:
        known = {name: pair[name] for name in ("path", "type", "part", "hard", "blind")}
        lines.add({"family": task.name, **known, "outcome": "died", "code": ended, "told": [ended], "rung": 0,
                   "instead": "", "seconds": 0.0, "judged_s": 0.0})  # fmt: skip
    return not all_of_it and len(left) > 1


def _told(task: Task, lines: Lines) -> str:
    counts = Counter(line["outcome"] for line in lines.found(task.name))
    return f"{task.name}: " + ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common())


def _warm_up() -> None:
    """Import what every process needs."""
    from benchmarks.zoo.counting import quiet

    quiet()
    import importlib
    import importlib.util

    import etude.removing
    from benchmarks.zoo import depths, twins  # noqa: F401 - forked processes have them then

    assert etude.removing
    if importlib.util.find_spec("transformers"):
        importlib.import_module("transformers.modeling_utils")


def _do(task: Task, lines: Lines) -> None:
    """Do one task, in a process of its own."""
    (_compare if task.name in COMPARED else _count)(task, lines)


def _count(task: Task, lines: Lines) -> None:
    """Write down what becomes of each pair of a family."""
    from benchmarks.zoo.counting import outcomes
    from benchmarks.zoo.families import FAMILIES
    from benchmarks.zoo.pairs import Pair, pairs
    from benchmarks.zoo.removers import etude_remove

    family = FAMILIES[task.name]
    if lines.pairs(task.name) is None:
        lines.add({"listed": task.name, "pairs": [asdict(pair) for pair in pairs(family, task.most)]})
    left = [Pair(**pair) for pair in lines.left(task) or ()]
    for one in outcomes(family, left, etude_remove):
        lines.add(asdict(one))


def _compare(task: Task, lines: Lines) -> None:
    """Write down how repaired models compare with twins, or with models that have a layer fewer by configuration."""
    from benchmarks.zoo.depths import DEPTHS, compare_depth
    from benchmarks.zoo.removers import etude_remove
    from benchmarks.zoo.twins import TWINS, compare

    found = (
        [compare(twin, etude_remove) for twin in TWINS[: task.most]]
        if task.name == "twins"
        else [compare_depth(depth, etude_remove) for depth in DEPTHS[: task.most]]
    )
    for one in found:  # all of them at the end: what is there is whole
        lines.add({"compared": task.name, **asdict(one)})
