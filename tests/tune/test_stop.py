"""Stoppers by name, alone and together; what all of them promise, and the check that says so."""

import math
from typing import Any, cast

import pytest
from board import Board
from hypothesis import given, settings
from hypothesis import strategies as st

from etude.core.errors import ConfigError
from etude.core.metrics import Metrics, Mode
from etude.core.plan import GO_ON, Act, Decision, Report, Standing
from etude.testing import check_stopper
from etude.tune.halving import ASHA, Hyperband
from etude.tune.median import MedianRule
from etude.tune.rules import Divergence, Plateau, WallTime
from etude.tune.stop import (
    STOPPERS,
    FirstOf,
    Given,
    NeverStop,
    Stopper,
    describe,
    from_plain,
    make_stopper,
    to_plain,
    watched_by,
)

ONE = Metrics({"score": "max"})
TWO = Metrics({"accuracy": "max", "latency_s": "min"})

curves = st.lists(st.lists(st.floats(-10, 10) | st.just(math.nan), min_size=1, max_size=6), min_size=1, max_size=8)
MAKERS = {
    "median": lambda: MedianRule(1),
    "median-best": lambda: MedianRule(1, best_so_far=True),
    "asha": lambda: ASHA(eta=2),
    "hyperband": lambda: Hyperband(eta=2, brackets=2),
    "plateau": lambda: Plateau(patience=2, min_delta=0.5),
    "divergence": lambda: Divergence(factor=2, warmup=1),
    "walltime": lambda: WallTime(limit_s=3),
    "none": NeverStop,
    "two": lambda: FirstOf([ASHA(eta=2), Plateau(patience=2)]),
}


@pytest.mark.parametrize("name", MAKERS)
def test_all_of_them_are_checked(name: str) -> None:
    assert {*STOPPERS.classes, *STOPPERS.presets} | {"two"} == set(MAKERS)


@pytest.mark.parametrize("name", MAKERS)
@settings(deadline=None, max_examples=25)
@given(curves, st.randoms(use_true_random=False), st.sampled_from(["max", "min"]))
def test_each_keeps_what_every_stopper_promises(name: str, curves: list[list[float]], order: Any, mode: Mode) -> None:
    turns = [trial for trial, curve in enumerate(curves) for _ in curve]
    order.shuffle(turns)
    at = [0] * len(curves)
    reports = []
    for trial in turns:
        at[trial] = 1 if order.random() < 0.1 else at[trial] + 1  # an attempt may be lost, and the trial start over
        reports.append(Report(trial, at[trial], curves[trial][at[trial] - 1], float(at[trial])))
    check_stopper(MAKERS[name], reports, mode=mode)


# --- by name --------------------------------------------------------------------------------------


