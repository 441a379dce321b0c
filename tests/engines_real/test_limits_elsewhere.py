"""Limits of a study whose workers are elsewhere: it ends there, keeps what is finished, and goes on on this machine."""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from apart import from_others, started
from support import table, write_script

import etude

if sys.platform != "linux":
    pytest.skip("what is left of a script is told by what /proc says", allow_module_level=True)

TRIALS, FREE = 8, 4
"""So many trials there are, and so many of them end by themselves. The others wait until they are told what to do.

Both workers are there before the first trial, so that each has ended a free one: what fails on a worker on which
nothing has gone well is tried on another one first.
"""

SCRIPT = f"""
    import json, os, sys, time
    from pathlib import Path
    import etude

    def train(lr: float, run):
        with open(Path(PROJECT, "starts"), "a") as starts:
            starts.write(f"{{run.trial}}\\n")
        for epoch in run.epochs(3):
            run.report(score=lr * (epoch + 1))
        while run.trial >= {FREE} and not Path(PROJECT, "go").exists():
            if Path(PROJECT, f"fail-{{run.trial}}").exists():
                break
            time.sleep(0.01)
        if Path(PROJECT, f"fail-{{run.trial}}").exists():
            raise ValueError("it was told to")
        return 3 * lr

    PROJECT = os.getcwd()
    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        search = experiment.tune(
            {{"lr": etude.uniform(0, 1)}}, trials={TRIALS}, workers=(2, 2), sampler="random", stopper="none", seed=7,
            engine=sys.argv[1], name="study", **json.loads(sys.argv[2]),
        )
        print(json.dumps([search.limit, search.complete, search.counts()]))
"""

on_each_engine = pytest.mark.parametrize(("framework", "engine"), [("ray", "ray"), ("pyspark", "spark")])


class Project:
    """A script with its study, and what its trials are told."""

    def __init__(self, folder: Path) -> None:
        self.script = write_script(folder, SCRIPT)
        self.folder = folder
        self.study = folder / "studies" / "study"

    def tell(self, what: str) -> None:
        (self.folder / what).touch()

    def starts(self) -> Counter[int]:
        """Return how often each trial was begun."""
        with contextlib.suppress(FileNotFoundError):
            return Counter(map(int, (self.folder / "starts").read_text().split()))
        return Counter()

    def run(self, engine: str, *, fail: str = "", **limits: float) -> list[Any]:
        """Run the script to its end; return what came of the study: the limit, whether it is complete, the counts.

        Args:
            engine: Where its workers are.
            fail: What to tell as soon as only those are at work that wait to be told something.
            limits: Those of the study.
        """
        with from_others() as others, started(self.script, engine, json.dumps(limits), environment=others) as driver:
            if fail:
                driver.wait_for(
                    lambda: driver.finished() == set(range(FREE)) and self.starts().keys() == set(range(FREE + 2)),
                    "the free trials are finished, and the next two at work",
                )
                self.tell(fail)
            return json.loads(driver.end())

    def check_that_it_goes_on_here(self, *, failed: int) -> None:
        """Have it go on without a limit, with workers of this machine, and see whether all is as if it had stayed."""
        kept, begun = table(self.study)[:FREE], self.starts()
        assert [row[2] for row in kept] == ["finished"] * FREE
        self.tell("go")
        counts = {"finished": TRIALS - failed, **({"failed": failed} if failed else {})}
        assert self.run("local") == ["", True, counts]
        whole = table(self.study)
        assert whole[:FREE] == kept
        assert [self.starts()[trial] for trial in range(FREE)] == [begun[trial] for trial in range(FREE)]
        self.study.rename(self.folder / "went-on")
        assert self.run("local") == ["", True, counts]
        assert table(self.study) == whole


@on_each_engine
def test_failures_end_a_study_elsewhere_and_it_goes_on_here(framework: str, engine: str, tmp_path: Path) -> None:
    pytest.importorskip(framework)
    project = Project(tmp_path)
    limit, complete, counts = project.run(engine, fail=f"fail-{FREE}", max_failures=0)
    assert (limit, complete) == ("max_failures", False)
    assert (counts["finished"], counts["failed"]) == (FREE, 1)
    states = [t.state for t in etude.open(project.study).trials[: FREE + 2]]
    assert states == ["finished"] * FREE + ["failed", "queued"]
    project.check_that_it_goes_on_here(failed=1)
    assert project.starts()[FREE + 1] == 3, "it was at work when the study ended, and then once in each of the others"


@on_each_engine
def test_a_deadline_ends_a_study_elsewhere_and_it_goes_on_here(framework: str, engine: str, tmp_path: Path) -> None:
    pytest.importorskip(framework)
    project = Project(tmp_path)
    for deadline_s in (15, 30, 60, 120):  # a larger one goes on, until a slow machine has come to the trials that wait
        limit, complete, counts = project.run(engine, deadline_s=deadline_s)
        assert (limit, complete) == ("deadline_s", False)
        assert set(counts) <= {"finished", "queued"}
        if counts.get("finished") == FREE and {FREE, FREE + 1} <= project.starts().keys():
            break
    states = [t.state for t in etude.open(project.study).trials[: FREE + 2]]
    assert states == ["finished"] * FREE + ["queued"] * 2
    project.check_that_it_goes_on_here(failed=0)
