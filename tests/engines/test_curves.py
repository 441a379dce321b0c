"""Curve sources: recorded runs, a synthetic family, and the options of the simulated engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from benchmarks import recorded

import etude
from etude.core.errors import ConfigError
from etude.core.metrics import Metrics
from etude.engines.curves import CurveSource, NeedsSpace
from etude.tune.unit import placed

SPACE = {"lr": etude.loguniform(0.01, 1.0), "opt": ["sgd", "adam"], "fixed": 3}
SEARCHED = {name: SPACE[name] for name in ("lr", "opt")}


def record(lr: float, opt: str, loss: float, *, seconds: float = 1.0, steps: int = 2) -> dict[str, Any]:
    return {
        "params": {"lr": lr, "opt": opt},
        "seconds": [seconds] * steps,
        "metrics": {"loss": [loss] * steps},
    }


RECORDS = [record(0.01, "sgd", 1.0), record(0.1, "sgd", 2.0, seconds=3.0), record(1.0, "adam", 4.0, steps=3)]


def within(
    source: NeedsSpace, space: Mapping[str, Any] = SPACE, *, mode: Any = "min", metric: str = "loss"
) -> CurveSource:
    read = etude.Space.of(space)
    return source.within(lambda params: placed(read, params), Metrics({metric: mode}))


# --- recorded -------------------------------------------------------------------------------------


def test_a_trial_goes_as_the_nearest_record_did() -> None:
    curve = within(etude.RecordedCurves(RECORDS))
    assert list(curve({"lr": 0.011, "opt": "sgd"}, 0)) == [(1.0, {"loss": 1.0})] * 2
    assert list(curve({"lr": 0.2, "opt": "sgd"}, 0)) == [(3.0, {"loss": 2.0})] * 2  # on a logarithmic scale
    assert list(curve({"lr": 0.2, "opt": "adam"}, 0)) == [(1.0, {"loss": 4.0})] * 3
    assert list(curve({"lr": 50.0, "opt": "adam"}, 0)) == [(1.0, {"loss": 4.0})] * 3  # beyond the space as well


def test_several_are_averaged_by_how_near_they_are() -> None:
    curve = within(etude.RecordedCurves(RECORDS[:2], neighbours=2))
    middle = list(curve({"lr": math.sqrt(0.001), "opt": "sgd"}, 0))
    assert middle == [(pytest.approx(2.0), {"loss": pytest.approx(1.5)})] * 2
    assert list(curve({"lr": 0.1, "opt": "sgd"}, 0)) == [(3.0, {"loss": 2.0})] * 2  # what was measured is as it was


def test_an_average_goes_as_far_as_the_shortest() -> None:
    curve = within(etude.RecordedCurves(RECORDS, neighbours=3))
    assert len(list(curve({"lr": 0.3, "opt": "adam"}, 0))) == 2


def test_a_parameter_may_say_after_how_many_steps_a_trial_ends() -> None:
    curve = within(etude.RecordedCurves(RECORDS, steps="epochs"))
    assert len(list(curve({"lr": 1.0, "opt": "adam", "epochs": 1}, 0))) == 1
    assert len(list(curve({"lr": 1.0, "opt": "adam", "epochs": 9}, 0))) == 3
    with pytest.raises(ConfigError) as refused:
        list(curve({"lr": 1.0, "opt": "adam"}, 0))
    assert str(refused.value) == (
        "steps='epochs' should say how many steps a trial has, and the configuration has epochs=None. Name a "
        "parameter that is a whole number from 1."
    )


def test_records_are_told_apart_by_what_is_in_them() -> None:
    assert repr(etude.RecordedCurves(RECORDS)) == repr(etude.RecordedCurves([dict(r) for r in RECORDS]))
    assert repr(etude.RecordedCurves(RECORDS)) != repr(etude.RecordedCurves(RECORDS[:2]))
    assert repr(etude.RecordedCurves(RECORDS, neighbours=2)).endswith(", neighbours=2)")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "RecordedCurves([]) has no records, so no trial could go like one. Give at least one."),
        (
            [{"lr": 3}],
            "A record is {'lr': 3} (dict), which is none. Write {'params': {...}, 'seconds': [...], 'metrics': "
            "{'loss': [...]}}: one number for each step, the seconds since the step before.",
        ),
        (
            [{"params": {"lr": 3}, "seconds": [1.0], "metrics": {"loss": [1.0, 2.0]}}],
            "The record of {'lr': 3} has seconds for 1 step, and metrics for [2] of them. Give as many values of each "
            "as there are steps, at least one.",
        ),
        (
            [{"params": {"lr": 3}, "seconds": [1.0, -1], "metrics": {"loss": [1.0, 2.0]}}],
            "The record of {'lr': 3} cannot be gone along. The curve yielded (-1, {'loss': 2.0}) (tuple), which is no "
            "step (seconds have to be a number from 0 to 1e+12). Yield (seconds, {metric: value}): the seconds since "
            "the step before, and what it reports.",
        ),
        (
            [{"params": {"lr": 3}, "seconds": ["a"], "metrics": {"loss": [1.0]}}],
            "The record of {'lr': 3} cannot be gone along. The curve yielded ('a', {'loss': 1.0}) (tuple), which is no "
            "step (text is no number). Yield (seconds, {metric: value}): the seconds since the step before, and what "
            "it reports.",
        ),
    ],
)
def test_records_that_cannot_be_are_refused(given: list[Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        etude.RecordedCurves(given)
    assert str(refused.value) == said


def test_a_past_study_gives_its_curves() -> None:
    def train(lr: float, opt: str, run: Any) -> dict[str, float]:
        for step in range(3):
            run.report(loss=lr / (1 + step))
        return {"loss": lr / 4, "size": 7}

    experiment = etude.Experiment(train, metric="loss", mode="min")
    real = experiment.tune(SEARCHED, trials=6, workers=1, sampler="random", stopper="none", name="real")
    curves = etude.RecordedCurves.of(real)
    found = experiment.tune(
        SEARCHED,
        trials=6,
        workers=1,
        sampler="random",
        stopper="none",
        name="again",
        engine=etude.Simulated(curves=curves),
    )
    assert [t.value for t in found.trials] == [t.value for t in real.trials]
    assert [list(t.curve) for t in found.trials] == [list(t.curve) for t in real.trials]
    assert [t.metrics for t in found.trials] == [t.metrics for t in real.trials]
    assert found.makespan_s == pytest.approx(sum((t.ended_at or 0) - (t.started_at or 0) for t in real.trials))


def test_a_study_in_which_nothing_ran_to_its_end_gives_none() -> None:
    class Empty:
        name = "empty"
        trials: tuple[()] = ()

    with pytest.raises(ConfigError) as refused:
        etude.RecordedCurves.of(Empty())
    assert str(refused.value) == (
        "Study 'empty' has no trial that ran to its end, so there is no curve to go by. Give a study in which some "
        "finished."
    )


@pytest.mark.skipif(not recorded.FILE.exists(), reason="the recorded curves are not here")
def test_real_curves_are_gone_along() -> None:
    records = recorded.records()
    curve = within(etude.RecordedCurves(records), recorded.space(), metric="error")
    for run in records[::20]:
        course = list(curve(run["params"], 0))
        assert [metrics["error"] for _, metrics in course] == run["metrics"]["error"]
        assert [seconds for seconds, _ in course] == run["seconds"]


# --- synthetic ------------------------------------------------------------------------------------


def losses(curve: CurveSource, lr: float, seed: int = 0) -> list[float]:
    return [metrics["loss"] for _, metrics in curve({"lr": lr, "opt": "sgd"}, seed)]


def test_a_synthetic_curve_falls_and_hangs_on_configuration_and_seed_alone() -> None:
    curve = within(etude.SyntheticCurves(noise=0.0, steps=20))
    falling = losses(curve, 0.1)
    assert falling == sorted(falling, reverse=True)
    assert falling == losses(curve, 0.1)
    assert falling != losses(curve, 0.2)
    noisy = within(etude.SyntheticCurves(noise=0.1))
    assert losses(noisy, 0.1) == losses(noisy, 0.1) != losses(noisy, 0.1, seed=1)
    assert losses(noisy, 0.1) != losses(within(etude.SyntheticCurves(noise=0.1, seed=1)), 0.1)


def test_what_is_to_be_large_rises() -> None:
    loss = within(etude.SyntheticCurves())
    accuracy = within(etude.SyntheticCurves(), mode="max", metric="accuracy")
    rising = [metrics["accuracy"] for _, metrics in accuracy({"lr": 0.1, "opt": "sgd"}, 0)]
    assert rising == [1.0 - value for value in losses(loss, 0.1)]


def test_curves_cross_if_asked_to() -> None:
    def crossings(crossing: float) -> int:
        curve = within(etude.SyntheticCurves(noise=0.0, crossing=crossing))
        found = [losses(curve, 0.01 * 1.1**n) for n in range(40)]
        pairs = [(a, b) for nth, a in enumerate(found) for b in found[:nth]]
        return sum((a[1] - b[1]) * (a[-1] - b[-1]) < 0 for a, b in pairs)

    assert crossings(0.0) == 0 < crossings(1.0)


def test_a_share_diverges() -> None:
    curve = within(etude.SyntheticCurves(diverging=0.3))
    diverged = sum(math.isnan(losses(curve, 0.01 + n / 300)[-1]) for n in range(300))
    assert 60 < diverged < 120


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": 0}, "steps=0 cannot be: a trial without steps would never report. Pass steps=1 or more."),
        ({"seconds": 0}, "seconds=0 (int) cannot be. Pass a number above 0."),
        ({"noise": -1}, "noise=-1 (int) cannot be. Pass a number from 0."),
        ({"diverging": 2}, "diverging=2 (int) is no share. Pass a number from 0 to 1."),
    ],
)
def test_options_of_a_family_are_checked(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        etude.SyntheticCurves(**options)
    assert str(refused.value) == said


# --- the engine's options -------------------------------------------------------------------------


def flat(params: Any, seed: int) -> Any:
    yield 1.0, {"loss": 1.0}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"curves": 3},
            "curves=3 (int) is no curve source. Pass a function curve(params, seed) that yields (seconds, {metric: "
            "value}) for each step, etude.RecordedCurves(...) or etude.SyntheticCurves(...).",
        ),
        ({"workers": 0}, "workers=0 cannot be: nobody would run the trials. Pass workers=1 or more."),
        (
            {"workers": "many"},
            "workers='many' (str) is neither a number nor a schedule. Pass workers=8, or workers=[(0, 8), (3600, 32)]: "
            "from second 0 on 8, from second 3600 on 32.",
        ),
        (
            {"workers": [(0, 8), (60, 0)]},
            "workers=[(0, 8), (60, 0)] (list) is no schedule: it begins at second 0, its times rise, and at its end "
            "there is at least one worker, or some trials would wait for ever. Write [(0, 8), (3600, 32)].",
        ),
        ({"startup_s": -1}, "startup_s=-1 (int) cannot be. Pass a number from 0 to 1e+12."),
        ({"startup_s": None}, "startup_s=None (NoneType) cannot be. Pass a number from 0 to 1e+12."),
        ({"report_s": 1e308}, "report_s=1e+308 (float) cannot be. Pass a number from 0 to 1e+12."),
        (
            {"handout_s": 10**400},
            f"handout_s=1{'0' * 76}... (int) cannot be. Pass a number from 0 to 1e+12.",
        ),
        ({"workers": 10**30}, f"workers=1{'0' * 30} does not fit into 64 bits. Pass a smaller one."),
        (
            {"workers": [(0, 1), (10**30, 2)]},
            f"workers=[(0, 1), (1{'0' * 30}, 2)] (list) is no schedule: it begins at second 0, its times rise, and at "
            "its end there is at least one worker, or some trials would wait for ever. Write [(0, 8), (3600, 32)].",
        ),
        ({"failures": 1.5}, "failures=1.5 (float) is no share. Pass a number from 0 to 1."),
        (
            {"slowdown": (0.5, 2)},
            "slowdown=(0.5, 2) (tuple) is no pair of factors from 1 to 1e+09, the smaller one first. Write (2, 10).",
        ),
        (
            {"slowdown": 5},
            "slowdown=5 (int) is no pair of factors from 1 to 1e+09, the smaller one first. Write (2, 10).",
        ),
        (
            {"slowdown": (1, 10**400)},
            f"slowdown=(1, 1{'0' * 72}... (tuple) is no pair of factors from 1 to 1e+09, the smaller one first. "
            "Write (2, 10).",
        ),
        (
            {"speed": [1.0], "stragglers": 0.1},
            "speed and stragglers=0.1 both say how fast workers are. Pass one of them.",
        ),
        *(
            (
                {"speed": speed},
                f"speed={said} has to be a list of numbers from 1e-09 to 1e+09, at least one, or a function.",
            )
            for speed, said in (
                ([0.0], "[0.0] (list)"),
                ([], "[] (list)"),
                (5, "5 (int)"),
                ("fast", "'fast' (str)"),
                ([float("inf")], "[inf] (list)"),
                ([1e-300], "[1e-300] (list)"),
            )
        ),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        etude.Simulated(**{"curves": flat, **options})
    assert str(refused.value) == said


def test_a_speed_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        etude.Simulated(curves=flat, speed=lambda nth: 0.0).slowness(3)
    assert str(refused.value) == "speed(3) returned 0.0 (float), which is no speed. Pass numbers from 1e-09 to 1e+09."


def test_an_engine_says_what_it_was_given() -> None:
    engine = etude.Simulated(curves=flat, workers=8, stragglers=0.1)
    assert engine.meta == {
        "name": "simulated",
        "curves": "a function of its own",
        "workers": "8",
        "stragglers": "0.1",
    }
    assert set(engine.functions) == {"curve"}
    assert etude.Simulated(curves=etude.SyntheticCurves(steps=3)).meta["curves"].startswith("SyntheticCurves(steps=3")
