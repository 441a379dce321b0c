"""A driver that is killed loses nothing; neither does one that is interrupted."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path

import pytest
from support import left_behind_by, run_script, running, start_script, wait_for, write_script

import etude
from etude.core.events import Assigned, Settled
from etude.core.lifecycle import Turn
from etude.launching.progress import told_to_leave
from etude.store.journal import Journal

SCRIPT = """
    import json, os, sys, time
    import etude

    def train(lr: float, width: int, *, run, seed):
        for epoch in run.epochs(4):
            time.sleep(0.01)
            run.report(score=-((lr - 0.3) ** 2) * (epoch + 1) + run.random("noise").gauss() / 1000)
        with open(os.environ["STARTS"], "a") as file:
            file.write(f"{run.trial}\\n")
        while os.environ.get("HANGS") == str(run.trial):
            time.sleep(1)
        return {"score": -((lr - 0.3) ** 2) + width / 1000, "epochs": run.epoch + 1}

    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        search = experiment.tune(
            {"lr": etude.loguniform(1e-3, 1.0), "width": etude.integers(1, 512, log=True)},
            trials=24, workers=int(sys.argv[1]), sampler="random", stopper="none", name="study",
        )
        print(json.dumps(search.rows(), sort_keys=True))
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("undisturbed")
    done = run_script(write_script(folder, SCRIPT), "2", STARTS=str(folder / "starts"))
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == 24
    return done.stdout


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_driver_killed_three_times_ends_with_the_table_of_an_undisturbed_one(
    tmp_path: Path, workers: int, undisturbed: str
) -> None:
    script = write_script(tmp_path, SCRIPT)
    starts = tmp_path / "starts"
    rng = random.Random(workers)
    for kill_after in sorted(rng.sample(range(2, 20), 3)):
        with running(start_script(script, str(workers), STARTS=str(starts))) as driver:
            wait_for(lambda n=kill_after: starts.exists() and len(starts.read_text().split()) >= n)
            driver.send_signal(signal.SIGKILL)
            driver.wait()
            wait_for(lambda d=driver: not left_behind_by(d))
    done = run_script(script, str(workers), STARTS=str(starts))
    assert done.returncode == 0, done.stderr
    assert done.stdout == undisturbed

    journal = Journal.read(tmp_path / "studies" / "study")
    finished: set[int] = set()
    for fact in journal.facts():
        assert not (isinstance(fact, Assigned) and fact.trial in finished), "what has finished is not run again"
        if isinstance(fact, Settled) and fact.turn is Turn.FINISHED:
            assert fact.trial not in finished, "nor is its result doubled"
            finished.add(fact.trial)
    journal.close()
    assert finished == set(range(24))


def test_ctrl_c_winds_down_and_the_same_call_goes_on(tmp_path: Path, undisturbed: str) -> None:
    script = write_script(tmp_path, SCRIPT)
    starts = tmp_path / "starts"
    with running(start_script(script, "2", STARTS=str(starts))) as driver:
        wait_for(lambda: starts.exists() and len(starts.read_text().split()) >= 5)
        driver.send_signal(signal.SIGINT)
        _, err = driver.communicate(timeout=30)
        assert "KeyboardInterrupt" in err
        assert not left_behind_by(driver)
    search = etude.open(tmp_path / "studies" / "study")
    assert not search.complete
    assert "running" not in search.counts()
    assert "interrupted" in search.summary()
    done = run_script(script, "2", STARTS=str(starts))
    assert done.stdout == undisturbed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_who_is_asked_to_leave_winds_down_and_the_same_call_goes_on(
    tmp_path: Path, undisturbed: str, number: signal.Signals
) -> None:
    script = write_script(tmp_path, SCRIPT)
    starts = tmp_path / "starts"
    with running(start_script(script, "2", STARTS=str(starts))) as driver:
        wait_for(lambda: starts.exists() and len(starts.read_text().split()) >= 5)
        driver.send_signal(number)
        out, _ = driver.communicate(timeout=30)
        assert (driver.returncode, out) == (128 + number, "")
        assert not left_behind_by(driver)
    assert "Not complete: interrupted." in etude.open(tmp_path / "studies" / "study").summary()
    assert run_script(script, "2", STARTS=str(starts)).stdout == undisturbed


def test_a_script_that_has_its_own_way_with_a_signal_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        own = signal.getsignal(signal.SIGTERM)
        with told_to_leave():
            assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_finished_study_is_not_run_again(tmp_path: Path) -> None:
    script = write_script(tmp_path, SCRIPT)
    starts = tmp_path / "starts"
    first = run_script(script, "2", STARTS=str(starts))
    again = run_script(script, "1", STARTS=str(starts))
    assert first.stdout == again.stdout
    assert len(starts.read_text().split()) == 24


def test_a_result_that_was_spooled_but_not_committed_is_not_run_again(tmp_path: Path) -> None:
    from etude.core.events import How, Outcome
    from etude.wire.messages import Ended, pack_outcome
    from etude.wire.spool import append, open_spool

    script = write_script(tmp_path, SCRIPT)
    starts = tmp_path / "starts"
    with running(start_script(script, "1", STARTS=str(starts), HANGS="2")) as driver:
        wait_for(lambda: starts.exists() and len(starts.read_text().split()) >= 3)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    folder = tmp_path / "studies" / "study"
    (live,) = [t for t in etude.open(folder).trials if t.state == "running"]
    spool, _ = open_spool(str(folder / "spool"))
    append(spool, pack_outcome(Ended(live.number, live.attempts, Outcome(How.FINISHED, value=123.0))))
    os.close(spool)
    run_script(script, "1", STARTS=str(starts))
    assert etude.open(folder).trials[live.number].value == 123.0
    assert starts.read_text().split().count(str(live.number)) == 1
    assert not list((folder / "spool").iterdir())
