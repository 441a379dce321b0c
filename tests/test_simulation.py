"""Whole studies in virtual time: the same driver, the same journal, and no process anywhere."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.study.support import run_script, running, start_script, wait_for, write_script

import etude
from etude.core.events import AnyFact, How, Params, Quarantined, Settled
from etude.core.lifecycle import Turn
from etude.core.plan import GO_ON, Act, Decision, Report, Standing
from etude.results.going_on import in_no_journal
from etude.results.search import Search
from etude.store.journal import FILE, Journal
from etude.testing.replay import check_decisions, check_proposals
from etude.tune.question import search
from etude.tune.sampler import Request

HOUR = 3600.0
SPACE = {"x": etude.uniform(0, 1)}


def never(x: float) -> float:
    raise AssertionError("a simulated study does not call the training function")


def rising(params: Mapping[str, Any], seed: int) -> Iterator[tuple[float, dict[str, float]]]:
    """Ten steps of a minute."""
    for step in range(1, 11):
        yield 60.0, {"y": params["x"] - 1.0 / step}


def simulate(curve: Any = rising, *, name: str = "simulated", trials: int = 20, **given: Any) -> Search:
    """Simulate a study: what is no argument of ``tune`` is an option of the engine."""
    experiment = etude.Experiment(given.pop("train", never), metric=given.pop("metric", {"y": "max"}))
    of_tune = {"sampler": "random", "stopper": "none", "seed": 7}
    of_tune |= {key: given.pop(key) for key in list(given) if key in TUNES}
    space = of_tune.pop("space", SPACE)
    engine = etude.Simulated(curves=curve, **{"workers": 4, **given})
    return experiment.tune(space, trials=trials, name=name, engine=engine, **of_tune)


TUNES = ("sampler", "stopper", "space", "constraint", "retries", "timeout_s", "grace_s", "wait", "fidelity", "budget")


def facts_of(study: Search) -> list[AnyFact]:
    with contextlib.closing(Journal.read(study.folder)) as journal:
        return list(journal.facts())


def rows_of(study: Search) -> list[tuple[Any, ...]]:
    """Return all facts and reports as the file has them."""
    with contextlib.closing(sqlite3.connect(study.folder / FILE)) as connection:
        return [
            row for table in ("facts", "reports", "metrics") for row in connection.execute(f"SELECT * FROM {table}")
        ]


# --- the time that it takes -----------------------------------------------------------------------


def test_a_study_takes_the_time_of_a_list_schedule() -> None:
    lasts = [5.0, 1.0, 1.0, 1.0, 7.0, 2.0]

    def curve(params: Params, seed: int) -> Iterator[tuple[float, dict[str, float]]]:
        yield lasts[params["n"]], {"y": 0.0}  # type: ignore[index]

    def train(n: int) -> float:
        raise AssertionError

    found = simulate(curve, train=train, space={"n": list(range(6))}, sampler="grid", trials=6, workers=2)
    order = [t.params["n"] for t in found.trials]
    free = [0.0, 0.0]
    for n in order:
        nth = free.index(min(free))
        free[nth] += lasts[n]  # type: ignore[index]
    assert found.makespan_s == max(free)
    assert found.complete
    assert [t.duration_s for t in found.trials] == [lasts[n] for n in order]  # type: ignore[index]


def test_latencies_and_starts_are_added_where_they_belong() -> None:
    found = simulate(trials=2, workers=1, startup_s=100.0, handout_s=5.0, report_s=2.0)
    first, second = found.trials
    assert first.started_at == 100.0  # handed out when its worker was there
    assert first.duration_s == 600.0
    assert first.ended_at == 100.0 + 5.0 + 600.0 + 2.0
    assert second.started_at == first.ended_at
    assert [report.at for report in first.reports] == [100.0 + 5.0 + 60.0 * step + 2.0 for step in range(1, 11)]


def test_the_number_of_workers_follows_its_schedule() -> None:
    found = simulate(trials=12, workers=[(0, 1), (600, 4), (1250, 1)])
    starts = sorted(t.started_at for t in found.trials if t.started_at is not None)
    assert starts[:5] == [0.0, 600.0, 600.0, 600.0, 600.0]
    assert max(starts) > 1250.0
    left = [fact for fact in facts_of(found) if type(fact).__name__ == "Left"]
    assert [fact.reason for fact in left] == ["there are fewer workers now"] * 3  # type: ignore[union-attr]
    assert found.counts() == {"finished": 12}


def test_a_worker_that_is_slow_takes_as_many_times_as_long() -> None:
    found = simulate(trials=6, workers=2, speed=[1.0, 0.25])
    assert {t.duration_s for t in found.trials} == {600.0, 2400.0}
    drawn = simulate(name="drawn", trials=40, workers=40, stragglers=0.5, slowdown=(3, 5))
    slow = [t.duration_s for t in drawn.trials if t.duration_s != 600.0 and t.duration_s is not None]
    assert 10 < len(slow) < 30
    assert all(1800.0 <= lasted <= 3000.0 for lasted in slow)


# --- decisions ------------------------------------------------------------------------------------


def test_a_stop_is_seen_at_the_next_report() -> None:
    found = simulate(stopper="median", grace_s=HOUR, workers=1)
    stopped = [t for t in found.trials if t.state == "stopped"]
    assert stopped
    for fact, after in zip(facts_of(found), facts_of(found)[1:], strict=False):
        if type(fact).__name__ == "Judged":  # one more report, and then its end
            assert type(after).__name__ == "Reported"
            assert (after.trial, after.at) == (fact.trial, fact.at + 60.0)  # type: ignore[union-attr]
    assert all(t.usage is not None and t.usage.wall_s == 60.0 * len(t.reports) for t in stopped)


def test_who_does_not_see_a_stop_in_time_is_ended() -> None:
    found = simulate(stopper="median", grace_s=10.0, workers=1)
    stopped = [t for t in found.trials if t.state == "stopped"]
    assert stopped
    assert all(t.duration_s == 60.0 * len(t.reports) + 10.0 for t in stopped)


def test_an_attempt_that_takes_too_long_is_ended() -> None:
    found = simulate(timeout_s=150.0, trials=1)
    assert (found.trials[0].state, found.trials[0].reason) == ("failed", "it took longer than timeout_s=150")
    assert found.trials[0].duration_s == 150.0


@dataclass
class PauseOnce:
    def decide(self, report: Report, standing: Standing) -> Decision:
        return Decision(Act.PAUSE, "enough for now") if report.step == 3 else GO_ON


def test_a_pause_is_seen_at_the_next_report_and_takes_the_time_of_a_save() -> None:
    found = simulate(stopper=PauseOnce(), trials=2, workers=1, checkpoint_s=25.0)
    assert found.counts() == {"stopped": 2}  # nothing promotes them, so the study's end is theirs
    assert [len(t.reports) for t in found.trials] == [4, 4]
    assert [t.duration_s for t in found.trials] == [265.0, 265.0]


def test_promotion_works_as_it_does_live() -> None:
    def curve(params: Params, seed: int) -> Iterator[tuple[float, dict[str, float]]]:
        for step in range(params["epochs"]):  # type: ignore[arg-type]
            yield 1.0, {"y": params["x"] + step / 100}  # type: ignore[operator]

    def train(x: float, epochs: int) -> float:
        raise AssertionError

    found = simulate(curve, train=train, stopper="hyperband", fidelity="epochs", budget=(1, 9), trials=None)  # type: ignore[arg-type]
    assert found.complete
    assert {t.params["epochs"] for t in found.trials} == {1, 3, 9}
    assert all(len(t.curve) == t.params["epochs"] for t in found.trials)
    promoted = [t for t in found.trials if t.promotes is not None]
    assert promoted
    for trial in promoted:  # from where the one before ended
        before = found.trials[trial.promotes]
        assert trial.duration_s == trial.params["epochs"] - before.params["epochs"]
        assert trial.curve[: len(before.curve)] == before.curve
    anew = simulate(
        curve,  # type: ignore[arg-type]
        train=train,
        stopper=etude.Hyperband(promote="anew"),
        fidelity="epochs",
        budget=(1, 9),
        trials=None,
        name="anew",
    )
    assert [(t.params, t.curve) for t in anew.trials] == [(t.params, t.curve) for t in found.trials]
    assert all(t.duration_s == t.params["epochs"] for t in anew.trials)


def test_a_promoted_trial_whose_course_is_no_longer_starts_over() -> None:
    def curve(params: Params, seed: int) -> Iterator[tuple[float, dict[str, float]]]:
        yield float(params["share"]), {"y": params["x"]}  # type: ignore[arg-type,misc]

    def train(x: float, share: int) -> float:
        raise AssertionError

    found = simulate(curve, train=train, stopper="asha", fidelity="share", budget=(1, 9), trials=12)
    assert any(t.promotes is not None for t in found.trials)
    assert [t.duration_s for t in found.trials] == [float(t.params["share"]) for t in found.trials]
    assert found.saved_epochs == 0


def test_what_a_promoted_trial_carries_on_is_no_epoch_that_was_spared() -> None:
    def curve(params: Params, seed: int) -> Iterator[tuple[float, dict[str, float]]]:
        for epoch in range(params["epochs"]):  # type: ignore[arg-type]
            yield 1.0, {"y": params["x"] + epoch}  # type: ignore[operator]

    def train(x: float, epochs: int) -> float:
        raise AssertionError

    found = simulate(curve, train=train, stopper="asha", fidelity="epochs", budget=(1, 9), trials=12)
    carried_on = [t for t in found.trials if t.promotes is not None]
    assert any(t.duration_s < t.params["epochs"] for t in carried_on)
    assert found.saved_epochs == 0
    assert "Prefixes:" not in found.summary()


def stepwise(params: Params, seed: int) -> Iterator[tuple[float, dict[str, float]]]:
    """Six steps, each of which hangs on what held until then."""
    y = 0.0
    for epoch in range(6):
        y = y / 2 + etude.value_at(params["lr"], epoch)
        yield 10.0, {"y": y}


def stages(*, merged: bool) -> dict[str, Any]:
    changing = etude.piecewise([0.1, 0.2], starts=(0, 2, 4))
    return {"lr": changing if merged else etude.choice(list(changing.grid(2)))}


def never_changing(lr: object) -> float:
    raise AssertionError("a simulated study does not call the training function")


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_trials_go_on_from_common_beginnings(workers: int) -> None:
    tables = []
    for merged in (True, False):
        found = simulate(
            stepwise,
            train=never_changing,
            space=stages(merged=merged),
            sampler="grid",
            trials=None,  # type: ignore[arg-type]
            workers=workers,
            name=f"{'merged' if merged else 'apart'}-{workers}",
        )
        assert found.counts() == {"finished": 8}
        least = 2 * 2 + 4 * 2 + 8 * 2 if merged else 8 * 6
        assert sum(t.duration_s for t in found.trials) == 10.0 * least
        assert found.saved_epochs == 8 * 6 - least
        assert found.makespan_s is not None
        assert workers < 8 or found.makespan_s == 60.0
        tables.append({t.params["lr"]: (t.value, t.curve) for t in found.trials})
    assert tables[0] == tables[1]


def test_common_beginnings_with_failures_come_to_the_same() -> None:
    quiet, failing = (
        simulate(
            stepwise,
            train=never_changing,
            space=stages(merged=True),
            sampler="grid",
            trials=None,  # type: ignore[arg-type]
            workers=3,
            retries=50,
            failures=failures,
            name=f"failures-{failures}",
        )
        for failures in (0.0, 0.4)
    )
    assert any(trial.attempts > 1 for trial in failing.trials)
    assert [(t.params, t.value, t.curve) for t in failing.trials] == [
        (t.params, t.value, t.curve) for t in quiet.trials
    ]


@pytest.mark.parametrize("stopper", ["median", "asha", "hyperband"])
def test_every_decision_and_proposal_can_be_replayed(stopper: str) -> None:
    found = simulate(stopper=stopper, sampler="tpe", trials=30, stragglers=0.5, failures=0.2, report_s=1.0)
    experiment = etude.Experiment(never, metric="y", mode="max")
    space = etude.Space.of(SPACE)
    question = search(experiment, space, trials=30, sampler="tpe", stopper=stopper, seed=7, start=(), constraint=None)
    facts = facts_of(found)
    assert check_decisions(facts, question.plan, metrics=question.metrics) > 0
    proposals = check_proposals(
        facts,
        etude.TPE,
        lambda k, redraw: Request(k, redraw, space, 7),
        metrics=question.metrics,
    )
    assert proposals == 20


# --- what goes wrong ------------------------------------------------------------------------------


def test_a_process_that_dies_costs_an_attempt() -> None:
    found = simulate(failures=0.3, trials=40, retries=9)
    assert found.counts() == {"finished": 40}
    tried = [t.attempts for t in found.trials]
    assert max(tried) > 1
    lost = [fact for fact in facts_of(found) if isinstance(fact, Settled) and fact.turn is Turn.LOST]
    assert len(lost) == sum(tried) - 40
    for fact in lost:
        assert fact.outcome is not None
        assert (fact.outcome.how, fact.reason) == (How.KILLED, "killed: a simulated failure")
        assert 0.0 <= fact.outcome.usage.wall_s < 600.0


def test_losses_are_counted_by_the_driver_as_ever() -> None:
    found = simulate(failures=1.0, trials=2, retries=1)
    assert found.counts() == {"failed": 2}
    assert found.trials[0].reason == "lost 2 times, the last time: killed: a simulated failure"


def test_a_preempted_worker_is_replaced_and_its_trial_run_again() -> None:
    found = simulate(preemptions_per_hour=2.0, trials=30, retries=50, startup_s=30.0)
    assert found.counts() == {"finished": 30}
    left = [fact for fact in facts_of(found) if type(fact).__name__ == "Left"]
    assert left
    assert {fact.reason for fact in left} == {"preempted"}  # type: ignore[union-attr]
    assert max(t.attempts for t in found.trials) > 1


def test_a_worker_that_keeps_losing_what_does_well_elsewhere_is_let_go() -> None:
    found = simulate(failures=0.45, trials=60, retries=50, workers=3)
    gone = [fact for fact in facts_of(found) if isinstance(fact, Quarantined)]
    assert gone
    assert found.counts() == {"finished": 60}


def test_a_curve_that_raises_fails_its_trial_alone() -> None:
    def curve(params: Params, seed: int) -> Iterator[tuple[float, dict[str, float]]]:
        yield 1.0, {"y": 0.5}
        if params["x"] > 0.7:  # type: ignore[operator]
            raise ValueError("too far out")
        if params["x"] < 0.2:  # type: ignore[operator]
            raise etude.Invalid("too near")

    found = simulate(curve, trials=30)
    assert set(found.counts()) == {"finished", "failed", "invalid"}
    failed = next(t for t in found.trials if t.state == "failed")
    assert failed.reason == "ValueError: too far out"
    assert "raise ValueError" in failed.traceback
    assert next(t for t in found.trials if t.state == "invalid").reason == "too near"


@pytest.mark.parametrize("retries", [0, 2])
def test_a_curve_that_runs_out_of_memory_is_called_so_and_tried_again(retries: int) -> None:
    def curve(params: Params, seed: int) -> Iterator[tuple[float, dict[str, float]]]:
        yield 1.0, {"y": 0.5}
        if params["x"] > 0.7:  # type: ignore[operator]
            raise MemoryError("too wide")

    found = simulate(curve, trials=30, retries=retries)
    failed = [trial for trial in found.trials if trial.state == "failed"]
    assert failed
    assert {trial.attempts for trial in failed} == {1 + retries}
    assert all(trial.reason.endswith("MemoryError: too wide") for trial in failed)
    survival = found.threats()["survival bias"]
    assert survival.finding.startswith(f"{len(failed)} trials of 30 failed ({len(failed)} out of memory)")


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            (1.0, {"y": "much"}),
            "The curve yielded (1.0, {'y': 'much'}) (tuple), which is no step (text is no number). Yield (seconds, "
            "{metric: value}): the seconds since the step before, and what it reports.",
        ),
        (
            (-1.0, {"y": 1.0}),
            "The curve yielded (-1.0, {'y': 1.0}) (tuple), which is no step (seconds have to be a number from 0 to "
            "1e+12). Yield (seconds, {metric: value}): the seconds since the step before, and what it reports.",
        ),
        (
            (1.0, {"z": 1.0}),
            "The metric 'y' never came: the training function returned nothing, and reported 'z'. Return a number or "
            "{'y': ...}, or call run.report(y=...) at least once.",
        ),
    ],
)
def test_a_curve_that_yields_nonsense_fails_its_trial(step: Any, said: str) -> None:
    def curve(params: Params, seed: int) -> Iterator[Any]:
        yield step if params["x"] < 0.5 else (1.0, {"y": 1.0})  # type: ignore[operator]

    found = simulate(curve, trials=12, workers=12)
    failed = [t for t in found.trials if t.state == "failed"]
    assert {t.reason for t in failed} == {said}
    assert len(failed) == sum(t.params["x"] < 0.5 for t in found.trials)  # type: ignore[operator]


def test_what_a_curve_returns_is_the_result() -> None:
    def curve(params: Params, seed: int) -> Any:
        yield 1.0, {"y": 0.25}
        yield 2.0, {}  # saving the model, say
        return {"y": 0.75, "size": 3}

    found = simulate(curve, trials=1)
    assert (found.best.value, found.best.metrics, found.best.duration_s) == (0.75, {"size": 3}, 3.0)


def test_a_sampler_that_thinks_now_and_then_is_told_all_the_same() -> None:
    class Odd:
        def __init__(self) -> None:
            self.ended = 0

        def needs_process(self, k: int) -> bool:
            return k % 2 == 1

        def tell(self, told: Any) -> None:
            self.ended += told.state == "finished"

        def suggest(self, request: Any) -> Params:
            return {"x": min(1.0, self.ended / 100)} if request.k % 2 else {"x": 0.5 + request.k / 1000}

    found = simulate(sampler=Odd(), trials=20, workers=1)
    assert found.counts() == {"finished": 20}
    assert [t.params["x"] for t in found.trials[5::2]] == [k / 100 for k in range(5, 20, 2)]


def test_a_sampler_that_fails_ends_the_study_with_an_error() -> None:
    class Broken:
        def tell(self, told: object) -> None:
            """Nothing."""

        def suggest(self, request: object) -> Params:
            raise RuntimeError("no idea")

    with pytest.raises(etude.StudyError, match="no idea"):
        simulate(sampler=Broken())


def test_a_constraint_is_asked_as_ever() -> None:
    found = simulate(constraint=lambda x: x < 0.1 or "too large")
    assert {t.reason for t in found.trials if t.state == "invalid"} == {"too large"}  # nine draws in a row were
    assert all(t.params["x"] < 0.1 for t in found.trials if t.state == "finished")  # type: ignore[operator]
    assert "finished" in found.counts()


# --- the same again -------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_equal_calls_give_equal_journals(sampler: str) -> None:
    options: dict[str, Any] = {
        "sampler": sampler, "stopper": "asha", "trials": 40, "workers": [(0, 3), (500, 9)], "stragglers": 0.3,
        "failures": 0.2, "preemptions_per_hour": 1.0, "startup_s": 7.0, "handout_s": 0.5, "report_s": 0.25, "seed": 3,
    }  # fmt: skip
    first, second = simulate(name="first", **options), simulate(name="second", **options)
    assert rows_of(first) == rows_of(second)
    other = simulate(name="other", **{**options, "seed": 4})
    assert rows_of(first) != rows_of(other)


def test_a_complete_study_is_returned_as_it_is() -> None:
    first, again = simulate(), simulate()
    assert again.rows() == first.rows()
    assert again.complete
    assert again.elapsed_s == first.elapsed_s


def test_an_interrupted_study_goes_on() -> None:
    at_work: queue.SimpleQueue[Any] = queue.SimpleQueue()
    calls = itertools.count(1)
    known = threading.Event()

    def curve(params: Params, seed: int) -> Iterator[tuple[float, dict[str, float]]]:
        if threading.current_thread() is threading.main_thread():
            return rising(params, seed)  # it is only tried
        known.wait(60)
        if next(calls) == 30:
            at_work.get().study.stop()
        return rising(params, seed)

    def tune(**given: Any) -> Search:
        engine = etude.Simulated(curves=curve, workers=4)
        return experiment.tune(SPACE, trials=50, sampler="random", stopper="none", name="late", engine=engine, **given)

    experiment = etude.Experiment(never, metric="y", mode="max")
    first = tune(wait=False)
    at_work.put(first._handle)
    known.set()
    first.wait()
    assert not first.complete
    assert first.counts()["queued"] == 5  # four that were at work, and one in hand
    ended = {t.number: t.ended_at for t in first.trials if t.state == "finished"}
    second = tune()
    assert second.counts() == {"finished": 50}
    assert {t.number: t.ended_at for t in second.trials if t.number in ended} == ended
    assert "the same call goes on" in first.summary().lower()


def test_a_simulation_that_was_killed_goes_on(tmp_path: Path) -> None:
    path = write_script(
        tmp_path,
        """
        import etude

        def curve(params, seed):
            for step in range(20):
                yield 60.0, {"y": params["x"] - 1 / (1 + step)}

        def train(x):
            raise AssertionError

        if __name__ == "__main__":
            experiment = etude.Experiment(train, metric="y", mode="max")
            engine = etude.Simulated(curves=curve, workers=20)
            found = experiment.tune(
                {"x": etude.uniform(0, 1)}, trials=4000, sampler="random", stopper="none", name="killed", engine=engine
            )
            print(found.counts())
        """,
    )
    folder = tmp_path / "studies" / "killed"

    def reports() -> int:
        with contextlib.suppress(sqlite3.Error, etude.EtudeError), contextlib.closing(Journal.read(folder)) as journal:
            return journal.seq
        return 0

    with running(start_script(path)) as process:
        wait_for(lambda: reports() > 20_000)
        process.kill()
        process.wait()
    assert 0 < etude.open(folder).counts()["finished"] < 4000
    done = run_script(path)
    assert done.returncode == 0, done.stderr
    found = etude.open(folder)
    assert found.complete
    assert found.counts() == {"finished": 4000}


def test_a_simulated_study_and_a_real_one_are_not_mixed() -> None:
    simulate(trials=1)
    experiment = etude.Experiment(never, metric={"y": "max"})
    with pytest.raises(etude.DefinitionChangedError, match="removed engine: simulated"):
        experiment.tune(SPACE, trials=1, sampler="random", stopper="none", seed=7, name="simulated")
    with pytest.raises(etude.DefinitionChangedError, match="engine workers: 4 -> 8"):
        simulate(trials=1, workers=8)


def test_without_a_name_other_options_make_another_study() -> None:
    experiment = etude.Experiment(never, metric="y", mode="max")

    def name(**options: Any) -> str:
        engine = etude.Simulated(curves=rising, **options)
        return experiment.tune(SPACE, trials=1, sampler="random", engine=engine).name

    assert name(workers=2) == name(workers=2)
    assert name(workers=2) != name(workers=3)


# --- how it is marked -----------------------------------------------------------------------------


def test_everything_says_that_it_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    from typer.testing import CliRunner

    from etude.cli import app

    found = simulate(trials=3, workers=1)
    assert found.simulated
    assert (
        found.summary().splitlines()[1]
        == "Simulated: nothing was trained, and times are virtual, 30 min 0 s of them in all."
    )
    assert all(row["simulated"] is True for row in found.rows())
    opened = etude.open(found.folder)
    assert opened.simulated
    assert opened.makespan_s == 1800.0

    def said(*command: str) -> str:
        result = CliRunner().invoke(app, list(command))
        assert result.exit_code == 0, result.output
        return result.output

    assert "complete, simulated" in said("ls")
    assert '"simulated": true' in said("ls", "--json")
    shown = said("show", "simulated")
    assert "simulated:  curves=a function of its own, workers=1" in shown
    assert said("export", "simulated").splitlines()[0] == "trial,state,y,x,seed,same_as,simulated"
    assert said("export", "simulated", "--reports", "--times").splitlines()[:2] == [
        "trial,step,at,y,simulated",
        f"0,1,60.0,{found.trials[0].curve[0]!r},true",
    ]


def test_no_command_promises_to_go_on_with_it() -> None:
    found = simulate(trials=2)
    call = found.meta["call"]
    assert call["engine"] == "Simulated"
    assert in_no_journal(call) == ["an engine with options (Simulated)"]
    assert in_no_journal({**call, "engine": "local"}) == []


def test_a_study_that_was_run_says_nothing_of_it() -> None:
    experiment = etude.Experiment(lambda x: x, metric="y", mode="max")
    found = experiment.tune(SPACE, trials=1, workers=1, sampler="random", name="real")
    assert not found.simulated
    assert "simulated" not in found.rows()[0]
    assert "imulated" not in found.summary()
    assert found.makespan_s is not None


# --- calls that cannot be -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"engine": "locl"},
            "engine='locl' is not known. Did you mean 'local'? There are: 'cluster', 'local', 'ray', 'spark', and "
            "etude.Simulated(curves=...).",
        ),
        (
            {"engine": "local(cores=2)"},
            "engine='local(cores=2)' cannot be made so: LocalEngine.__init__() got an unexpected keyword argument "
            "'cores'.",
        ),
        (
            {"engine": "cluster(port=now())"},
            "engine='cluster(port=now())' is no name with options that are Python literals. Write it as in "
            "cluster(option=1).",
        ),
        (
            {"engine": "simulated"},
            "engine='simulated' does not say what trials would report. Pass engine=etude.Simulated(curves=...).",
        ),
        (
            {"engine": "simulated2"},
            "engine='simulated2' is not known. Did you mean 'simulated'? There are: 'cluster', 'local', 'ray', "
            "'spark', and etude.Simulated(curves=...).",
        ),
        (
            {"engine": "ray://head:10001"},
            "engine='ray://head:10001' is an address. Pass engine=\"ray(address='HOST:6379')\", with what `ray start "
            "--head` has told.",
        ),
        (
            {"engine": 3},
            "engine=3 (int) is no engine. Pass a name ('cluster', 'local', 'ray', 'spark'), "
            "etude.Simulated(curves=...), or an object with start, end and stop.",
        ),
        (
            {"engine": etude.Simulated(curves=rising, workers=500), "workers": 4},
            "workers=4, and engine=Simulated(...) has 500 of its own. Say it once: leave workers= out.",
        ),
    ],
)
def test_a_call_that_cannot_be_is_refused(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    experiment = etude.Experiment(never, metric="y", mode="max")
    with pytest.raises(etude.ConfigError) as refused:
        experiment.tune(SPACE, trials=1, **given)
    assert str(refused.value) == said
    assert not os.path.exists(os.environ["ETUDE_STUDIES"])


def test_the_signature_of_the_training_function_counts() -> None:
    with pytest.raises(etude.SignatureError, match="width"):
        simulate(space={**SPACE, "width": [1, 2]})


def test_workers_may_be_said_by_the_call() -> None:
    experiment = etude.Experiment(never, metric="y", mode="max")
    engine = etude.Simulated(curves=rising)
    found = experiment.tune(SPACE, trials=6, workers=3, sampler="random", stopper="none", engine=engine)
    assert found.makespan_s == 1200.0


# --- whatever the options -------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(
    trials=st.integers(1, 30),
    schedule=st.lists(st.integers(0, 6), min_size=0, max_size=3),
    last=st.integers(1, 6),
    stopper=st.sampled_from(["none", "median", "asha", "hyperband"]),
    failures=st.sampled_from([0.0, 0.3, 1.0]),
    preemptions=st.sampled_from([0.0, 6.0]),
    latency=st.sampled_from([0.0, 3.0, 90.0]),
    stragglers=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 5),
)
def test_every_study_comes_to_an_end(
    trials: int,
    schedule: Sequence[int],
    last: int,
    stopper: str,
    failures: float,
    preemptions: float,
    latency: float,
    stragglers: float,
    seed: int,
) -> None:
    workers = [(900.0 * nth, n) for nth, n in enumerate([*schedule, last])]
    found = simulate(
        name=f"study-{os.urandom(6).hex()}",
        trials=trials,
        workers=workers,
        stopper=stopper,
        failures=failures,
        preemptions_per_hour=preemptions,
        report_s=latency,
        handout_s=latency,
        stragglers=stragglers,
    )
    assert found.complete
    assert set(found.counts()) <= {"finished", "stopped", "failed"}
    found._history.check()
    times = [fact.at for fact in facts_of(found)]
    assert times == sorted(times)
