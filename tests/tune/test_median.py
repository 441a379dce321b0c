"""The median rule decides as its definition says, whatever happens to the trials."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

import pytest
from board import Board
from hypothesis import given, settings
from hypothesis import strategies as st

from etude.core.errors import ConfigError
from etude.core.history import History
from etude.core.lifecycle import Turn
from etude.core.metrics import Mode
from etude.core.plan import GO_ON, Act, Decision, Report
from etude.tune.median import MedianRule

# --- the rule, slow and obvious -------------------------------------------------------------------


def reference(report: Report, history: History, *, mode: str, rule: MedianRule) -> Act:
    """Decide as the rule is written down, from all that is known, each time anew."""
    sign = -1.0 if mode == "max" else 1.0

    def losses(curve: Sequence[float]) -> list[float]:
        return [math.inf if math.isnan(value) else sign * value for value in curve]

    peers = [losses(t.curve) for t in history.finished if t.curve and t.same_as is None]
    if len(peers) < rule.first_after:
        return Act.GO_ON
    upto = [curve[: report.step] for curve in peers]
    bars = [curve[-1] if rule.best_so_far else sum(curve) / len(curve) for curve in upto]
    median = statistics.median(bars)
    best = min(losses(history.trials[report.trial].curve))
    return Act.STOP if best > median else Act.GO_ON


steps = st.lists(
    st.tuples(
        st.sampled_from(["report"] * 6 + ["start", "start", "finish", "finish", "lose", "reuse", "fail"]),
        st.integers(0, 20),
        st.sampled_from([math.nan, 0.0, 1.0, 2.0]) | st.floats(-10, 10),
    ),
    max_size=80,
)


@settings(deadline=None, max_examples=150)
@given(steps, st.sampled_from(["max", "min"]), st.integers(1, 4), st.booleans())
def test_it_decides_as_its_definition_says_in_every_interleaving(
    steps: list[tuple[str, int, float]], mode: Mode, first_after: int, best_so_far: bool
) -> None:
    board = Board(mode)
    rule = MedianRule(first_after, best_so_far)
    running: list[int] = []
    for act, choice, value in steps:
        if act == "start" or not running:
            running.append(board.start())
        elif act == "reuse" and board.history.finished:
            first = board.history.finished[choice % len(board.history.finished)]
            if first.same_as is None:
                board.settle(board.start(same_as=first.number), Turn.REUSED)
        elif act == "report":
            trial = running[choice % len(running)]
            report = board.report(trial, value)
            decision = rule.decide(report, board.history)
            expected = reference(report, board.history, mode=mode, rule=rule)
            assert decision.act is expected
            assert rule.decide(report, board.history) == decision  # asked again
            assert MedianRule(first_after, best_so_far).decide(report, board.history) == decision  # resumed
        elif act == "lose":
            trial = running[choice % len(running)]
            board.settle(trial, Turn.LOST)
            board.assign(trial)
        elif act in ("finish", "fail"):
            board.settle(running.pop(choice % len(running)), Turn.FINISHED if act == "finish" else Turn.GIVEN_UP)


# --- by hand --------------------------------------------------------------------------------------


def test_nobody_is_stopped_before_four_have_finished() -> None:
    board = Board()
    rule = MedianRule()
    trial = board.start()
    for n in range(1, 7):
        decision = rule.decide(board.report(trial, 0.0), board.history)
        assert (decision.act is Act.STOP) == (n > 4)
        board.finish(1.0, 1.0)


def test_the_reason_names_median_trials_and_step_in_the_users_direction() -> None:
    board = Board()
    for level in (0.2, 0.4, 0.6, 0.8):
        board.finish(level, level + 0.1)
    rule = MedianRule()
    trial = board.start()
    assert rule.decide(board.report(trial, 0.5), board.history) == GO_ON  # the median itself is good enough
    other = board.start()
    board.report(other, 0.1)
    decision = rule.decide(board.report(other, 0.2), board.history)
    assert decision == Decision(Act.STOP, "worse than the median 0.55 of 4 trials at step 2")


def test_it_is_the_best_so_far_that_is_compared_and_not_the_newest() -> None:
    board = Board()
    for _ in range(4):
        board.finish(*[0.5] * 5)
    rule = MedianRule()
    trial = board.start()
    for value in (0.6, 0.1, math.nan, 0.0):
        assert rule.decide(board.report(trial, value), board.history) == GO_ON


def test_nan_is_worse_than_any_number_and_as_bad_as_itself() -> None:
    board = Board("min")
    for _ in range(4):
        board.finish(1e300)
    rule = MedianRule()
    assert rule.decide(board.report(board.start(), math.nan), board.history).act is Act.STOP
    diverged = Board("min")
    for _ in range(4):
        diverged.finish(math.nan)
    assert MedianRule().decide(diverged.report(diverged.start(), math.nan), diverged.history) == GO_ON


def test_infinities_and_huge_numbers_stop_nobody_by_accident() -> None:
    board = Board("min")
    for value in (-math.inf, -math.inf, math.inf, math.inf):
        board.finish(value)
    assert MedianRule().decide(board.report(board.start(), 0.0), board.history) == GO_ON
    huge = Board("min")
    for value in (-1.5e308, -1.5e308, -1.6e308, -1.6e308):
        huge.finish(value)
    assert MedianRule().decide(huge.report(huge.start(), -1.58e308), huge.history) == GO_ON
    both = Board("min")
    for _ in range(4):
        both.finish(-math.inf, math.inf)
    trial = both.start()
    rule = MedianRule()
    rule.decide(both.report(trial, -math.inf), both.history)
    assert rule.decide(both.report(trial, 0.0), both.history) == GO_ON


def test_a_trial_that_shares_a_result_does_not_count_twice() -> None:
    board = Board()
    firsts = [board.finish(1.0) for _ in range(3)]
    for first in firsts:
        board.settle(board.start(same_as=first), Turn.REUSED)
    assert len(board.history.finished) == 6
    trial = board.start()
    assert MedianRule().decide(board.report(trial, 0.0), board.history) == GO_ON


def test_a_trial_that_finished_without_a_report_does_not_count() -> None:
    board = Board()
    for _ in range(4):
        board.finish()
    assert MedianRule().decide(board.report(board.start(), 0.0), board.history) == GO_ON


def test_an_attempt_that_starts_over_is_judged_by_its_own_reports() -> None:
    board = Board()
    for _ in range(4):
        board.finish(0.5, 0.5, 0.5)
    rule = MedianRule()
    trial = board.start()
    for value in (0.9, 0.9):
        assert rule.decide(board.report(trial, value), board.history) == GO_ON
    board.settle(trial, Turn.LOST)
    board.assign(trial)
    assert rule.decide(board.report(trial, 0.1), board.history).act is Act.STOP
    assert rule.decide(board.report(trial, 0.6), board.history) == GO_ON


def test_a_trial_with_few_reports_counts_with_the_average_of_all_it_has() -> None:
    board = Board()
    for _ in range(2):
        board.finish(0.0, 1.0)  # 0.5 from step 2 on
        board.finish(0.0, 0.0, 0.0, 0.0)
    rule = MedianRule()
    trial = board.start()
    decisions = [rule.decide(board.report(trial, 0.24), board.history) for _ in range(9)]
    assert [d.act for d in decisions] == [Act.GO_ON] + [Act.STOP] * 8
    assert decisions[8].reason == "worse than the median 0.25 of 4 trials at step 9"


def test_best_so_far_compares_with_the_values_at_that_very_step() -> None:
    board = Board()
    for _ in range(4):
        board.finish(0.0, 1.0)  # the average at step 2 is 0.5
    trial = board.start()
    board.report(trial, 0.0)
    report = board.report(trial, 0.7)
    assert MedianRule().decide(report, board.history) == GO_ON
    decision = MedianRule(best_so_far=True).decide(report, board.history)
    assert decision == Decision(Act.STOP, "worse than the median 1 of 4 trials at step 2")


def test_a_median_rule_that_cannot_be_is_refused() -> None:
    options: Any
    for options, message in (
        (
            {"first_after": 0},
            "first_after=0 cannot be: a median needs at least one finished trial. Pass first_after=1 or more.",
        ),
        ({"first_after": "a"}, "first_after='a' (str) is no whole number. Pass one."),
        ({"first_after": 2.5}, "first_after=2.5 (float) is no whole number. Pass one."),
        ({"first_after": True}, "first_after=True (bool) is no whole number. Pass one."),
        (
            {"best_so_far": "no"},
            "best_so_far='no' (str) is neither True nor False. Pass True to compare with the others' values at a step, "
            "False to compare with their averages up to it.",
        ),
        ({"metric": 3}, "metric=3 is no name. Pass the name of what train returns or reports."),
    ):
        with pytest.raises(ConfigError) as refused:
            MedianRule(**options)
        assert str(refused.value) == message
