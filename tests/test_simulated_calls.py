"""What a simulation answers: the call that it was given and no other, and nothing that its curves do not say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.test_simulation import SPACE, never, rising, simulate
from typer.testing import CliRunner

import etude
from etude.engines import virtual
from etude.results.finding import studies_folder
from etude.results.search import Search

HOUR = 3600.0
RECORD: dict[str, Any] = {"params": {"x": 0.5}, "seconds": [60.0], "metrics": {"y": [1.0]}}


def tune(*, of_engine: Mapping[str, Any] | None = None, **given: Any) -> Search:
    """Simulate a study that is named by its definition."""
    engine = etude.Simulated(**{"curves": rising, **(of_engine or {})})
    experiment = etude.Experiment(never, metric="y", mode="max")
    return experiment.tune(SPACE, **{"trials": 12, "workers": 4, "sampler": "random", "engine": engine, **given})


def refused(**given: Any) -> str:
    """Return why a call is refused, before anything is launched."""
    with pytest.raises(etude.ConfigError) as error:
        tune(**given)
    assert not studies_folder().exists()
    return str(error.value)


# --- one call, one simulation ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"trials": 8},
        {"workers": 2},
        {"retries": 0},
        {"timeout_s": 500.0},
        {"grace_s": 0.5},
        {"deadline_s": 900.0},
        {"max_failures": 0},
        {"max_cost": 1.0, "price_per_hour": 3.0},
    ],
    ids=" ".join,
)
def test_a_call_with_another_option_is_answered_by_another_simulation(given: dict[str, Any]) -> None:
    of_engine = {"failures": 0.3, "seed": 5}
    plain = {"of_engine": of_engine, "stopper": "median"}
    tune(**plain)
    after = tune(**plain, **given)
    assert after.name != tune(**plain).name
    alone = tune(**plain, **given, name="alone")
    assert [t.ended_at for t in after.trials] == [t.ended_at for t in alone.trials]
    assert (after.rows(), after.elapsed_s, after.limit) == (alone.rows(), alone.elapsed_s, alone.limit)


def test_the_same_said_otherwise_is_the_same_simulation() -> None:
    first = tune(timeout_s=700)
    assert tune(timeout_s=700.0).name == first.name
    assert tune(workers=None, of_engine={"workers": 4}, timeout_s=700).name == first.name


def test_a_named_one_refuses_another_call_and_shows_the_difference() -> None:
    simulate(workers=2, timeout_s=900)
    with pytest.raises(etude.DefinitionChangedError) as changed:
        simulate(workers=3, trials=25, retries=0, timeout_s=1000)
    assert str(changed.value).split("\n\n")[1].splitlines() == [
        "engine workers: 2 -> 3",
        "retries: 2 -> 0",
        "timeout_s: 900 -> 1000",
        "trials: 20 -> 25",
    ]


def test_where_a_limit_ends_it_a_larger_one_is_another_study() -> None:
    limited = tune(deadline_s=900.0)
    assert (limited.limit, limited.elapsed_s) == ("deadline_s", 900.0)
    assert limited.summary().splitlines()[-1] == (
        "Not complete: deadline_s=900 is reached: the study was at work for 15 min 0 s, over all its runs. A larger "
        "deadline_s is another study."
    )
    assert tune(deadline_s=2000.0).elapsed_s == tune().elapsed_s == 1800.0


# --- how long it took -----------------------------------------------------------------------------


def test_lost_attempts_and_the_start_of_workers_are_part_of_the_time() -> None:
    found = simulate(trials=1, workers=1, failures=0.7, retries=50, seed=3, startup_s=100.0)
    (trial,) = found.trials
    assert trial.attempts > 2
    assert trial.ended_at is not None
    assert found.makespan_s == trial.ended_at - 100.0
    assert found.elapsed_s == trial.ended_at
    opened = etude.open(found.folder)
    assert (opened.makespan_s, opened.elapsed_s) == (found.makespan_s, found.elapsed_s)


def test_the_summary_says_the_time_with_the_start_of_the_workers() -> None:
    found = simulate(trials=1, workers=1, startup_s=HOUR)
    assert found.summary().splitlines()[1] == (
        "Simulated: nothing was trained, and times are virtual, 1 h 10 min of them in all."
    )


# --- what is no part of a simulation --------------------------------------------------------------


def test_a_mirror_is_refused() -> None:
    assert refused(mirror="s3://bucket/studies") == (
        "mirror='s3://bucket/studies' (str) was given for a simulated study, which is not mirrored: the same call "
        "gives it again on any machine. Leave mirror= out."
    )


def test_a_mirror_for_all_studies_is_left_aside_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETUDE_MIRROR", "memory://copies")
    found = tune(progress=True)
    assert found.complete
    assert found.meta["call"]["mirror"] is None
    said = " ".join(capfd.readouterr().err.split())
    assert "ETUDE_MIRROR=memory://copies was left aside: a simulated study is not mirrored." in said


def test_debug_refuses_it() -> None:
    from etude.cli import app

    simulate(trials=2)
    result = CliRunner().invoke(app, ["debug", "simulated", "0"])
    assert result.exit_code == 2
    assert " ".join(result.stderr.split()).endswith(
        "Study simulated is simulated: its trials were not run, so there is nothing to run again. What they reported "
        "came from its curves; call those to debug them."
    )


# --- curves that say nothing ----------------------------------------------------------------------


def test_a_curve_that_cannot_be_called_is_refused() -> None:
    said = refused(of_engine={"curves": lambda params: iter([])})
    assert said.startswith("curves=<function ")
    assert said.endswith(
        "takes 1 positional argument but 2 were given. Pass a function curve(params, seed) that yields (seconds, "
        "{metric: value}) for each step."
    )


def test_a_curve_that_yields_nothing_that_could_be_read_is_refused() -> None:
    assert "TypeError: 'NoneType' object is not iterable." in refused(of_engine={"curves": lambda params, seed: None})
    assert "(seconds have to be a number from 0 to 1e+12)" in refused(
        of_engine={"curves": lambda params, seed: [(1e308, {"y": 1.0})]}
    )


def test_a_family_whose_steps_no_parameter_says_is_refused() -> None:
    said = refused(of_engine={"curves": etude.SyntheticCurves(steps="nope")})
    assert "gave none of 16 configurations a course" in said
    assert "steps='nope' should say how many steps a trial has, and the configuration has nope=None." in said


def test_a_curve_that_knows_some_configurations_is_taken() -> None:
    def curve(params: Mapping[str, Any], seed: int) -> Iterator[tuple[float, dict[str, float]]]:
        if params["x"] > 0.5:
            raise ValueError("too far out")
        yield 1.0, {"y": 1.0}

    assert set(simulate(curve, trials=30).counts()) == {"finished", "failed"}


def test_records_that_have_no_place_in_the_space_are_refused() -> None:
    records = [{**RECORD, "params": {"z": 0.1}}, {**RECORD, "params": {"x": "far", "z": 0.2}}]
    assert refused(of_engine={"curves": etude.RecordedCurves(records)}) == (
        "None of the 2 records can be placed in the space: it searches x, and they have x, z, so every trial would go "
        "like the first of them. Call parameters in the records as in the space, with values of its kind."
    )


def test_records_that_lack_a_parameter_are_said(capfd: pytest.CaptureFixture[str]) -> None:
    curves = etude.RecordedCurves([RECORD, {**RECORD, "params": {"x": float("nan")}}, {**RECORD, "params": {}}])
    found = tune(of_engine={"curves": curves}, progress=True)
    assert found.counts() == {"finished": 12}
    said = " ".join(capfd.readouterr().err.split())
    assert "Of 3 records, 2 cannot be placed by 'x': there they are as far from every trial as can be." in said


# --- curves without an end ------------------------------------------------------------------------


def test_a_trial_whose_steps_take_no_time_fails() -> None:
    def curve(params: Mapping[str, Any], seed: int) -> Iterator[tuple[float, dict[str, float]]]:
        yield 1.0, {"y": 1.0}
        while params["x"] > 0.5:
            yield 0.0, {}

    found = simulate(curve, trials=8)
    assert {t.reason for t in found.trials if t.state == "failed"} == {
        "The curve yielded 10,000 steps in a row that take no time, and would never end. Yield seconds above 0, or let "
        "it come to an end."
    }
    assert len(found.trials) == found.counts()["failed"] + found.counts()["finished"] == 8


def endless(params: Mapping[str, Any], seed: int) -> Iterator[tuple[float, dict[str, float]]]:
    """Never report anything."""
    while True:
        yield 1e-3, {}


def test_a_study_whose_trials_never_report_can_be_stopped() -> None:
    found = simulate(endless, trials=4, wait=False)
    found.stop()  # waits until it has
    assert (found.complete, found.why) == (False, "stopped by hand")


def test_a_curve_without_an_end_can_lose_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "LONGEST", 5_000)  # a million in earnest
    found = simulate(endless, trials=1, workers=1, failures=1.0, retries=0)
    assert found.trials[0].reason == "lost once, the last time: killed: a simulated failure"
