"""The order of finished trials: which is better, what NaN is worth, who is first of equals."""

import math

import pytest

from etude.core.history import Trial
from etude.core.metrics import Metrics, Mode
from etude.core.ranking import best_of, front, ranked

from .support import METRICS, Stage


def finished(*values: float) -> list[Trial]:
    stage = Stage(len(values))
    stage.join("a")
    for number, value in enumerate(values):
        stage.end(number, value=value)
    return stage.driver.history.finished


@pytest.mark.parametrize(
    ("mode", "values", "numbers"),
    [
        ("max", (1.0, 3.0, 2.0), [1, 2, 0]),
        ("min", (1.0, 3.0, 2.0), [0, 2, 1]),
        ("max", (2.0, 2.0, 2.0), [0, 1, 2]),
        ("min", (math.nan, 5.0, math.nan), [1, 0, 2]),
        ("min", (math.nan, math.inf), [1, 0]),  # NaN is worse than any number, the worst included
        ("max", (math.nan, -math.inf), [1, 0]),
    ],
)
def test_better_comes_first_and_nan_last(mode: Mode, values: tuple[float, ...], numbers: list[int]) -> None:
    trials = finished(*values)
    assert [trial.number for trial in ranked(trials, Metrics({"m": mode}))] == numbers
    assert best_of(trials, Metrics({"m": mode})) is trials[numbers[0]]


def test_of_no_trials_none_is_best() -> None:
    assert best_of([], METRICS) is None
    assert ranked([], METRICS) == []


def test_a_trial_that_shares_the_result_of_another_is_left_out() -> None:
    stage = Stage(2, sampler=lambda k, redraw: {"x": 0})
    stage.join("a")
    stage.end(0)
    assert len(stage.driver.history.finished) == 2
    assert [trial.number for trial in ranked(stage.driver.history.finished, METRICS)] == [0]


def test_the_front_holds_those_that_no_other_is_better_than() -> None:
    metrics = Metrics({"accuracy": "max", "latency_s": "min"})
    stage = Stage(6)
    stage.join("a")
    values = [(0.9, 3.0), (0.8, 1.0), (0.8, 2.0), (0.7, 1.0), (0.9, 3.0), (math.nan, 0.5)]
    for number, (accuracy, latency_s) in enumerate(values):
        stage.end(number, value=accuracy, extra={"latency_s": latency_s})
    found = front(stage.driver.history.finished, metrics)
    assert [trial.number for trial in found] == [0, 4, 1]  # equals both, and no trial of which a metric is NaN
    only_nan = [trial for trial in stage.driver.history.finished if trial.number == 5]
    assert front(only_nan, metrics) == only_nan
    assert front([], metrics) == []
