"""How long it takes until all ranks of a trial are gone, once one of them has raised."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

TIMES = 5
"""Trials of a cell, one after the other; the worst of them counts."""

FORMS = {
    "2 ranks": {"ranks": 2, "raises": 1, "elsewhere": False},
    "4 ranks": {"ranks": 4, "raises": 3, "elsewhere": False},
    "4 ranks, the first raises": {"ranks": 4, "raises": 0, "elsewhere": False},
    "2 ranks, one elsewhere": {"ranks": 2, "raises": 1, "elsewhere": True},
    "4 ranks, three elsewhere": {"ranks": 4, "raises": 3, "elsewhere": True},
}


def cells(small: bool) -> Sequence[Cell]:
    forms = {name: form for name, form in FORMS.items() if not small or form["ranks"] == 2}
    return [Cell(f"étude, {name}", {**form, "times": 1 if small else TIMES}) for name, form in forms.items()]


def work(args: Mapping[str, Any], place: Path) -> Result:
    found = []
    for nth in range(args["times"]):
        inside = place / f"time-{nth}"
        inside.mkdir()
        found.append(failed(inside, args["ranks"], args["raises"], elsewhere=args["elsewhere"]))
    return {
        "gone_s": max(one["gone_s"] for one in found),
        "told_s": max(one["told_s"] for one in found),
        "first": min(one["first"] for one in found),
        "details": {"each": found},
    }


def failed(place: Path, ranks: int, raises: int, *, elsewhere: bool) -> Result:
    """Train until a rank raises, and return how long after that the last rank was gone, and the trial settled."""
    from benchmarks.fails_training import EXPERIMENT, GO, RAISED, note, wait_for

    at = {"place": str(place), "raises": raises, "elsewhere": elsewhere}
    final = EXPERIMENT.fit(at=at, ranks=ranks, retries=0, name=place.name, wait=False)
    paths = [place / f"rank-{rank}" for rank in range(ranks)]
    for path in paths:
        wait_for(path)
    living = {os.pidfd_open(int(path.read_text())) for path in paths}
    note(place / GO, 1)
    ended_at = 0.0
    while living:
        gone, _, _ = select.select(list(living), [], [])
        ended_at = time.time()
        for one in gone:
            living.remove(one)
            os.close(one)
    final.wait()
    [trial] = final.trials
    raised_at = float((place / RAISED).read_text())
    assert trial.state == "failed"
    assert trial.ended_at is not None
    told = trial.reason == f"rank {raises}: ValueError: this rank gives up"
    first = told and trial.traceback.startswith(f"Rank {raises}:\nTraceback") and trial.attempts == 1
    return {"gone_s": ended_at - raised_at, "told_s": trial.ended_at - raised_at, "first": float(first)}


BENCHMARK = Benchmark(
    name="parallel_fails",
    cells=cells,
    work=work,
    quantities=(Quantity("gone_s", "s", 2), Quantity("told_s", "s", 2), Quantity("first", "", 0)),
    targets=tuple(
        target
        for name in FORMS
        for target in (
            Target(f"until all are gone: {name}", f"étude, {name}: gone_s", 5, "s", at_least=False, worst=True),
            Target(f"that rank's traceback first: {name}", f"étude, {name}: first", 1, "", worst=True),
        )
    ),
    note=(
        "gone: from just before a rank raises until the last process of the trial has ended, as the kernel tells;\n"
        "told: until the driver has it in the journal that the trial failed. Of five trials the worst. The other\n"
        "ranks wait for gradients of the one that raises; or they are elsewhere, in something that has nothing to do\n"
        "with the ranks and takes ten minutes: then nobody breaks a connection to them that they would look at, and\n"
        "they are ended. first: 1 if all trials failed at once with the error and the traceback of the rank that\n"
        "raised, and not with those of ranks that lost it."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
