"""A study under kills, stops, late and doubled messages, and torn files ends as an undisturbed one does.

``make chaos`` lets 200 faults fall on 100 trials, and stops everything for a minute; here it is a handful.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import run_script, write_script

import etude
from etude.core.errors import ConfigError
from etude.core.events import AnyFact, Assigned, How, Joined, Opened, Outcome, Queued, Settled
from etude.core.history import History
from etude.core.lifecycle import Turn
from etude.core.metrics import Metrics
from etude.store.journal import Journal
from etude.testing import Chaos, chaos
from etude.testing.known import Known
from etude.wire.messages import Ended

SCRIPT = """
    import os, sys, time
    import etude

    def note(word, trial):
        line = os.open(os.environ["ETUDE_CHAOS_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(line, f"{word} {trial}\\n".encode())
        os.close(line)

    def train(lr: float, width: int, *, run):
        note("begun", run.trial)
        for epoch in run.epochs(int(os.environ["EPOCHS"])):
            time.sleep(0.06)
            run.report(score=-((lr - 0.3) ** 2) * (epoch + 1) + run.random("noise").gauss() / 1000)
        note("done", run.trial)
        return {"score": -((lr - 0.3) ** 2) + width / 1000, "epochs": run.epoch + 1}

    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        experiment.tune(
            {"lr": etude.loguniform(1e-3, 1.0), "width": etude.integers(1, 512, log=True)},
            trials=int(sys.argv[1]), workers=4, sampler="random", stopper="none", name="study",
        )
"""

FULL = os.environ.get("ETUDE_CHAOS") == "full"


def table(folder: Path) -> bytes:
    """Return the study's table, without what depends on time and place."""
    search = etude.open(folder)
    assert all(len(t.curve) == len(search.trials[0].curve) for t in search.trials), "no report of a result is missing"
    rows = [(t.number, t.params, t.state, t.value, sorted(t.metrics.items()), list(t.curve)) for t in search.trials]
    return repr(rows).encode()


def storm(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    trials: int,
    epochs: int,
    faults: int,
    every: int,
    seed: int,
) -> Chaos:
    """Run a study under faults and undisturbed, and assert that nobody can tell which was which."""
    script = write_script(tmp_path, SCRIPT)
    log = tmp_path / "log"
    monkeypatch.setenv("ETUDE_CHAOS_LOG", str(log))
    monkeypatch.setenv("EPOCHS", str(epochs))
    report = chaos(script, str(trials), studies=tmp_path / "disturbed", faults=faults, every=every, seed=seed)
    print(f"\n{report}")
    assert report.returncode == 0, report.errors
    assert sum(report.faults.values()) == faults
    assert (report.finished, report.unfinished) == (trials, 0)
    assert report.broken == []
    assert report.left == []

    begun = Counter(line for line in log.read_text().splitlines() if line.startswith("begun"))
    assigned = Counter(f"begun {f.trial}" for f in facts_of(report.folder) if isinstance(f, Assigned))
    assert begun <= assigned, "no attempt ran twice, and none that was not handed out"
    done = Counter(line for line in log.read_text().splitlines() if line.startswith("done"))
    assert len(done) == trials
    assert report.delayed + report.doubled > 0
    assert sum(report.tails.values()) > 0
    assert report.spools > 0

    log.unlink()
    plain = run_script(script, str(trials), ETUDE_CHAOS_LOG=str(log))
    assert plain.returncode == 0, plain.stderr
    assert table(report.folder) == table(tmp_path / "studies" / "study")
    return report


def facts_of(folder: Path) -> list[object]:
    journal = Journal.read(folder)
    try:
        return list(journal.facts())
    finally:
        journal.close()


@pytest.mark.skipif(FULL, reason="the large one is run")
def test_a_study_under_faults_ends_as_an_undisturbed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = storm(tmp_path, monkeypatch, trials=10, epochs=10, faults=15, every=2, seed=14)
    assert report.starts == 1 + report.faults["kill driver"]


@pytest.mark.skipif(not FULL, reason="make chaos runs it")
def test_a_hundred_trials_under_two_hundred_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = storm(tmp_path, monkeypatch, trials=100, epochs=20, faults=200, every=3, seed=1)
    assert min(report.faults.values()) > 0
    assert min(report.delayed, report.doubled) > 0
    assert report.left_whole > 0


def test_chaos_refuses_what_it_cannot_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        chaos(tmp_path / "other.py", studies=tmp_path)
    assert str(refused.value) == f"There is no script {tmp_path / 'other.py'}. Give the path of one that runs a study."
    with pytest.raises(ConfigError, match=r"it is no function of a module that can be imported\. Give the path"):
        chaos(lambda: None, studies=tmp_path)


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        (
            {"kinds": {"kill cat": 1}},
            "kinds has 'kill cat', which is no kind of fault. There are: kill attempt, kill template, kill worker, "
            "kill driver, stop attempt, stop template, stop worker, stop driver.",
        ),
        ({"kinds": 3}, "kinds=3 (int) is no mapping. Pass kinds with weights, as {'kill worker': 1}."),
        (
            {"kinds": {}},
            "kinds={} (dict) leaves no kind that ever falls. Give one a weight above 0; faults=0 is for no faults.",
        ),
        (
            {"kinds": {"kill driver": 0}},
            "kinds={'kill driver': 0} (dict) leaves no kind that ever falls. Give one a weight above 0; "
            "faults=0 is for no faults.",
        ),
        ({"kinds": {"kill driver": -1}}, "kinds['kill driver']=-1 (int) cannot be. Pass a number from 0."),
        ({"faults": -1}, "faults=-1 cannot be: fewer than none cannot fall. Pass faults=0 or more."),
        ({"faults": "a"}, "faults='a' (str) is no whole number. Pass one."),
        ({"every": 0}, "every=0 cannot be: there is a fact at least between two faults. Pass every=1 or more."),
        ({"retries": -1}, "retries=-1 cannot be: no trial has fewer than none. Pass retries=0 or more."),
        ({"limit_s": -1}, "limit_s=-1 (int) cannot be. Pass a number above 0."),
        ({"seed": None}, "seed=None (NoneType) is no whole number. Pass one."),
        ({"target": 5}, "target=5 (int) is no path. Give that of a script, or a function."),
        ({"studies": None}, "studies=None (NoneType) is no path. Give that of a folder, which may be a new one."),
    ],
)
def test_what_chaos_is_given_is_checked_before_anything_starts(
    given: dict[str, Any], refusal: str, tmp_path: Path
) -> None:
    call: dict[str, Any] = {"target": write_script(tmp_path, SCRIPT), "studies": tmp_path / "studies", **given}
    with pytest.raises(ConfigError) as refused:
        chaos(call.pop("target"), "3", **call)
    assert str(refused.value) == refusal
    assert not (tmp_path / "studies").exists()


