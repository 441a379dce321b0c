"""What becomes of a study when its surroundings break: real processes, real disks. ``docs/failures.md`` links here.

Each has its twin in virtual time, in ``tests/core`` or ``tests/store``; the page names both.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support import left_behind_by, processes, run_script, running, small_disk, start_script, wait_for, write_script

import etude
from etude.core.events import Joined, Left, Quarantined, Settled, StoodStill
from etude.core.lifecycle import Turn
from etude.engines import local
from etude.launching import launch
from etude.store.journal import FILE, MARK, Journal
from etude.testing import faults, tears, unruly
from etude.wire import server, spool
from etude.wire.messages import Serve

SILENCE_S = 2.5
"""A silence limit for tests: as short as beats and ticks of a second allow."""

SCRIPT = """
    import functools, json, os, sys, time
    import etude
    from etude.launching import launch
    from etude.studies import study
    from etude.wire.messages import Serve

    if "SILENCE_S" in os.environ:
        launch.Serve = functools.partial(Serve, silence_s=float(os.environ["SILENCE_S"]))
        study.STILL_S = float(os.environ["SILENCE_S"])

    def train(x: int, *, run):
        with open(os.environ["STARTS"], "a") as file:
            file.write(f"{run.trial}\\n")
        while os.environ.get("HANGS") == str(run.trial) and not os.path.exists(os.environ["STARTS"] + ".go"):
            time.sleep(0.01)
        return float(x)

    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        search = experiment.tune(
            {"x": etude.integers(0, 10**6)}, trials=8, workers=2, sampler="random", stopper="none", name="study"
        )
        print(json.dumps(search.notes))
        print(search.counts(), sum(t.attempts for t in search.trials))
"""


def tune(train: Any, trials: int = 6, workers: int = 2, **kwargs: Any) -> Any:
    experiment = etude.Experiment(train, metric="score", mode="max")
    space = {"x": etude.integers(0, 10**6)}
    return experiment.tune(space, trials=trials, workers=workers, sampler="random", stopper="none", **kwargs)


def facts_of(folder: Path) -> list[Any]:
    journal = Journal.read(folder)
    try:
        return list(journal.facts())
    finally:
        journal.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "Serve", functools.partial(Serve, silence_s=SILENCE_S))


# --- workers ----------------------------------------------------------------------------------------


def test_a_worker_that_falls_silent_is_ended_and_its_trial_run_again(tmp_path: Path, impatient: None) -> None:
    def train(run, x: int):
        flag = tmp_path / f"held-{run.trial}"
        if run.trial == 1 and not flag.exists():
            flag.write_text(os.environ[local.WORKER_MARK])
            time.sleep(1000)
        return 1.0

    search = tune(train, wait=False)
    wait_for(lambda: (tmp_path / "held-1").exists() and (tmp_path / "held-1").read_text())
    worker = (tmp_path / "held-1").read_text()
    (supervisor,) = [p for p in processes.marked(local.WORKER_MARK, worker) if processes.parent(p) == os.getpid()]
    os.kill(supervisor, signal.SIGSTOP)
    search.wait()
    assert search.counts() == {"finished": 6}
    assert search.trials[1].attempts == 2
    assert Left in [type(fact) for fact in facts_of(search.folder)]
    (left,) = [fact.reason for fact in facts_of(search.folder) if isinstance(fact, Left)]
    assert left == f"silent for {SILENCE_S:g} s"
    assert not processes.marked(local.WORKER_MARK, worker)


@pytest.mark.parametrize("victim", ["template", "warm"])
def test_a_process_that_is_stopped_from_outside_holds_its_worker_for_no_longer_than_a_silence(
    victim: str, tmp_path: Path, impatient: None
) -> None:
    """Without a time limit: nobody but the worker itself would notice."""

    def train(run, x: int):
        flag = tmp_path / "stopped"
        if run.trial == 1 and not flag.exists():
            flag.touch()
            template = os.getppid()
            os.kill(processes.parent(template) if victim == "warm" else template, signal.SIGSTOP)
            if victim == "warm":  # of which nobody notices anything, until a template is needed
                os.kill(template, signal.SIGKILL)
        return 1.0

    search = tune(train, workers=1)
    assert search.counts() == {"finished": 6}


def test_what_a_dead_worker_had_completed_is_taken_from_its_spool(tmp_path: Path) -> None:
    """The supervisor stands still, so nobody hears of the end; then it is killed."""

    def train(run, x: int):
        with (tmp_path / f"ran-{run.trial}").open("a") as file:
            file.write("once\n")
        if run.trial == 1:
            (tmp_path / "supervisor").write_text(os.environ[local.WORKER_MARK])
            while not (tmp_path / "go").exists():
                pass
            for epoch in range(5):
                run.report(score=float(epoch))
        return float(x)

    search = tune(train, wait=False)
    wait_for(lambda: (tmp_path / "supervisor").exists() and (tmp_path / "supervisor").read_text())
    worker = (tmp_path / "supervisor").read_text()
    (supervisor,) = [p for p in processes.marked(local.WORKER_MARK, worker) if processes.parent(p) == os.getpid()]
    os.kill(supervisor, signal.SIGSTOP)
    (tmp_path / "go").touch()
    wait_for(lambda: spool.find_in(search.folder / "spool", 1, 1))
    os.kill(supervisor, signal.SIGKILL)
    search.wait()
    assert search.counts() == {"finished": 6}
    assert (tmp_path / "ran-1").read_text() == "once\n"
    assert search.trials[1].attempts == 1
    assert list(search.trials[1].curve) == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_messages_that_come_late_and_twice_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message comes twice, and every third one is held back, with all that come behind it."""

    def train(run, x: int):
        with (tmp_path / f"ran-{run.trial}").open("a") as file:
            file.write("once\n")
        for epoch in range(5):
            run.report(score=float(epoch))
        return float(x)

    said = tmp_path / "messages"
    monkeypatch.setenv(faults.MESSAGES, str(said))
    monkeypatch.setattr(unruly, "DOUBLED", 1.0)
    monkeypatch.setattr(unruly, "HELD_BACK", 1 / 3)
    monkeypatch.setattr(unruly, "LATE_S", 0.05)
    monkeypatch.setattr(server, "connect", server.connect)  # so that it is put back
    unruly.install("0")
    search = tune(train, trials=12, retries=0)
    assert {"delayed", "doubled"} == set(said.read_text().split())
    assert search.counts() == {"finished": 12}
    for trial in search.trials:
        assert (tmp_path / f"ran-{trial.number}").read_text() == "once\n"
        assert (trial.attempts, list(trial.curve)) == (1, [0.0, 1.0, 2.0, 3.0, 4.0])
    ends = [fact.trial for fact in facts_of(search.folder) if isinstance(fact, Settled)]
    assert sorted(ends) == list(range(12))


