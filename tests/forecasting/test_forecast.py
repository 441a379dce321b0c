"""A forecast against what is true: synthetic trials of which everything is known."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import etude
from etude.core.errors import ConfigError, StudyError
from etude.core.events import Params
from etude.core.metrics import Metrics
from etude.core.text import brief
from etude.engines.curves import Record
from etude.forecasting.forecast import foretold
from etude.forecasting.measured import Evidence, MeasuredTrial, at_a_time
from etude.forecasting.replay import replay
from etude.forecasting.resample import Resample, continued, from_few, length, towards
from etude.forecasting.result import Interval, Row, enough
from etude.forecasting.tries import in_order, lost_best
from etude.launching.progress import Counted
from etude.tune.plan import SearchPlan
from etude.tune.question import Question
from etude.tune.stop import make_stopper

METRICS = Metrics({"y": "max"})
SPACE = {"x": etude.uniform(0, 1), "w": etude.loguniform(0.5, 2)}


def a_trial(draws: random.Random, *, sigma: float = 0.5, steps: int = 6) -> MeasuredTrial:
    """Return a trial whose time is log-normal, and whose value comes nearer to a height of its own."""
    pace, height = 10.0 * math.exp(draws.gauss(0.0, sigma)), draws.random()
    course = tuple((pace, {"y": height * (1.0 - step**-0.7)}) for step in range(1, steps + 1))
    return MeasuredTrial({"x": height}, course, returned={"y": course[-1][1]["y"]})


def evidence(n: int, *, seed: int = 0, sigma: float = 0.5, steps: int = 6) -> Evidence:
    draws = random.Random(seed)
    return Evidence(tuple(a_trial(draws, sigma=sigma, steps=steps) for _ in range(n)), METRICS, studies=("past",))


# --- whether it is true ---------------------------------------------------------------------------


@pytest.mark.parametrize(("measured", "sigma"), [(5, 0.3), (10, 0.5), (30, 0.8)])
def test_intervals_hold_what_a_study_really_takes_in_about_their_share_of_cases(measured: int, sigma: float) -> None:
    """One worker takes the sum of the times, so many cases cost no simulation."""
    cases, held = 60, 0
    for case in range(cases):
        found = evidence(measured, seed=case, sigma=sigma, steps=1)
        sums = [sum(map(length, Resample.of(found, seed=1000 * case + nth).trials(100))) for nth in range(40)]
        draws = random.Random(10_000 + case)
        truth = sum(a_trial(draws, sigma=sigma, steps=1).seconds for _ in range(100))
        told = Interval.of(sums)
        held += told.low <= truth <= told.high
    assert 0.8 <= held / cases <= 0.97  # they say 0.9


@pytest.mark.thorough
def test_with_workers_and_a_stopper_the_truth_is_in_most_intervals() -> None:
    cases, held, held_alone = 15, 0, 0
    for case in range(cases):
        told = foretold(evidence(10, seed=case), trials=24, workers=[4], stopper="median", resamples=20, seed=case)
        truth = Evidence(evidence(24, seed=10_000 + case).trials, METRICS)
        time_s, alone_s = really(truth)
        row = told.table[0]
        held += row.time_s.low <= time_s <= row.time_s.high
        held_alone += row.alone_s.low <= alone_s <= row.alone_s.high
    assert held >= 0.75 * cases
    assert held_alone >= 0.75 * cases


def really(truth: Evidence) -> tuple[float, float]:
    """Return how long a study of exactly these trials takes on 4 workers, with the median rule and without."""
    return simulated_s(truth, "median"), simulated_s(truth, "none")


def simulated_s(truth: Evidence, stopper: str) -> float:
    courses = [trial.steps for trial in truth.trials]

    def curve(params: Any, seed: int) -> Iterator[Any]:
        yield from courses[params["k"]]

    def train(k: int) -> float:
        raise AssertionError

    found = etude.Experiment(train, metric={"y": "max"}).tune(
        {"k": list(range(len(courses)))},
        trials=len(courses),
        start=[{"k": k} for k in range(len(courses))],
        sampler="random",
        stopper=stopper,
        engine=etude.Simulated(curves=curve, workers=4),
    )
    assert found.makespan_s is not None
    return found.makespan_s


def test_intervals_grow_as_measured_trials_get_fewer() -> None:
    widths = []
    for n in (5, 10, 40):
        logs = []
        for case in range(10):
            sums = [sum(map(length, Resample.of(evidence(n, seed=case), seed=nth).trials(50))) for nth in range(40)]
            told = Interval.of(sums)
            logs.append(math.log(told.high / told.low))
        widths.append(sum(logs) / len(logs))
    assert widths[0] > 1.3 * widths[1] > 1.69 * widths[2]


def test_little_is_owed_to_few_trials_where_many_were_measured() -> None:
    shares = [
        from_few([Resample.of(evidence(n), seed=nth).trials(50) for nth in range(60)]) for n in (5, 200)
    ]  # fmt: skip
    assert shares[0] > 0.8 > shares[1]


@pytest.mark.parametrize("stopper", ["median", "asha", "none"])
def test_a_replay_takes_as_long_as_a_simulated_study(stopper: str) -> None:
    """There is no journal, and all else is the same."""
    truth = evidence(24, seed=3)
    records = [Record({}, trial.steps, trial.returned) for trial in truth.trials]
    judge = make_stopper(stopper, METRICS)
    start: tuple[Params, ...] = tuple({"trial": nth} for nth in range(24))
    plan = SearchPlan(24, seed=0, stopper=judge, start=start)
    engine = etude.Simulated(curves=etude.SyntheticCurves())
    ran = replay(Question(plan, METRICS, 24), engine, in_order(records, reports=True), workers=4, grace_s=10.0)
    assert ran.time_s == simulated_s(truth, stopper)
    assert ran.worker_s == 4 * ran.time_s


# --- the pure parts -------------------------------------------------------------------------------


@given(
    done=st.integers(1, 5), pace=st.floats(0.1, 10), off=st.floats(-5, 5), nth=st.integers(0, 10),
    more=st.integers(0, 4),
)  # fmt: skip
def test_what_was_begun_goes_on_from_where_it_stood(done: int, pace: float, off: float, nth: int, more: int) -> None:
    whole = MeasuredTrial(
        {}, tuple((1.0, {"y": float(step)}) for step in range(done + more)), returned={"y": done + more - 1.0}
    )
    begun = MeasuredTrial({"x": 1}, tuple((pace, {"y": step + off}) for step in range(done)), whole=False)
    found = continued(begun, [whole], nth=nth)
    assert found.params == {"x": 1}
    assert found.steps[:done] == begun.steps
    if more:
        assert [seconds for seconds, _ in found.steps] == pytest.approx([pace] * (done + more))
        assert [m["y"] for _, m in found.steps] == pytest.approx([step + off for step in range(done + more)])
        assert found.returned == {"y": pytest.approx(done + more - 1.0 + off)}


def test_copies_of_a_trial_are_told_apart_by_their_reports() -> None:
    one, other = (
        Record({}, tuple((1.0, {"y": value}) for value in values), {"y": values[-1]})
        for values in ([0.0, 1.0, math.nan], [1.0, 3.0])
    )
    found = towards(one, other, by=0.5)
    assert [metrics["y"] for _, metrics in found.steps[:2]] == [0.5, 2.0]
    assert math.isnan(found.steps[2][1]["y"])
    assert length(found) == 3.0
    assert towards(other, one, by=0.5).returned == {"y": 3.0}  # the other has no number there


def test_a_trial_that_diverged_goes_on_diverged() -> None:
    whole = MeasuredTrial({}, ((1.0, {"y": 1.0}), (1.0, {"y": 2.0})), returned={"y": 2.0})
    begun = MeasuredTrial({}, ((1.0, {"y": math.nan}),), whole=False)
    found = continued(begun, [whole], nth=0)
    assert found.returned is not None
    assert math.isnan(found.returned["y"])


def test_trials_that_all_take_the_same_take_the_same_in_each_resample() -> None:
    found = Evidence(tuple(a_trial(random.Random(nth), sigma=0.0) for nth in range(5)), METRICS)
    told = foretold(found, trials=10, workers=[2], resamples=20)
    assert told.table[0].time_s.low == pytest.approx(300.0)
    assert told.table[0].time_s.high == pytest.approx(300.0)
    assert told.table[0].worker_hours.median == pytest.approx(600 / 3600)


def test_a_forecast_says_how_far_it_is_and_is_none_the_other_for_it() -> None:
    steps: list[Counted] = []
    told = foretold(evidence(8), trials=6, workers=[1, 2], stopper="median", resamples=20, step=steps.append)
    assert told == foretold(evidence(8), trials=6, workers=[1, 2], stopper="median", resamples=20)
    assert [step.ended for step in steps] == list(range(41))
    assert [steps[nth].text for nth in (0, 39, 40)] == [
        "Forecasting: 1 worker, 0 of 20 simulations",
        "Forecasting: 2 workers, 19 of 20 simulations",
        "Forecast from 40 simulations.",
    ]


def test_the_same_call_forecasts_the_same() -> None:
    first, again, other = (foretold(evidence(8), trials=12, workers=[3], resamples=20, seed=s) for s in (1, 1, 2))
    assert first == again != other


def test_of_several_best_trials_each_may_have_been_the_one() -> None:
    trials = [Record({}, ((1.0, {}),), {"y": value}) for value in (0.9, 0.5, 0.9, math.nan)]
    ran = dataclasses.make_dataclass("Ran", ["stopped"])
    assert lost_best(ran(frozenset({0, 1})), trials, METRICS) == 0.5
    assert lost_best(ran(frozenset({1, 3})), trials, METRICS) == 0.0


def test_how_many_trials_ran_at_a_time() -> None:
    assert at_a_time([]) == 1.0
    assert at_a_time([(0.0, 2.0), (0.0, 2.0), (5.0, None)]) == 2.0


def a_row(workers: int, time_s: float) -> Row:
    same = Interval(time_s, time_s, time_s)
    return Row(workers, same, same, None, same, same, 0.0, 0.0)


def test_enough_are_the_fewest_that_take_at_most_a_tenth_longer_than_the_fastest() -> None:
    rows = [a_row(1, 100.0), a_row(2, 55.0), a_row(4, 54.0), a_row(8, 50.0)]
    assert enough(rows).workers == 2
    assert enough([*rows, a_row(16, 49.0)]).workers == 8


def test_workers_are_doubled_until_that_hardly_helps() -> None:
    found = Evidence(tuple(a_trial(random.Random(nth), sigma=0.0) for nth in range(5)), METRICS)
    told = foretold(found, trials=8, workers=None, resamples=20)
    assert [row.workers for row in told.table] == [1, 2, 4, 8]
    told = foretold(found, trials=8, workers=None, resamples=20, startup_s=1e6)
    assert [row.workers for row in told.table] == [1, 2]
    assert told.enough.workers == 1


# --- from studies ---------------------------------------------------------------------------------


def train(x: float, w: float) -> float:
    raise AssertionError("nothing is trained here")


def curve(params: Any, seed: int) -> Iterator[Any]:
    for step in range(1, 7):
        yield 10.0 * params["w"], {"y": params["x"] - 1.0 / step}


def past(trials: int = 10, *, name: str = "past", stopper: Any = "none", **given: Any) -> etude.Search:
    engine = etude.Simulated(curves=given.pop("curve", curve), workers=2, **given)
    experiment = etude.Experiment(train, metric="y", mode="max")
    return experiment.tune(SPACE, trials=trials, sampler="random", stopper=stopper, name=name, engine=engine)


def test_a_study_that_is_named_several_times_counts_once() -> None:
    search = past()
    once = etude.forecast("past", trials=16, workers=2, resamples=20)
    again = etude.forecast("past", search, search.folder, trials=16, workers=2, resamples=20)
    assert again.summary() == once.summary()


def slow_or_broken(params: Any, seed: int) -> Iterator[Any]:
    """Two in five fail: by an error after a second, or because they take too long."""
    if params["x"] < 0.2:
        yield 1.0, {}
        raise ValueError("no such thing")
    yield 100.0, {"y": params["x"]}
    yield (5000.0 if params["x"] < 0.4 else 100.0), {"y": params["x"]}


def test_trials_that_fail_by_themselves_are_part_of_what_is_forecast() -> None:
    experiment = etude.Experiment(train, metric="y", mode="max")
    engine = etude.Simulated(curves=slow_or_broken, workers=2)
    call: dict[str, Any] = {"sampler": "random", "stopper": "none", "engine": engine, "timeout_s": 1000, "seed": 1}
    measured = experiment.tune(SPACE, trials=40, name="measured", **call)
    truth = experiment.tune(SPACE, trials=200, name="truth", **call)
    share = truth.counts()["failed"] / 200
    assert 0.3 < share < 0.5
    assert {trial.how for trial in measured.trials} == {"finished", "raised", "timed out"}
    found = etude.forecast(measured, trials=200, workers=2, resamples=40)
    (row,) = found.table
    assert row.time_s.low < (truth.elapsed_s or 0.0) < row.time_s.high
    assert 0.0 < row.time_s.low < row.time_s.high < 3 * row.time_s.low
    assert abs(row.failed - measured.counts()["failed"] / 40) < 0.05
    said = f"{measured.counts()['failed']} measured trials failed, by an error or because of the time; "
    assert f"{said}about as large a share of the trials to come is taken to fail in the same way." in found.notes
    proposed = etude.forecast(measured, trials=20, workers=2, resamples=20, sampler="random")
    assert f"{said}where a sampler proposes, the forecast takes those that went well." in proposed.notes


def test_a_forecast_from_a_study_says_what_it_cannot_know() -> None:
    past(12, stopper="median", startup_s=30.0)
    found = etude.forecast("past", trials=16, workers=[1, 4], price_per_hour=2.0, max_cost=0.5, resamples=20)
    told = found.summary()
    assert (found.trials, found.measured, found.stopper) == (16, 12, "MedianRule()")
    assert "The measured trials ran 2 at a time." in told or "The measured trials ran 1.9" in told
    assert "Only" not in told
    assert "was simulated itself" in told
    first, last = found.table
    assert first.cost is not None
    assert first.cost.median == pytest.approx(2.0 * first.worker_hours.median)
    assert first.time_s.median > last.time_s.median > 30.0  # workers start as they did
    assert 0 < first.saves.median < 1
    assert first.misses == 1.0 or first.misses == pytest.approx(first.misses or 0.0)
    assert found.rows()[0]["time_s"] == first.time_s.median
    assert found.to_dict()["enough"] == found.enough.workers
    assert found._repr_html_().count("<tr>") == 3
    assert found.begun
    assert f"Of {found.begun} trial" in told


def test_a_sampler_proposes_and_trials_go_as_the_nearest() -> None:
    past()
    found = etude.forecast("past", trials=6, workers=2, sampler="random", stopper="asha", resamples=20)
    assert found.sampler == "Random()"
    assert found.table[0].loses_best is None
    assert "a guess as well" in found.summary()


def test_without_reports_there_is_no_early_stopping_to_forecast() -> None:
    def silent(params: Any, seed: int) -> Any:
        yield 10.0 * params["w"], {}
        return params["x"]

    past(curve=silent)
    found = etude.forecast("past", workers=2, stopper="median", resamples=20)
    assert found.stopper == ""
    assert "no stopper has anything to go by" in found.summary()


def test_too_few_trials_are_refused_with_what_is_needed() -> None:
    past(4)
    with pytest.raises(StudyError) as refused:
        etude.forecast("past")
    assert str(refused.value) == (
        "past has 4 trials that ran to the end, which is too little for a forecast: at least 5 are needed to tell how "
        "much times differ. Run a few more, with stopper='none', or name further studies of the same experiment."
    )
    past(4, name="more")
    assert etude.forecast("past", "more", trials=4, workers=1, resamples=20).measured == 8


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workers": []}, "workers=[] asks for nothing. Pass numbers, or leave it out for 1, 2, 4, ..."),
        (
            {"max_cost": 3.0},
            "max_cost=3.0 was given without a price, so nobody knows what the study costs. Pass price_per_hour=<what "
            "an hour of one worker costs> as well.",
        ),
        (
            {"resamples": 3},
            "resamples=3 cannot be: the ends of an interval would be single studies. Pass resamples=20 or more.",
        ),
    ],
)
def test_calls_that_cannot_be(given: dict[str, Any], said: str) -> None:
    past(6)
    with pytest.raises(ConfigError) as refused:
        etude.forecast("past", **given)
    assert str(refused.value) == said


def test_a_forecast_goes_by_some_study() -> None:
    with pytest.raises(ConfigError) as refused:
        etude.forecast()
    assert str(refused.value) == "forecast() was given no study to go by. Name one: etude.forecast('digits')."


def test_an_experiment_in_no_file_cannot_be_told_from_others() -> None:
    experiment = etude.Experiment(train, metric="y", mode="max")
    with pytest.raises(ConfigError) as refused:
        experiment.forecast(trials=10)
    assert str(refused.value) == (
        "This experiment is in no file, so its past studies cannot be told from others. Name one: "
        "etude.forecast('name')."
    )


def test_studies_with_budgets_are_refused() -> None:
    engine = etude.Simulated(curves=curve, workers=2)
    experiment = etude.Experiment(budgeted, metric="y", mode="max")
    given: dict[str, Any] = {"fidelity": "w", "budget": (1, 3), "stopper": "asha", "sampler": "random"}
    experiment.tune({"x": etude.uniform(0, 1)}, trials=8, name="budgets", engine=engine, **given)
    with pytest.raises(ConfigError) as refused:
        etude.forecast("budgets")
    assert str(refused.value) == (
        "Study 'budgets' gave its trials budgets by 'w', and from small budgets nobody can tell how long large ones "
        "take. Give a study without fidelity=."
    )


def budgeted(x: float, w: int) -> float:
    raise AssertionError


def test_attempts_that_die_are_tried_again_and_take_time() -> None:
    calm, rough = (
        foretold(evidence(8), trials=20, workers=[2], resamples=20, failures=failures) for failures in (0.0, 0.4)
    )
    assert rough.table[0].time_s.median > calm.table[0].time_s.median
    assert (calm.table[0].failed, "fail for good" in calm.summary()) == (0.0, False)
    assert 0.0 < rough.table[0].failed < 0.4
    assert rough.head()[-1] == "fail for good"


def test_what_is_lost_more_often_than_it_is_tried_again_fails_for_good() -> None:
    row = foretold(evidence(8), trials=20, workers=[2], resamples=20, failures=1.0).table[0]
    assert (row.failed, row.stopped) == (1.0, 0.0)


def test_a_trial_that_raised_and_was_tried_elsewhere_was_not_lost() -> None:
    def raises(params: Any, seed: int) -> Any:
        yield 10.0, {}
        if params["x"] < 0.5:
            raise ValueError("too small")
        return params["x"]

    past(20, curve=raises)
    ran = etude.open("past")
    assert sum(trial.attempts for trial in ran.trials) > 20, "one at least ran on another worker as well"
    assert "were lost" not in etude.forecast("past", workers=2, resamples=20).summary()


@pytest.mark.parametrize("given", [3.5, etude.Experiment(train, metric="y", mode="max")])
def test_what_is_no_study_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        etude.forecast(given)
    assert str(refused.value) == (
        f"forecast({brief(given)}) is given no study. Pass what tune or etude.open returned, a folder or a name; for "
        "the last study of an experiment: experiment.forecast(...)."
    )