# --- what was whole when a driver died ----------------------------------------------------------------


def a_trial_at_work() -> list[AnyFact]:
    return [
        Opened(at=0.0, driver="d1", epoch=1),
        Joined(at=0.0, worker="w1"),
        Queued(at=0.0, trial=0, params={"x": 1}, seed=0),
        Assigned(at=0.0, trial=0, attempt=1, worker="w1"),
    ]


def noted(facts: list[AnyFact], *spooled: Ended) -> Known:
    history = History(Metrics({"y": "max"}))
    for fact in facts:
        history.apply(fact)
    known = Known()
    known.note(facts, history, spooled)
    return known


WHOLE = Ended(0, 1, Outcome(How.FINISHED, 1.0))
LOST = Settled(at=1.0, trial=0, turn=Turn.LOST, attempt=1)
AGAIN = Assigned(at=1.0, trial=0, attempt=2, worker="w1")


def test_an_outcome_that_was_whole_in_a_spool_and_is_run_for_again_is_noticed() -> None:
    facts = a_trial_at_work()
    known = noted(facts, WHOLE)
    assert list(known.left) == [(0, 1)]
    taken_in = Settled(at=1.0, trial=0, turn=Turn.FINISHED, attempt=1, outcome=WHOLE.outcome)
    assert known.again([*facts, taken_in]) == []
    assert known.again([*facts, LOST, AGAIN]) == [
        "fact 6: trial 0 was handed out again, and the outcome of its attempt 1 had been whole in a spool when a "
        "driver died after fact 4"
    ]


def test_what_was_whole_nowhere_may_be_run_again() -> None:
    facts = a_trial_at_work()
    assert noted(facts).again([*facts, LOST, AGAIN]) == []
    raised = Ended(0, 1, Outcome(How.RAISED, reason="ValueError"))
    assert noted(facts, raised, Ended(7, 1, Outcome(How.FINISHED, 1.0))).left == {}
    assert noted([*facts, LOST], WHOLE).left == {}, "its worker had been given up before it was written"


def test_a_journal_that_has_lost_what_was_committed_is_noticed() -> None:
    facts = a_trial_at_work()
    known = noted(facts)
    assert known.gone([*facts, AGAIN]) == []
    said = "the first 4 facts are not those that the journal had when a driver died"
    assert known.gone([*facts[:-1], AGAIN, AGAIN]) == [said]
    known.note(facts[:-1], History(Metrics({"y": "max"})), [])
    assert said in known.gone(facts)
