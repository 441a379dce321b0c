"""Successive halving on reports: who goes on at a rung, whatever happens to the trials."""

import math
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
from etude.tune.halving import ASHA, Hyperband, in_turns, shares


def reference(report: Report, history: History, rule: ASHA | Hyperband) -> Act:
    """Decide as the rule is written down, from all that is known, each time anew."""
    loss = history.metrics.loss
    peers, first = list(history.trials), rule.min_steps
    if isinstance(rule, Hyperband):
        mine = rule.bracket(report.trial)
        peers = [trial for trial in peers if rule.bracket(trial.number) == mine]
        first *= rule.eta**mine
    if report.step not in [first * rule.eta**nth for nth in range(10)]:
        return Act.GO_ON
    there = [loss(trial.curve[report.step - 1]) for trial in peers if len(trial.curve) >= report.step]
    better = sum(other < loss(report.value) for other in there)
    return Act.GO_ON if better < max(1, len(there) // rule.eta) else Act.STOP


steps = st.lists(
    st.tuples(
        st.sampled_from(["report"] * 8 + ["start", "start", "finish", "lose", "fail"]),
        st.integers(0, 20),
        st.sampled_from([math.nan, 0.0, 1.0, 2.0]) | st.floats(-10, 10),
    ),
    max_size=80,
)


@settings(deadline=None, max_examples=150)
@given(
    steps,
    st.sampled_from(["max", "min"]),
    st.sampled_from([ASHA(), ASHA(2, 2), Hyperband(eta=2), Hyperband(brackets=2)]),
)
def test_it_decides_as_its_definition_says_in_every_interleaving(
    steps: list[tuple[str, int, float]], mode: Mode, options: Any
) -> None:
    def make() -> Any:
        given = {"min_steps": options.min_steps, "eta": options.eta}
        return ASHA(**given) if isinstance(options, ASHA) else Hyperband(**given, brackets=options.brackets)

    board, rule = Board(mode), make()
    running: list[int] = []
    for act, choice, value in steps:
        if act == "start" or not running:
            running.append(board.start())
        elif act == "report":
            report = board.report(running[choice % len(running)], value)
            decision = rule.decide(report, board.history)
            assert decision.act is reference(report, board.history, rule)
            assert rule.decide(report, board.history) == decision  # asked again
            assert make().decide(report, board.history) == decision  # resumed
        elif act == "lose":
            trial = running[choice % len(running)]
            board.settle(trial, Turn.LOST)
            board.assign(trial)
        else:
            board.settle(running.pop(choice % len(running)), Turn.FINISHED if act == "finish" else Turn.GIVEN_UP)


def test_the_reason_says_who_goes_on() -> None:
    board, rule = Board(), ASHA()
    decisions = [rule.decide(board.report(board.start(), value), board.history) for value in (0.5, 0.6, 0.1)]
    assert decisions == [GO_ON, GO_ON, Decision(Act.STOP, "3rd of 3 at rung 1, of which the best goes on")]
    for value in range(16):
        board.report(board.start(), 1.0 + value)
    last = rule.decide(board.report(board.start(), 0.55), board.history)
    assert last == Decision(Act.STOP, "18th of 20 at rung 1, of which the best 6 go on")


def test_an_attempt_that_starts_over_withdraws_its_reports() -> None:
    board, rule = Board(), ASHA()
    lost = board.start()
    assert rule.decide(board.report(lost, 0.9), board.history) == GO_ON
    board.settle(lost, Turn.LOST)
    board.assign(lost)
    assert rule.decide(board.report(board.start(), 0.5), board.history) == GO_ON


def test_nan_goes_on_only_among_its_like() -> None:
    board, rule = Board("min"), ASHA()
    assert rule.decide(board.report(board.start(), math.nan), board.history) == GO_ON
    board.report(board.start(), 1e300)
    assert rule.decide(board.report(board.start(), math.nan), board.history).act is Act.STOP


def test_brackets_have_the_shares_of_the_paper_and_a_trial_is_in_one_by_its_number() -> None:
    assert shares(5, 3) == [81, 34, 15, 8, 5]
    assert in_turns([3, 1]) == [0, 0, 1, 0]
    rule = Hyperband(brackets=4)
    first = [rule.bracket(number) for number in range(49)]
    assert [first.count(nth) for nth in range(4)] == [27, 12, 6, 4]
    assert set(first[:8]) == {0, 1, 2, 3}  # and none has to wait for its first
    assert first == [rule.bracket(number + 49) for number in range(49)]


def test_a_bracket_compares_its_own_alone_and_begins_later() -> None:
    board, rule = Board(), Hyperband(eta=2, brackets=2)
    numbers = [board.start() for _ in range(4)]
    late = next(n for n in numbers if rule.bracket(n) == 1)
    early = [n for n in numbers if rule.bracket(n) == 0][:2]
    assert rule.decide(board.report(late, 0.0), board.history) == GO_ON
    assert rule.decide(board.report(early[0], 0.9), board.history) == GO_ON
    assert rule.decide(board.report(early[1], 0.1), board.history) == Decision(
        Act.STOP, "2nd of 2 at rung 1 of bracket 1, of which the best goes on"
    )
    assert rule.decide(board.report(late, 0.0), board.history) == GO_ON


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ASHA(min_steps=0), "min_steps=0 cannot be: no trial has reported by then. Pass min_steps=1 or more."),
        (lambda: Hyperband(eta=1), "eta=1 cannot be: everybody would go on. Pass eta=2 or more."),
        (
            lambda: Hyperband(brackets=0),
            "brackets=0 cannot be: there would be none to put trials into. Pass brackets=1 or more.",
        ),
        (
            lambda: Hyperband(promote="so"),
            "Hyperband(promote='so') is not known. Pass 'resume' or 'anew', or leave it out.",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert str(refused.value) == message