def test_an_attempt_for_a_worker_that_is_gone_already_costs_nobody_a_retry(tmp_path: Path) -> None:
    """Its worker is dead, and its outcome is found in the spool: for a moment the driver takes it for a free one."""

    def train(run, x: int):
        with (tmp_path / f"by-{run.trial}").open("a") as file:
            file.write(os.environ[local.WORKER_MARK] + "\n")
        while run.trial < 2 and not (tmp_path / f"go-{run.trial}").exists():
            pass
        return float(x)

    search = tune(train, trials=4, retries=0, wait=False)
    wait_for(lambda: (tmp_path / "by-0").exists() and (tmp_path / "by-0").read_text().endswith("\n"))
    worker = (tmp_path / "by-0").read_text().strip()
    (supervisor,) = [p for p in processes.marked(local.WORKER_MARK, worker) if processes.parent(p) == os.getpid()]
    os.kill(supervisor, signal.SIGSTOP)
    (tmp_path / "go-0").touch()
    wait_for(lambda: spool.find_in(search.folder / "spool", 0, 1))
    os.kill(supervisor, signal.SIGKILL)
    wait_for(lambda: any(isinstance(fact, Left) for fact in facts_of(search.folder)))
    (tmp_path / "go-1").touch()
    search.wait()
    assert search.counts() == {"finished": 4}
    facts = facts_of(search.folder)
    (lost,) = [fact for fact in facts if isinstance(fact, Settled) and fact.turn is Turn.LOST]
    assert (lost.charged, lost.reason) == (False, f"worker {worker} was gone before the attempt reached it")
    assert search.trials[lost.trial].attempts == 2
    assert worker not in (tmp_path / f"by-{lost.trial}").read_text()


def test_workers_that_die_before_they_are_ready_end_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    local.close_warm_workers()
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(etude.StudyError) as ended:
        tune(lambda x: 1.0, name="study")
    assert str(ended.value) == (
        f"3 workers in a row ended before they were ready. See {etude.open('study').folder / 'workers.log'}; "
        "`etude doctor` checks this machine."
    )


