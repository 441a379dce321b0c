"""The order of finished trials: which is better, what NaN is worth, who is first of equals."""

import math

import pytest

from etude.core.history import Trial
from etude.core.ranking import best_of, ranked

from .support import Stage


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
def test_better_comes_first_and_nan_last(mode: str, values: tuple[float, ...], numbers: list[int]) -> None:
    trials = finished(*values)
    assert [trial.number for trial in ranked(trials, mode=mode)] == numbers
    assert best_of(trials, mode=mode) is trials[numbers[0]]


def test_of_no_trials_none_is_best() -> None:
    assert best_of([], mode="max") is None
    assert ranked([], mode="max") == []


def test_a_trial_that_shares_the_result_of_another_is_left_out() -> None:
    stage = Stage(2, sampler=lambda k, redraw: {"x": 0})
    stage.join("a")
    stage.end(0)
    assert len(stage.driver.history.finished) == 2
    assert [trial.number for trial in ranked(stage.driver.history.finished, mode="max")] == [0]
