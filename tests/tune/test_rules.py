"""Rules that look at one trial alone: what they say at which report, and which options cannot be."""

import math
from typing import Any

import pytest
from board import Board

from etude.core.errors import ConfigError
from etude.core.lifecycle import Turn
from etude.core.metrics import Mode
from etude.core.plan import GO_ON, Act, Decision, Report
from etude.tune.rules import Divergence, Plateau, WallTime


def decided(rule: Any, *values: float, mode: Mode = "min") -> list[Decision]:
    board = Board(mode)
    trial = board.start()
    return [rule.decide(board.report(trial, value), board.history) for value in values]


def test_a_plateau_is_so_many_reports_without_an_improvement() -> None:
    found = decided(Plateau(patience=2), 1.0, 1.0, 0.9, 0.95, 0.9)
    assert found == [GO_ON] * 4 + [Decision(Act.ENOUGH, "no better than 0.9 at step 3 for 2 reports")]
    rising = decided(Plateau(patience=1, min_delta=0.1), 0.5, 0.7, 0.75, mode="max")
    assert rising[2] == Decision(Act.ENOUGH, "no better than 0.7 at step 2 by more than 0.1 for 1 report")
    assert decided(Plateau(patience=3), 3, 2, 2, 2, 1.9, 2, 2) == [GO_ON] * 7


def test_nan_is_no_improvement() -> None:
    assert decided(Plateau(patience=2), math.nan, 1.0, math.nan)[1:] == [GO_ON, GO_ON]
    assert decided(Plateau(patience=2), math.nan, math.nan, math.nan)[2] == (
        Decision(Act.ENOUGH, "no better than step 1 for 2 reports")
    )


def test_an_attempt_that_starts_over_has_its_patience_anew() -> None:
    board, rule = Board("min"), Plateau(patience=2)
    trial = board.start()
    for _ in range(2):
        rule.decide(board.report(trial, 0.1), board.history)
    board.settle(trial, Turn.LOST)
    board.assign(trial)
    assert [rule.decide(board.report(trial, 0.5), board.history).act for _ in range(3)] == [
        Act.GO_ON,
        Act.GO_ON,
        Act.ENOUGH,
    ]


def test_what_is_not_finite_stops_at_once_and_what_grows_after_a_warmup() -> None:
    for value in (math.nan, math.inf, -math.inf):
        assert decided(Divergence(), value) == [Decision(Act.STOP, f"diverged: {value:g} at step 1")]
    found = decided(Divergence(factor=3, warmup=2), 0.2, 9.0, 0.6, 0.61)
    assert found == [GO_ON] * 3 + [
        Decision(Act.STOP, "diverged: 0.61 at step 4, worse by the factor 3 than the best so far, 0.2")
    ]
    assert decided(Divergence(factor=3, warmup=0), 0.4, -0.4, -0.41, mode="max")[1:] == [
        GO_ON,
        Decision(Act.STOP, "diverged: -0.41 at step 3, worse by the factor 3 than the best so far, 0.4"),
    ]
    assert decided(Divergence(factor=2, warmup=0), 0.0, 5.0) == [GO_ON, GO_ON]  # no factor of nothing


def test_when_its_time_is_up_a_trial_has_shown_what_it_can() -> None:
    history = Board().history
    assert WallTime(limit_s=90).decide(Report(0, 1, 0.5, 89.9), history) == GO_ON
    assert WallTime(limit_s=90).decide(Report(0, 1, 0.5, 200), history) == (
        Decision(Act.ENOUGH, "its time is up: 3 min 20 s, limit 1 min 30 s")
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Plateau(patience=0),
            "patience=0 cannot be: every trial would end with its first report. Pass patience=1 or more.",
        ),
        (lambda: Plateau(min_delta=-1), "min_delta=-1 is no distance. Pass a number that is 0 or more."),
        (lambda: Divergence(factor=1), "factor=1 would stop what gets no better. Pass a number above 1."),
        (
            lambda: Divergence(warmup=-1),
            "warmup=-1 cannot be: 0 already counts from the first report on. Pass warmup=0 or more.",
        ),
        (lambda: WallTime(limit_s=0), "limit_s=0 leaves no time. Pass seconds above 0."),
    ],
)
def test_options_that_cannot_be_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert str(refused.value) == message
