"""Limits of a study, with real processes: it winds down in order, says why, and a larger limit goes on."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from support import run_script, running, start_script, wait_for, write_script

import etude
from etude.wire import spool


def sleeps(run, x: float):
    for _ in range(2000):
        run.report(score=x)
        time.sleep(0.01)
    return x


def at_once(x: float):
    return x


def fails(x: float):
    raise ValueError(f"no {x}")


SPACE = {"x": etude.uniform(0, 1)}
PLAIN = {"sampler": "random", "stopper": "none"}


def test_at_the_deadline_a_study_winds_down_and_the_search_is_returned(capfd: pytest.CaptureFixture[str]) -> None:
    experiment = etude.Experiment(sleeps, metric="score", mode="max")
    call = {"trials": 4, "workers": 2, "name": "late", **PLAIN}
    for deadline_s in (1, 2, 4, 8, 16, 32):  # a larger limit goes on; until a slow machine has come to a report, too
        call["deadline_s"] = deadline_s
        search = experiment.tune(SPACE, progress=True, **call)
        if search.trials and search.trials[0].reports:
            break
    assert not search.complete
    assert search.limit == "deadline_s"
    assert set(search.counts()) == {"queued"}
    assert search.trials[0].reports, "what was reported is kept"
    said = search.summary().splitlines()[-1]
    assert said == f"Not complete: {search.why}."
    assert said.startswith(f"Not complete: deadline_s={deadline_s} is reached: the study was at work for ")
    assert said.endswith(" s, over all its runs. A larger deadline_s goes on.")
    assert f"{search.why}." in capfd.readouterr().err
    attempts = [t.attempts for t in search.trials]
    again = experiment.tune(SPACE, **call)
    assert (again.limit, [t.attempts for t in again.trials]) == ("deadline_s", attempts)
    assert etude.open("late").summary() == again.summary()


def test_failures_end_a_study_and_a_larger_limit_goes_on() -> None:
    experiment = etude.Experiment(fails, metric="score", mode="max")
    call = {"trials": 6, "workers": 1, "name": "bad", **PLAIN}
    search = experiment.tune(SPACE, max_failures=1, **call)
    assert (search.limit, search.counts()["failed"]) == ("max_failures", 2)
    search = experiment.tune(SPACE, max_failures=6, **call)
    assert (search.complete, search.limit, search.counts()) == (True, "", {"failed": 6})


def test_money_ends_a_study() -> None:
    experiment = etude.Experiment(sleeps, metric="score", mode="max")
    call = {"trials": 4, "workers": 2, "name": "dear", **PLAIN}
    search = experiment.tune(SPACE, max_cost=0.6, price_per_hour=3600.0, **call)
    assert search.limit == "max_cost"
    assert " at 3600 an hour cost " in search.why


def test_limits_that_are_not_reached_change_nothing() -> None:
    experiment = etude.Experiment(at_once, metric="score", mode="max")
    limits = {"deadline_s": 600, "max_failures": 0, "max_cost": 100, "price_per_hour": 1}
    search = experiment.tune(SPACE, trials=5, workers=2, name="easy", **limits, **PLAIN)
    assert (search.complete, search.limit) == (True, "")
    assert {name: search.meta["call"][name] for name in limits} == limits


SCRIPT = """
    import json, os, sys, time
    import etude

    def train(x: float, run):
        run.report(score=x)
        open(os.environ["STARTS"], "a").write(f"{run.trial}\\n")
        time.sleep(0.3)
        return x

    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        limit = float(sys.argv[1])
        search = experiment.tune({"x": etude.uniform(0, 1)}, trials=8, workers=2, sampler="random", stopper="none",
                                 name="study", max_cost=limit, price_per_hour=3600)
        print(json.dumps([search.limit, search.counts()]))
"""


def test_what_a_killed_driver_spent_counts(tmp_path: Path) -> None:
    script, starts = write_script(tmp_path, SCRIPT), tmp_path / "starts"
    with running(start_script(script, "3600", STARTS=str(starts))) as driver:
        wait_for(lambda: starts.exists() and len(starts.read_text().split()) >= 5)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    limit, counts = json.loads(run_script(script, "0.3", STARTS=str(starts)).stdout)
    assert (limit, counts.get("running")) == ("max_cost", None)  # spent before: at least two trials on two workers
    assert len(starts.read_text().split()) <= 6, "nothing new was started"
    limit, counts = json.loads(run_script(script, "3600", STARTS=str(starts)).stdout)
    assert (limit, counts) == ("", {"finished": 8})


MEETS = """
    import os, time
    import etude

    def train(x: float, run):
        open(os.environ["STARTS"], "a").write(f"{run.trial} {os.getpid()}\\n")
        while not os.path.exists(os.environ["GO"] + str(run.trial)):
            time.sleep(0.01)
        if run.trial == 0:
            os._exit(1)
        return x

    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        experiment.tune({"x": etude.uniform(0, 1)}, trials=9, workers=3, sampler="random", stopper="none",
                        name="study", max_failures=0, retries=0)
"""


def test_what_ended_beside_the_failure_that_ends_a_study_is_kept(tmp_path: Path) -> None:
    script, starts, go = write_script(tmp_path, MEETS), tmp_path / "starts", tmp_path / "go"
    folder = tmp_path / "studies" / "study"
    with running(start_script(script, STARTS=str(starts), GO=str(go))) as driver:
        wait_for(lambda: starts.exists() and len(starts.read_text().splitlines()) == 3)
        driver.send_signal(signal.SIGSTOP)  # so that it hears of all three at once
        pids = dict(line.split() for line in starts.read_text().splitlines())
        Path(f"{go}0").touch()
        wait_for(lambda: not Path("/proc", pids["0"]).exists())
        Path(f"{go}1").touch()
        Path(f"{go}2").touch()
        wait_for(lambda: len(spool.read_all(folder / "spool")) == 2)
        driver.send_signal(signal.SIGCONT)
        driver.wait()
    search = etude.open(folder)
    assert (search.limit, [t.state for t in search.trials[:3]]) == ("max_failures", ["failed", "finished", "finished"])
    assert len(starts.read_text().splitlines()) == 3
