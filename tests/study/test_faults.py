"""A trial that goes wrong costs that trial alone; the study goes on, and says which."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import processes, wait_for

import etude
from etude.core.plan import GO_ON
from etude.engines import local
from etude.tune.constraint import TRIED


def tune(train, trials=6, workers=2, space=None, **kwargs):
    experiment = etude.Experiment(train, metric="score", mode="max")
    space = space or {"x": etude.integers(0, 10**6)}
    return experiment.tune(space, trials=trials, workers=workers, **{"sampler": "random", "stopper": "none", **kwargs})


def fate(search, number):
    trial = search.trials[number]
    return trial.state, trial.reason, trial.attempts


ODD_ENDS = {
    "raises": (lambda: 1 / 0, "failed", "ZeroDivisionError: division by zero"),
    "exits": (lambda: sys.exit("enough"), "failed", "SystemExit: enough"),
    "leaves without a word": (lambda: os._exit(7), "failed", "exited with code 7 and no word"),
    "crashes": (lambda: ctypes.string_at(0), "failed", "killed by SIGSEGV"),
    "is killed": (lambda: os.kill(os.getpid(), signal.SIGKILL), "failed", "killed by SIGKILL"),
    "aborts": (os.abort, "failed", "killed by SIGABRT"),
    "interrupts itself": (lambda: signal.raise_signal(signal.SIGINT), "failed", "KeyboardInterrupt"),
}


@pytest.mark.parametrize("end", ODD_ENDS)
def test_one_bad_trial_costs_that_trial_alone(end: str) -> None:
    act, state, reason = ODD_ENDS[end]

    def train(run, x: int):
        if run.trial == 3:
            act()
        return 1.0

    search = tune(train)
    assert [t.state for t in search.trials if t.number != 3] == ["finished"] * 5
    assert search.trials[3].state == state
    assert reason in search.trials[3].reason
    assert reason in search.summary()
    assert "trial 3" in search.summary()


def test_a_killed_attempt_is_run_again_and_the_study_is_none_the_worse(tmp_path: Path) -> None:
    def train(run, x: int):
        flag = tmp_path / f"died-{run.trial}"
        if run.trial in (1, 4) and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return float(x)

    search = tune(train)
    assert search.counts() == {"finished": 6}
    assert [t.attempts for t in search.trials] == [1, 2, 1, 1, 2, 1]


def test_retries_are_what_was_asked_for() -> None:
    def train(run, x: int):
        if run.trial == 1:
            os._exit(1)
        return 1.0

    search = tune(train, retries=0)
    assert fate(search, 1) == ("failed", "lost once, the last time: exited with code 1 and no word", 1)


def test_an_invalid_configuration_is_no_failure() -> None:
    def train(run, x: int):
        if run.trial == 2:
            raise etude.Invalid("x does not divide the width")
        return 1.0

    search = tune(train)
    assert fate(search, 2) == ("invalid", "x does not divide the width", 1)
    assert search.counts() == {"finished": 5, "invalid": 1}


class Odd:
    """A stopper that decides nothing, or raises, once some trials have finished and until it is mended."""

    def __init__(self, answer: object, mended: Path) -> None:
        self.answer = answer
        self.mended = mended

    def decide(self, report, standing):
        if len(standing.finished) < 3 or self.mended.exists():
            return GO_ON
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "error"),
    [(None, (etude.ConfigError, "stopper .*Odd returned None")), (KeyError("oh"), (KeyError, "oh"))],
)
def test_a_stopper_that_decides_nothing_ends_the_study_and_nothing_finished_is_lost(
    answer, error, tmp_path: Path
) -> None:
    def train(run, x: int):
        for _ in range(50):  # many reports are under way when the first one is refused
            run.report(score=float(x))
        return float(x)

    experiment = etude.Experiment(train, metric="score", mode="max")
    call = {"space": {"x": etude.integers(0, 10**6)}, "trials": 8, "workers": 2, "sampler": "random", "name": "odd"}
    kind, words = error
    with pytest.raises(kind, match=words):
        experiment.tune(**call, stopper=Odd(answer, tmp_path / "mended"))
    search = etude.open("odd")
    assert not search.complete
    assert search.driver is None  # the study was let go of
    finished = [t.number for t in search.trials if t.state == "finished"]
    assert len(finished) >= 3
    (tmp_path / "mended").touch()  # an edit of its code would make another study of it
    again = experiment.tune(**call, stopper=Odd(answer, tmp_path / "mended"))
    assert again.counts() == {"finished": 8}
    assert all(again.trials[number].attempts == 1 for number in finished)


def test_a_constraint_that_raises_later_rules_out_and_says_so() -> None:
    asked: list[int] = []

    def late(x: int) -> bool:
        asked.append(x)
        if len(asked) > TRIED + 1:
            raise RuntimeError("not this one")
        return True

    def train(x: int):
        return float(x)

    search = tune(train, trials=4, workers=1, constraint=late)
    assert [t.state for t in search.trials] == ["finished", "invalid", "invalid", "invalid"]
    assert {t.reason for t in search.trials[1:]} == {"constraint raised RuntimeError: not this one"}


def test_a_constraint_ends_a_trial_before_it_is_started() -> None:
    def train(x: int, y: int):
        return float(x + y)

    search = tune(
        train,
        trials=16,
        space={"x": etude.integers(0, 3), "y": etude.integers(0, 3)},
        sampler="grid",
        constraint=lambda x, y: x < y or f"x={x} is not below y={y}",
    )
    for trial in search.trials:
        assert (trial.params["x"] < trial.params["y"]) == (trial.state == "finished")
        if trial.state == "invalid":
            assert trial.attempts == 0
            assert "is not below" in trial.reason
    assert set(search.counts()) == {"finished", "invalid"}


def test_running_out_of_memory_is_told_from_other_ends() -> None:
    def train(run, x: int):
        if run.trial == 2:
            resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
            bytearray(2**31)
        return 1.0

    search = tune(train, retries=1)
    state, reason, attempts = fate(search, 2)
    assert (state, attempts) == ("failed", 2)
    assert reason == "lost 2 times, the last time: MemoryError"


def test_an_error_that_is_called_as_torchs_is_out_of_memory_and_tried_again() -> None:
    class OutOfMemoryError(RuntimeError):  # as torch.OutOfMemoryError is
        pass

    def train(run, x: int):
        if run.trial == 2:
            raise OutOfMemoryError("CUDA out of memory")
        return 1.0

    search = tune(train, retries=1)
    reason = "lost 2 times, the last time: OutOfMemoryError: CUDA out of memory"
    assert fate(search, 2) == ("failed", reason, 2)


def test_a_trial_that_hangs_without_a_limit_holds_its_worker_until_the_study_is_stopped(tmp_path: Path) -> None:
    def train(run, x: int):
        if run.trial == 1:
            (tmp_path / "hangs").touch()
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
            time.sleep(1000)
        return 1.0

    search = tune(train, wait=False, grace_s=0.1)
    wait_for((tmp_path / "hangs").exists)
    wait_for(lambda: search.counts().get("finished") == 5)  # all others, on the other worker
    assert search.trials[1].state == "running"
    search.stop()
    search.wait()
    assert search.counts() == {"finished": 5, "queued": 1}


def test_a_trial_that_hangs_is_ended_and_not_tried_again() -> None:
    def train(run, x: int):
        if run.trial == 1:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
            time.sleep(1000)
        return 1.0

    search = tune(train, trials=4, timeout_s=0.5)
    assert fate(search, 1) == ("failed", "ran longer than timeout_s=0.5", 1)
    assert search.counts() == {"finished": 3, "failed": 1}


def test_what_an_attempt_leaves_running_is_ended_with_it(tmp_path: Path) -> None:
    def train(run, x: int):
        # A daemon by the book: a child that starts a session of its own and outlives its parent.
        script = "import os, time, sys\nif os.fork(): sys.exit()\nos.setsid()\nif os.fork(): sys.exit()\n"
        script += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(1000)\n"
        subprocess.run([sys.executable, "-c", script], check=True)
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            pass
        return 1.0

    search = tune(train, trials=1, workers=1)
    assert search.counts() == {"finished": 1}
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not Path(f"/proc/{pid}").exists())


def test_a_worker_that_dies_is_replaced_and_its_trial_run_again(tmp_path: Path) -> None:
    def train(run, x: int):
        flag = tmp_path / f"started-{run.trial}"
        if run.trial == 2 and not flag.exists():
            flag.touch()
            time.sleep(1000)
        return 1.0

    experiment = etude.Experiment(train, metric="score", mode="max")
    search = experiment.tune(
        {"x": etude.integers(0, 10**6)}, trials=6, workers=2, sampler="random", stopper="none", wait=False
    )
    wait_for((tmp_path / "started-2").exists)
    study = search._handle.study
    holder = next(t.worker for t in study.history.trials if t.number == 2)
    (supervisor,) = [p for p in processes.marked(local.WORKER_MARK, holder) if processes.parent(p) == os.getpid()]
    processes.kill(supervisor)
    search.wait()
    assert search.counts() == {"finished": 6}
    assert search.trials[2].attempts == 2
    wait_for(lambda: not processes.marked(local.WORKER_MARK, holder))


def test_a_template_that_dies_is_made_again_and_its_trial_run_again(tmp_path: Path) -> None:
    def train(run, x: int):
        flag = tmp_path / f"killed-{run.trial}"
        if run.trial in (1, 3) and not flag.exists():
            flag.touch()
            os.kill(os.getppid(), signal.SIGKILL)  # the process that we were forked from
            time.sleep(1000)
        return {"score": x, "parent": os.getppid()}

    search = tune(train, workers=1)
    assert search.counts() == {"finished": 6}
    assert [t.attempts for t in search.trials] == [1, 2, 1, 2, 1, 1]
    assert len({t.metrics["parent"] for t in search.trials}) == 3


def test_a_raise_on_the_first_worker_is_tried_elsewhere_once() -> None:
    def train(x: int):
        raise ValueError("never works")

    search = tune(train, trials=2, workers=2)
    assert search.counts() == {"failed": 2}
    assert [t.attempts for t in search.trials] == [2, 2]
    with pytest.raises(etude.StudyError, match=r"none finished .*failed: ValueError: never works"):
        _ = search.best


def test_the_traceback_is_kept_whole_and_starts_in_the_users_code() -> None:
    def inner():
        raise ValueError("deep down")

    def train(run, x: int):
        if run.trial == 1:
            inner()
        return 1.0

    trial = tune(train).trials[1]
    assert trial.traceback.startswith("Traceback (most recent call last):\n")
    assert trial.traceback.rstrip().endswith("ValueError: deep down")
    assert "in inner" in trial.traceback
    assert "worker/bind.py" not in trial.traceback
    assert "ValueError: deep down" in trial.log.read_text()


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (None, "The metric 'score' never came: the training function returned nothing, and reported none."),
        ({"loss": 1.0}, "returned a dict with 'loss', and reported none."),
        ("good", "which is no single number"),
        ({"score": 1.0, "net": object()}, "cannot be kept with the trial"),
    ],
)
def test_a_result_that_is_none_fails_the_trial_with_the_reason(returned: object, reason: str) -> None:
    def train(run, x: int):
        return returned if run.trial == 1 else 1.0

    search = tune(train, workers=1)
    state, told, attempts = fate(search, 1)
    assert (state, attempts) == ("failed", 1)
    assert reason in told
    assert fate(search, 2)[0] == "finished"


def test_a_metric_that_never_comes_ends_the_search_with_the_first_trial() -> None:
    def train(run, x: int):
        run.report(acuracy=0.5)

    experiment = etude.Experiment(train, metric="accuracy", mode="max")
    with pytest.raises(etude.StudyError) as ended:
        experiment.tune({"x": etude.integers(0, 100)}, trials=20, workers=1, name="never")
    assert str(ended.value) == (
        "Trial 0 gave no result: The metric 'accuracy' never came: the training function returned nothing, and "
        "reported 'acuracy'. Return a number or {'accuracy': ...}, or call run.report(accuracy=...) at least once. "
        "No trial has gone well so far, so all would most likely end like this, and the study ends here. "
        "Mend it and call again. "
        "If only some configurations cannot be, raise etude.Invalid(reason) for those."
    )
    assert experiment.last.counts()["queued"] >= 1
    assert sum(t.attempts for t in experiment.last.trials) == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_a_data_function_that_raises_ends_the_search_and_shows_its_own_traceback_first(
    workers: int, tmp_path: Path
) -> None:
    file = tmp_path / "train.csv"

    def data():
        return file.read_text()

    def train(data, x: int):
        return len(data())

    experiment = etude.Experiment(train, data=data, metric="score", mode="max")
    call = {"space": {"x": etude.integers(0, 100)}, "trials": 6, "workers": workers, "sampler": "random"}
    with pytest.raises(etude.StudyError) as ended:
        experiment.tune(**call)
    first, *_, last = str(ended.value).splitlines()
    assert first == "Traceback (most recent call last):"
    assert "file.read_text()" in str(ended.value)
    assert "etude/worker" not in str(ended.value)
    assert re.match(r"data\(\) raised in trial \d+: FileNotFoundError: .* so all would most likely", last)

    file.write_text("here it is")  # the code is what it was, so the same call goes on with the same study
    search = experiment.tune(**call)
    assert search.folder == experiment.last.folder
    assert search.counts() == {"finished": 6}


def test_functions_that_cannot_be_loaded_in_a_worker_end_the_study_with_the_reason(tmp_path, monkeypatch) -> None:
    import importlib

    (tmp_path / "fragile.py").write_text(
        "import os\nif 'ETUDE_WORKER' in os.environ: raise OSError('not here')\ndef f(): pass"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    fragile = importlib.import_module("fragile")

    def train(x: int):
        fragile.f()
        return 1.0

    with pytest.raises(etude.StudyError, match=r"OSError: not here[\s\S]*cannot load your functions"):
        tune(train)


def test_derived_values_have_to_be_the_same_on_equal_data() -> None:
    def data():
        return etude.Data([1, 2], n_features=os.getpid())

    def train(data, n_features: etude.Derived[int], x: int):
        return n_features

    experiment = etude.Experiment(train, data=data, metric="score", mode="max")
    search = experiment.tune({"x": etude.integers(0, 100)}, trials=3, workers=1, sampler="random", stopper="none")
    assert search.counts() == {"finished": 1, "failed": 2}
    assert "It has to depend on the data alone" in search.trials[1].reason


def test_an_attempt_is_ended_that_does_not_stop_when_told() -> None:
    class StopSecond:
        def decide(self, report, standing):
            from etude.core.plan import GO_ON, Act, Decision

            return Decision(Act.STOP, "because") if report.trial == 1 else GO_ON

    def train(run, x: int):
        run.report(score=0.0)
        if run.trial == 1:
            time.sleep(1000)  # and never reports again
        return 1.0

    experiment = etude.Experiment(train, metric="score", mode="max")
    search = experiment.tune(
        {"x": etude.integers(0, 100)}, trials=3, workers=1, sampler="random", stopper=StopSecond(), grace_s=0.2
    )
    assert fate(search, 1) == ("stopped", "because", 1)
    assert search.counts() == {"finished": 2, "stopped": 1}


def test_a_stop_is_not_swallowed_and_is_raised_again() -> None:
    class StopAll:
        def decide(self, report, standing):
            from etude.core.plan import Act, Decision

            return Decision(Act.STOP, "enough")

    def train(run, x: int):
        for _ in range(1000):
            try:
                time.sleep(0.002)
                run.report(score=1.0)
            except Exception:
                pass
        return 1.0

    experiment = etude.Experiment(train, metric="score", mode="max")
    search = experiment.tune({"x": [1, 2]}, trials=2, workers=2, sampler="random", stopper=StopAll())
    assert search.counts() == {"stopped": 2}
    assert all(len(t.curve) < 1000 for t in search.trials)


def test_a_journal_that_is_locked_for_a_while_loses_nothing_and_is_said_once(tmp_path: Path, monkeypatch) -> None:
    import sqlite3

    from etude.store import journal_file

    monkeypatch.setattr(journal_file, "BUSY_S", 0.2)

    def train(run, x: int):
        (tmp_path / f"ran-{run.trial}").touch()
        return float(x)

    experiment = etude.Experiment(train, metric="score", mode="max")
    search = experiment.tune(
        {"x": etude.integers(0, 10**6)}, trials=30, workers=2, sampler="random", stopper="none", wait=False
    )
    wait_for((tmp_path / "ran-3").exists)
    other = sqlite3.connect(search.folder / "journal.sqlite", isolation_level=None, timeout=30)
    other.execute("BEGIN IMMEDIATE")
    study = search._handle.study
    wait_for(lambda: study.notes)
    assert not study.over
    other.execute("ROLLBACK")
    other.close()
    search.wait()
    assert search.counts() == {"finished": 30}
    assert [t.attempts for t in search.trials] == [1] * 30
    (note,) = study.notes
    assert "cannot be written (database is locked). Nothing is handed out until it can" in note
    assert etude.open(search.folder).counts() == {"finished": 30}


@pytest.mark.parametrize("victim", ["warm", "template"])
def test_a_process_that_keeps_dying_ends_no_study(victim: str, tmp_path: Path) -> None:
    def train(run, x: int):
        flag = tmp_path / f"killed-{run.trial}"
        if run.trial == 1 and (victim == "template" or not flag.exists()):
            flag.touch()
            template = os.getppid()
            os.kill(processes.parent(template) if victim == "warm" else template, signal.SIGKILL)
            time.sleep(1000)
        return float(x)

    search = tune(train, trials=5, workers=1, retries=7)
    states = [t.state for t in search.trials]
    assert states == ["finished", "finished" if victim == "warm" else "failed", *["finished"] * 3]


def test_the_template_after_a_warm_process_that_died_is_missed_like_any_other(tmp_path: Path) -> None:
    """The new warm process must not hold the line to it: nobody would see that line end."""

    def train(run, x: int):
        flags = [tmp_path / "warm is dead", tmp_path / "template is dead"]
        for flag in flags:
            if not flag.exists():
                flag.touch()
                template = os.getppid()
                os.kill(template if flag is flags[1] else processes.parent(template), signal.SIGKILL)
                time.sleep(1000)
        return float(x)

    search = tune(train, trials=2, workers=1, retries=7, wait=False)
    wait_for(lambda: search.complete or not search.running)
    assert search.counts() == {"finished": 2}
    assert search.trials[0].attempts == 3


def test_a_time_limit_holds_even_if_the_template_is_stopped() -> None:
    def train(run, x: int):
        if run.trial == 1:
            os.kill(os.getppid(), signal.SIGSTOP)
            time.sleep(1000)
        return 1.0

    search = tune(train, trials=4, workers=1, timeout_s=0.5)
    assert search.counts() == {"finished": 3, "failed": 1}
    assert search.trials[1].reason == "ran longer than timeout_s=0.5"


def test_a_forked_process_that_returns_is_not_the_result() -> None:
    def train(run, x: int):
        if os.fork() == 0:
            return 99.0
        os.wait()
        return 1.0

    assert [t.value for t in tune(train, trials=3).trials] == [1.0] * 3


def test_an_exception_that_cannot_be_shown_fails_with_its_type() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def train(run, x: int):
        raise Mute

    search = tune(train, trials=1, workers=1)
    assert fate(search, 0) == ("failed", "Mute", 1)