def refusal(call: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        call()
    return str(refused.value)


class Own:
    def decide(self, report: Report, standing: Standing) -> Decision:
        return GO_ON


@pytest.mark.parametrize("cls", [MedianRule, ASHA, Hyperband, Plateau, Divergence])
def test_what_a_stopper_watches_is_a_name(cls: Any) -> None:
    assert refusal(lambda: cls(metric=3)) == "metric=3 is no name. Pass the name of what train returns or reports."


def test_a_stopper_is_found_by_name_or_taken_as_it_is() -> None:
    assert make_stopper("median", ONE) == MedianRule()
    assert make_stopper("median-best", ONE) == MedianRule(best_so_far=True)
    assert make_stopper(None, ONE) == MedianRule()
    assert make_stopper(None, TWO) == NeverStop()

    own = Own()
    assert make_stopper(own, ONE) is own
    used = ASHA(eta=4)
    made = make_stopper(used, ONE)
    assert made == used
    assert made is not used  # what it has seen elsewhere stays there


def test_what_is_no_stopper_is_refused() -> None:
    names = "'median', 'asha', 'hyperband', 'plateau', 'divergence', 'walltime', 'none', 'median-best'"
    assert refusal(lambda: make_stopper("hyperbend", ONE)) == (
        f"stopper='hyperbend' is not known. Did you mean 'hyperband'? There are: {names}."
    )
    assert refusal(lambda: make_stopper(cast("Stopper", 3), ONE)) == (
        f"stopper=3 (int) is no stopper. Pass one of {names}, or an object with a decide(report, standing) method."
    )
    assert refusal(lambda: make_stopper(cast("Stopper", MedianRule), ONE)) == (
        "stopper=etude.MedianRule is a class, and no stopper yet. Call it: stopper=etude.MedianRule()."
    )
    assert refusal(lambda: make_stopper(cast("Stopper", Own), ONE)) == (
        "stopper=Own is a class, and no stopper yet. Call it: stopper=Own()."
    )
    assert refusal(lambda: make_stopper([], ONE)) == (
        "stopper=[] is no stopper. Pass stopper='none' if every trial is to run to its end."
    )


def test_of_two_metrics_the_one_that_is_watched_has_to_be_said() -> None:
    assert refusal(lambda: make_stopper("asha", TWO)) == (
        "stopper=ASHA() watches one metric, and there are 2: 'accuracy', 'latency_s'. "
        "Say which: stopper=etude.ASHA(metric='accuracy'), or pass stopper='none'."
    )
    assert refusal(lambda: make_stopper("median-best", TWO)).endswith(
        "Say which: stopper=etude.MedianRule(best_so_far=True, metric='accuracy'), or pass stopper='none'."
    )
    assert refusal(lambda: make_stopper(ASHA(eta=4), TWO)).endswith(
        "Say which: stopper=etude.ASHA(eta=4, metric='accuracy'), or pass stopper='none'."
    )
    assert refusal(lambda: make_stopper(Own(), TWO)) == (
        "stopper=Own watches one metric, and there are 2: 'accuracy', 'latency_s'. "
        "Say which: give it an attribute, metric = 'accuracy', or pass stopper='none'."
    )
    assert refusal(lambda: make_stopper(Plateau(metric="loss"), TWO)) == (
        "stopper=Plateau(metric='loss') watches 'loss', which is no metric of this experiment. "
        "There are: 'accuracy', 'latency_s'."
    )
    assert refusal(lambda: make_stopper([ASHA(metric="accuracy"), Plateau(metric="latency_s")], TWO)) == (
        "stopper=[ASHA(metric='accuracy'), Plateau(metric='latency_s')] watches 'accuracy' and 'latency_s', and steps "
        "can be counted by the reports of one metric alone. Let all of them watch the same."
    )
    assert watched_by(make_stopper(["walltime", ASHA(metric="latency_s")], TWO)) == "latency_s"
    assert make_stopper("walltime", TWO) == WallTime()
    assert watched_by(make_stopper("none", TWO)) is None


@pytest.mark.parametrize("given", ["asha", "median-best", ["plateau", Divergence(factor=2)], Hyperband(eta=4)])
def test_a_stopper_survives_as_plain_data(given: Given) -> None:
    made = make_stopper(given, ONE)
    again = make_stopper(from_plain(to_plain(made)), ONE)
    assert describe(again) == describe(made)
    assert from_plain(None) is None


def test_what_is_not_ours_is_no_plain_data() -> None:
    own = FirstOf([NeverStop(), Broken("")])
    assert to_plain(own) is None
    assert describe(own) == "[NeverStop(), Broken]"


def test_of_several_the_first_decides_that_has_something_to_say() -> None:
    board = Board()
    both = FirstOf([WallTime(limit_s=10), Divergence(), WallTime(limit_s=1)])
    trial = board.start()
    assert both.decide(board.report(trial, 0.5), board.history) == Decision(
        Act.ENOUGH, "its time is up: 1 s, limit 1 s"
    )
    diverged = board.report(trial, math.nan)
    assert both.decide(diverged, board.history) == Decision(Act.STOP, "diverged: nan at step 2")


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


def test_the_check_finds_a_stopper_that_does_not_notice_that_an_attempt_started_over() -> None:
    class Stubborn:
        """Remembers the best of each trial, also of an attempt that is over."""

        def __init__(self) -> None:
            self.best: dict[int, float] = {}

        def decide(self, report: Report, standing: Standing) -> Decision:
            curve = standing.trials[report.trial].curve
            self.best[report.trial] = min(self.best.get(report.trial, math.inf), *curve)
            return Decision(Act.STOP, "bad") if self.best[report.trial] > 0.5 else GO_ON

    lost = [Report(0, 1, 0.1, 1.0), Report(0, 1, 0.9, 1.0)]
    with pytest.raises(AssertionError, match="made in the middle"):
        check_stopper(Stubborn, lost)


def test_the_check_wants_a_mode_that_is_one() -> None:
    assert refusal(lambda: check_stopper(NeverStop, [Report(0, 1, 0.5, 1.0)], mode=cast("Mode", "mx"))) == (
        "mode='mx' says neither that larger values of 'metric' are better nor that smaller ones are. "
        "Pass mode='max' or mode='min'."
    )


def test_the_check_wants_steps_without_a_gap() -> None:
    with pytest.raises(AssertionError, match="counts its steps from 1"):
        check_stopper(NeverStop, [Report(0, 2, 0.5, 1.0)])


def test_the_check_finds_a_stopper_that_decides_nothing() -> None:
    class Mute:
        pass

    with pytest.raises(AssertionError, match=r"^a stopper has decide, and .*Mute has no decide$"):
        check_stopper(cast("Any", Mute), [Report(0, 1, 0.5, 1.0)])