def test_a_bad_worker_is_put_in_quarantine_and_a_fresh_one_takes_its_place(tmp_path: Path) -> None:
    def train(run, x: int):
        bad = tmp_path / "bad"
        if not bad.exists():
            bad.write_text(os.environ[local.WORKER_MARK])
        if bad.read_text() == os.environ[local.WORKER_MARK]:
            os._exit(1)
        with (tmp_path / "who").open("a") as file:
            file.write(os.environ[local.WORKER_MARK] + "\n")
        time.sleep(0.05)
        return float(x)

    search = tune(train, trials=3000, retries=100, wait=False)  # it ends when both have done something
    wait_for(lambda: (tmp_path / "who").exists() and len(set((tmp_path / "who").read_text().splitlines())) > 1)
    search.stop()
    search.wait()
    assert not search.counts().keys() & {"failed", "invalid"}
    bad = (tmp_path / "bad").read_text()
    facts = facts_of(search.folder)
    (quarantined,) = [fact for fact in facts if isinstance(fact, Quarantined)]
    assert quarantined.worker == bad
    assert "which finished on other workers" in quarantined.reason
    (fresh,) = [fact.worker for fact in facts if isinstance(fact, Joined) and fact.replaces == bad]
    assert fresh in (tmp_path / "who").read_text().split()
    assert search._handle.study.notes == [
        f"Worker {bad} is in quarantine: {quarantined.reason}. Another process takes its place."
    ]


# --- what a trial does to its surroundings ------------------------------------------------------------


def test_a_trial_that_fills_its_log_keeps_head_and_tail() -> None:
    def train(run, x: int):
        print("the beginning")
        for _ in range(4000):
            print("x" * 1023)
        print("the end")
        return 1.0

    (trial,) = tune(train, trials=1, workers=1).trials
    text = trial.log.read_text()
    assert text.startswith("the beginning\n")
    assert text.rstrip().endswith("the end")
    assert 2**20 < len(text) < 2.1 * 2**20


# --- the driver ---------------------------------------------------------------------------------------


def test_a_second_driver_is_refused_and_the_first_one_none_the_worse(tmp_path: Path) -> None:
    script = write_script(tmp_path, SCRIPT)
    starts = tmp_path / "starts"
    with running(start_script(script, STARTS=str(starts), HANGS="3")) as first:
        wait_for(lambda: starts.exists() and "3" in starts.read_text().split())
        second = run_script(script, STARTS=str(starts))
        assert second.returncode == 1
        assert f"Another driver works on this study (process {first.pid} on " in second.stderr
        Path(f"{starts}.go").touch()
        out, err = first.communicate(timeout=60)
        assert out.splitlines() == ["[]", "{'finished': 8} 8"], err
    assert sorted(starts.read_text().split()) == [str(n) for n in range(8)]


def test_a_laptop_that_sleeps_costs_no_attempt(tmp_path: Path) -> None:
    """Every process of the study stands still for longer than the silence limit; ``make chaos`` takes a minute."""
    full = os.environ.get("ETUDE_CHAOS") == "full"
    script = write_script(tmp_path, SCRIPT)
    starts = tmp_path / "starts"
    limit = {} if full else {"SILENCE_S": str(SILENCE_S)}
    with running(start_script(script, STARTS=str(starts), HANGS="3", **limit)) as driver:
        wait_for(lambda: starts.exists() and "3" in starts.read_text().split())
        everybody: list[int] = []
        wait_for(lambda: stop_all(driver, everybody))
        try:
            wakes_at = time.monotonic() + (60 if full else SILENCE_S + 0.5)
            wait_for(lambda: time.monotonic() > wakes_at, patience_s=70)
        finally:
            for pid in reversed(everybody):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        Path(f"{starts}.go").touch()
        out, err = driver.communicate(timeout=60)
        assert out.splitlines() == ["[]", "{'finished': 8} 8"], err
    facts = facts_of(tmp_path / "studies" / "study")
    assert not [fact for fact in facts if isinstance(fact, Left)]
    assert sum(fact.seconds for fact in facts if isinstance(fact, StoodStill)) > (55 if full else SILENCE_S)


def stop_all(driver: subprocess.Popen[str], stopped: list[int]) -> bool:
    """Stop what of a study moves, and say whether nothing did: some may just have been born, or be about to end."""
    moving = [pid for pid in (driver.pid, *left_behind_by(driver)) if not processes.is_stopped(pid)]
    for pid in moving:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            stopped.append(pid)
    return not moving


