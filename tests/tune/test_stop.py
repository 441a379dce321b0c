"""Stoppers: the median rule decides as its definition says, whatever happens to the trials."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etude.core.errors import ConfigError
from etude.core.events import AnyFact, Assigned, How, Joined, Outcome, Queued, Reported, Settled
from etude.core.history import History
from etude.core.lifecycle import Turn
from etude.core.plan import GO_ON, Act, Decision, Report, Standing
from etude.testing import check_stopper
from etude.tune.stop import MedianRule, NeverStop, Stopper, make_stopper

# --- a study at hand ------------------------------------------------------------------------------


@dataclass
class Board:
    """A study whose trials report when the test says so, each on a worker of its own."""

    history: History = field(default_factory=lambda: History("m"))

    def _fold(self, *facts: AnyFact) -> None:
        for fact in facts:
            self.history.apply(fact)

    def start(self, same_as: int | None = None) -> int:
        number = len(self.history.trials)
        self._fold(
            Joined(at=0.0, worker=str(number)),
            Queued(at=0.0, trial=number, params={"n": number}, seed=0, same_as=same_as),
        )
        if same_as is None:
            self.assign(number)
        return number

    def assign(self, trial: int) -> None:
        attempt = self.history.trials[trial].attempt + 1
        self._fold(Assigned(at=0.0, trial=trial, attempt=attempt, worker=str(trial)))

    def report(self, trial: int, value: float) -> Report:
        attempt = self.history.trials[trial].attempt
        step = len(self.history.trials[trial].curve) + 1
        self._fold(Reported(at=0.0, trial=trial, attempt=attempt, step=step, metrics={"m": value}))
        return Report(trial, step, value, 1.0)

    def settle(self, trial: int, turn: Turn = Turn.FINISHED) -> None:
        how = How.FINISHED if turn in (Turn.FINISHED, Turn.REUSED) else How.LOST
        self._fold(Settled(at=0.0, trial=trial, turn=turn, outcome=Outcome(how, value=0.0)))

    def finish(self, *curve: float) -> int:
        trial = self.start()
        for value in curve:
            self.report(trial, value)
        self.settle(trial)
        return trial


# --- the rule, slow and obvious -------------------------------------------------------------------


def reference(report: Report, history: History, *, mode: str, first_after: int) -> Act:
    """Decide as the rule is written down, from all that is known, each time anew."""
    sign = -1.0 if mode == "max" else 1.0

    def losses(curve: Sequence[float]) -> list[float]:
        return [math.inf if math.isnan(value) else sign * value for value in curve]

    peers = [losses(t.curve) for t in history.finished if t.curve and t.same_as is None]
    if len(peers) < first_after:
        return Act.GO_ON
    means = [sum(upto := curve[: report.step]) / len(upto) for curve in peers]
    median = statistics.median(means)
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
@given(steps, st.sampled_from(["max", "min"]), st.integers(1, 4))
def test_it_decides_as_its_definition_says_in_every_interleaving(
    steps: list[tuple[str, int, float]], mode: str, first_after: int
) -> None:
    board = Board()
    rule = MedianRule(mode, first_after=first_after)
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
            expected = reference(report, board.history, mode=mode, first_after=first_after)
            assert decision.act is expected
            assert rule.decide(report, board.history) == decision  # asked again
            assert MedianRule(mode, first_after=first_after).decide(report, board.history) == decision  # resumed
        elif act == "lose":
            trial = running[choice % len(running)]
            board.settle(trial, Turn.LOST)
            board.assign(trial)
        elif act in ("finish", "fail"):
            board.settle(running.pop(choice % len(running)), Turn.FINISHED if act == "finish" else Turn.GIVEN_UP)


curves = st.lists(st.lists(st.floats(-10, 10) | st.just(math.nan), min_size=1, max_size=6), min_size=1, max_size=8)


@settings(deadline=None, max_examples=40)
@given(curves, st.sampled_from(["max", "min"]), st.randoms(use_true_random=False))
def test_it_keeps_what_every_stopper_promises(curves: list[list[float]], mode: str, order: Any) -> None:
    turns = [trial for trial, curve in enumerate(curves) for _ in curve]
    order.shuffle(turns)
    at = [0] * len(curves)
    reports = []
    for trial in turns:
        at[trial] += 1
        reports.append(Report(trial, at[trial], curves[trial][at[trial] - 1], 1.0))
    check_stopper(lambda: MedianRule(mode), reports)
    assert set(check_stopper(NeverStop, reports)) == {GO_ON}


# --- by hand --------------------------------------------------------------------------------------


def test_nobody_is_stopped_before_four_have_finished() -> None:
    board = Board()
    rule = MedianRule("max")
    trial = board.start()
    for n in range(1, 7):
        decision = rule.decide(board.report(trial, 0.0), board.history)
        assert (decision.act is Act.STOP) == (n > 4)
        board.finish(1.0, 1.0)


def test_the_reason_names_median_trials_and_step_in_the_users_direction() -> None:
    board = Board()
    for level in (0.2, 0.4, 0.6, 0.8):
        board.finish(level, level + 0.1)
    rule = MedianRule("max")
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
    rule = MedianRule("max")
    trial = board.start()
    for value in (0.6, 0.1, math.nan, 0.0):
        assert rule.decide(board.report(trial, value), board.history) == GO_ON


def test_nan_is_worse_than_any_number_and_as_bad_as_itself() -> None:
    board = Board()
    for _ in range(4):
        board.finish(1e300)
    rule = MedianRule("min")
    assert rule.decide(board.report(board.start(), math.nan), board.history).act is Act.STOP
    diverged = Board()
    for _ in range(4):
        diverged.finish(math.nan)
    assert MedianRule("min").decide(diverged.report(diverged.start(), math.nan), diverged.history) == GO_ON


def test_infinities_and_huge_numbers_stop_nobody_by_accident() -> None:
    board = Board()
    for value in (-math.inf, -math.inf, math.inf, math.inf):
        board.finish(value)
    assert MedianRule("min").decide(board.report(board.start(), 0.0), board.history) == GO_ON
    huge = Board()
    for value in (-1.5e308, -1.5e308, -1.6e308, -1.6e308):
        huge.finish(value)
    assert MedianRule("min").decide(huge.report(huge.start(), -1.58e308), huge.history) == GO_ON
    both = Board()
    for _ in range(4):
        both.finish(-math.inf, math.inf)
    trial = both.start()
    rule = MedianRule("min")
    rule.decide(both.report(trial, -math.inf), both.history)
    assert rule.decide(both.report(trial, 0.0), both.history) == GO_ON


def test_a_trial_that_shares_a_result_does_not_count_twice() -> None:
    board = Board()
    firsts = [board.finish(1.0) for _ in range(3)]
    for first in firsts:
        board.settle(board.start(same_as=first), Turn.REUSED)
    assert len(board.history.finished) == 6
    trial = board.start()
    assert MedianRule("max").decide(board.report(trial, 0.0), board.history) == GO_ON


def test_a_trial_that_finished_without_a_report_does_not_count() -> None:
    board = Board()
    for _ in range(4):
        board.finish()
    assert MedianRule("max").decide(board.report(board.start(), 0.0), board.history) == GO_ON


def test_an_attempt_that_starts_over_is_judged_by_its_own_reports() -> None:
    board = Board()
    for _ in range(4):
        board.finish(0.5, 0.5, 0.5)
    rule = MedianRule("max")
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
    rule = MedianRule("max")
    trial = board.start()
    decisions = [rule.decide(board.report(trial, 0.24), board.history) for _ in range(9)]
    assert [d.act for d in decisions] == [Act.GO_ON] + [Act.STOP] * 8
    assert decisions[8].reason == "worse than the median 0.25 of 4 trials at step 9"


# --- by name --------------------------------------------------------------------------------------


def test_a_stopper_is_found_by_name_or_taken_as_it_is() -> None:
    assert isinstance(make_stopper("median", mode="max"), MedianRule)
    assert isinstance(make_stopper("none", mode="max"), NeverStop)
    own = NeverStop()
    assert make_stopper(own, mode="max") is own


def refusal(call: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        call()
    return str(refused.value)


def test_what_is_no_stopper_is_refused() -> None:
    assert refusal(lambda: make_stopper("asha", mode="max")) == (
        "stopper='asha' is not known. There are: 'median', 'none'. "
        "An object with a decide(report, standing) method does as well."
    )
    assert refusal(lambda: make_stopper(cast("Stopper", None), mode="max")) == (
        "stopper=None (NoneType) is no stopper. Pass 'median' or 'none', or an object with a "
        "decide(report, standing) method."
    )
    assert refusal(lambda: make_stopper(cast("Stopper", MedianRule), mode="max")) == (
        "stopper=<class 'etude.tune.stop.MedianRule'> (_ProtocolMeta) is no stopper. Pass 'median' or 'none', or an "
        "object with a decide(report, standing) method."
    ).replace("_ProtocolMeta", type(MedianRule).__name__)


def test_a_median_rule_that_cannot_be_is_refused() -> None:
    assert refusal(lambda: MedianRule("max", first_after=0)) == (
        "first_after=0 is below 1: a median needs at least one finished trial. "
        "Pass 1 to let the rule work from the first one on."
    )
    assert refusal(lambda: MedianRule("maximum")) == (
        "mode='maximum' says neither that larger values are better nor that smaller ones are. "
        "Pass mode='max' or mode='min'."
    )


# --- the check itself -----------------------------------------------------------------------------


class Broken:
    """A stopper that breaks the promise that it is told to break."""

    def __init__(self, promise: str) -> None:
        self.promise = promise
        self.asked = 0

    def decide(self, report: Report, standing: Standing) -> Decision:
        self.asked += 1
        match self.promise:
            case "a stopper answers with a Decision":
                return cast("Decision", False)
            case "needs a reason":
                return Decision(Act.STOP)
            case "changes nothing":
                standing.trials[report.trial].curve.append(0.0)
            case "equal reports":
                return Decision(Act.GO_ON, str(id(self)))
            case "made in the middle":
                return Decision(Act.GO_ON, str(self.asked))
        return GO_ON


@pytest.mark.parametrize(
    "promise",
    ["a stopper answers with a Decision", "needs a reason", "changes nothing", "equal reports", "made in the middle"],
)
def test_the_check_finds_a_stopper_that_breaks_a_promise(promise: str) -> None:
    made = []

    def make() -> Broken:
        made.append(Broken(promise))
        return made[-1]

    with pytest.raises(AssertionError, match=promise):
        check_stopper(make, [Report(0, 1, 0.5, 1.0), Report(0, 2, 0.5, 2.0), Report(1, 1, 0.5, 2.0)])


def test_the_check_wants_steps_without_a_gap() -> None:
    with pytest.raises(AssertionError, match="counts its steps from 1"):
        check_stopper(NeverStop, [Report(0, 2, 0.5, 1.0)])