def test_a_clock_that_is_set_moves_no_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(run, x: int):
        while run.trial == 2 and not (tmp_path / "go").exists():
            pass
        return float(x)

    real, began = time.time, time.time()
    search = tune(train, wait=False)
    wait_for(lambda: search.counts().get("finished", 0) >= 2)
    monkeypatch.setattr(time, "time", lambda: real() - 86400)
    wait_for(lambda: search.counts().get("finished", 0) >= 3)
    monkeypatch.setattr(time, "time", lambda: real() + 86400)
    (tmp_path / "go").touch()
    search.wait()
    times = [fact.at for fact in facts_of(search.folder)]
    assert times == sorted(times)
    assert began <= times[0] <= times[-1] <= real()


# --- the journal --------------------------------------------------------------------------------------


def killed_with_one_to_go(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Kill a driver whose study has seven trials that finished and one that hangs; return script, starts and folder."""
    script = write_script(tmp_path, SCRIPT)
    starts, folder = tmp_path / "starts", tmp_path / "studies" / "study"
    with running(start_script(script, STARTS=str(starts), HANGS="5")) as driver:
        wait_for(lambda: starts.exists() and len(starts.read_text().split()) == 8)
        wait_for(lambda: sum(t.state == "finished" for t in etude.open(folder).trials) == 7)
        driver.kill()
        driver.wait()
        wait_for(lambda: not left_behind_by(driver))
    return script, starts, folder


def test_half_a_commit_after_the_last_one_is_noticed_by_nobody(tmp_path: Path) -> None:
    script, starts, folder = killed_with_one_to_go(tmp_path)
    written = facts_of(folder)
    assert tears.tear_tail(folder, random.Random(0))
    assert facts_of(folder) == written
    Path(f"{starts}.go").touch()
    done = run_script(script, STARTS=str(starts))
    notes, counts = done.stdout.splitlines()
    assert json.loads(notes) == []
    assert counts == "{'finished': 8} 9", "the one that hung was run again, and nothing else"
    assert facts_of(folder)[: len(written)] == written


def test_a_torn_end_of_what_was_committed_is_named_and_what_it_said_is_done_again(tmp_path: Path) -> None:
    script, starts, folder = killed_with_one_to_go(tmp_path)
    written = len(facts_of(folder))
    assert int((folder / MARK).read_text()) == written
    assert tears.tear_commit(folder, 3) == 3
    shutil.rmtree(folder / "spool")  # else nothing would have to be run again
    (folder / "spool").mkdir()
    readable = len(facts_of(folder))
    assert readable < written
    Path(f"{starts}.go").touch()
    done = run_script(script, STARTS=str(starts))
    notes, counts = done.stdout.splitlines()
    assert json.loads(notes) == [
        f"The end of the journal {folder / FILE} is torn: it had {written} facts, and {readable} can be read. What the "
        "others said is lost; an attempt whose end was among them is run again, unless its outcome is in the spool."
    ]
    assert counts.startswith("{'finished': 8}")
    assert done.stderr.splitlines() == json.loads(notes), "said once, with progress switched off"
    looked_at = etude.open(folder)
    assert looked_at.notes == json.loads(notes)
    assert looked_at.summary().splitlines()[-1] == f"Note: {looked_at.notes[0]}"
    assert not (folder / MARK).exists(), "a journal that was closed in order needs none"


def test_a_disk_that_fills_up_in_the_middle_holds_the_study_up_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(run, x: int):
        (tmp_path / f"ran-{run.trial}").touch()
        for epoch in range(5):
            run.report(score=float(epoch))
        return float(x)

    with small_disk(tmp_path / "disk", megabytes=2) as disk:
        monkeypatch.setenv("ETUDE_STUDIES", str(disk))
        search = tune(train, trials=60, wait=False)
        study = search._handle.study
        wait_for((tmp_path / "ran-5").exists)
        fill(disk / "ballast")
        wait_for(lambda: study.notes)
        (note,) = study.notes[:1]
        assert "cannot be written (" in note
        assert "Nothing is handed out until it can; what ended meanwhile is kept in memory." in note
        handed_out = len(list(tmp_path.glob("ran-*")))
        assert handed_out < 60
        (disk / "ballast").unlink()
        search.wait()
        assert search.counts() == {"finished": 60}
        assert [t.attempts for t in search.trials] == [1] * 60
        assert all(list(t.curve) == [0.0, 1.0, 2.0, 3.0, 4.0] for t in etude.open(search.folder).trials)


@pytest.mark.thorough
def test_a_study_that_waits_for_a_full_disk_ends_at_its_deadline_and_says_what_is_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(run, x: int):
        (tmp_path / f"ran-{run.trial}").touch()
        waits_for = {6: "filled"}.get(run.trial, "go")
        while run.trial > 5 and not (tmp_path / waits_for).exists():
            time.sleep(0.01)
        return float(x)

    with small_disk(tmp_path / "disk", megabytes=2) as disk:
        monkeypatch.setenv("ETUDE_STUDIES", str(disk))
        for deadline_s in (4, 8, 16, 32):  # until a slow machine has come so far
            search = tune(train, trials=10, deadline_s=deadline_s, name=f"study-{deadline_s}", wait=False)
            wait_for(lambda search=search: (tmp_path / "ran-6").exists() or search._handle.over)
            fill(disk / "ballast")
            (tmp_path / "filled").touch()  # now trial 6 ends, and that cannot be written
            search.wait()
            held_up = any("Nothing is handed out until it can" in note for note in search.notes)
            if held_up and "up to the end" in search.notes[-1]:
                break
            for path in (disk / "ballast", tmp_path / "filled", tmp_path / "ran-6"):
                path.unlink(missing_ok=True)
        assert (search.complete, search.limit) == (False, "deadline_s")
        assert search.why.startswith(f"deadline_s={deadline_s} is reached: the study was at work for ")
        *held_up, unwritten = search.notes
        assert any("Nothing is handed out until it can" in note for note in held_up)
        assert re.fullmatch(
            rf"{search.folder} could not be written up to the end \(.*\): [0-9,]+ facts? are not in the journal. Of "
            r"\d+ attempts? that ended since it could, the outcomes of \d+ are in the spool, and the next call takes "
            r"them in\.( The others are run again\.)?",
            unwritten,
        )
        assert search.summary().splitlines()[-1] == f"Note: {unwritten}"
        (disk / "ballast").unlink()
        (tmp_path / "go").touch()
        assert tune(train, trials=10, name=search.name).counts() == {"finished": 10}


def fill(path: Path) -> None:
    """Write until nothing more fits."""
    with path.open("wb", buffering=0) as file:
        for size in (2**16, 2**10, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue


def test_a_read_only_disk_is_refused_before_anything_starts_and_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(run, x: int):
        return float(x)

    with small_disk(tmp_path / "disk", megabytes=8) as disk:
        monkeypatch.setenv("ETUDE_STUDIES", str(disk))
        assert tune(train, trials=3, name="study").counts() == {"finished": 3}
        disk.be_read_only()
        with pytest.raises(etude.StudyError) as refused:
            tune(train, trials=6, name="study")
        assert str(refused.value) == (
            f"The journal {disk / 'study' / FILE} cannot be written: unable to open database file. Nothing in it was "
            "changed. See to its permissions, to the space on its disk, and to who else has it open; then try again."
        )
        with pytest.raises(etude.StudyError, match=r"The study folder .* cannot be written: .*Read-only file system"):
            tune(train, trials=6, name="other")
        assert etude.open(disk / "study").counts() == {"finished": 3}


SLEEPS = """
    import os, pathlib, time
    import etude

    def train(x: int):
        pathlib.Path(os.environ["STARTED"]).touch()
        time.sleep(60)

    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        experiment.tune({"x": etude.integers(0, 9)}, trials=3, workers=1, sampler="random", name="study")
"""


def test_a_disk_that_became_read_only_when_a_driver_was_killed_is_refused_in_words(tmp_path: Path) -> None:
    script, started = write_script(tmp_path, SLEEPS), tmp_path / "started"
    with small_disk(tmp_path / "disk", megabytes=8) as disk:
        with running(start_script(script, ETUDE_STUDIES=str(disk), STARTED=str(started))) as driver:
            wait_for(started.exists)
            driver.kill()
            driver.wait()
            wait_for(lambda: not left_behind_by(driver))
        disk.be_read_only()
        refused = run_script(script, ETUDE_STUDIES=str(disk))
    assert refused.returncode == 1
    assert refused.stderr.strip().splitlines()[-1].startswith("etude.core.errors.JournalError: The journal ")
