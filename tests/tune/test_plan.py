"""A search as a plan: it asks for as many trials as were wanted, or as there are."""

from dataclasses import dataclass
from typing import Any, cast

import pytest
from board import Board

from etude.core.driver import Driver
from etude.core.errors import ConfigError, StudyError
from etude.core.events import Ended, Fail, How, Joined, Opened, Outcome, Persist, Queued, Settled, Suggested
from etude.core.history import History, Trial
from etude.core.lifecycle import Turn
from etude.core.metrics import Metrics
from etude.core.plan import GO_ON, Act, Decision, Done, Halt, Propose, Report, Standing, Wait
from etude.core.text import brief
from etude.tune.plan import SearchPlan
from etude.tune.stop import NeverStop


@dataclass
class Stand:
    """A study with so many trials, of which so many are different."""

    n: int
    distinct: int

    @property
    def trials(self) -> list[Trial]:
        return cast("list[Trial]", [None] * self.n)

    @property
    def finished(self) -> list[Trial]:
        return []

    @property
    def metrics(self) -> Metrics:
        return Metrics({"score": "max"})


def plan(trials: int = 10, size: int | None = None) -> SearchPlan:
    return SearchPlan(trials, 42, NeverStop(), size)


def test_it_asks_until_there_are_enough_and_all_share_one_seed() -> None:
    assert plan(3).ask(Stand(2, 2), pending=[]) == Propose(42)
    assert plan(3).ask(Stand(3, 3), pending=[]) == Done("all 3 trials ended")
    assert plan(1).ask(Stand(0, 0), pending=[Propose(42)]) == Done("all 1 trial ended")


def test_trials_of_earlier_runs_count() -> None:
    assert plan(3).ask(Stand(5, 5), pending=[]) == Done("all 3 trials ended")
    assert plan(9).ask(Stand(5, 5), pending=[]) == Propose(42)


@pytest.mark.parametrize(
    ("n", "distinct", "asked", "answer"),
    [
        (3, 3, 3, Propose(42)),  # one is left
        (3, 3, 4, Wait()),  # it is being proposed
        (4, 4, 4, Done("the space is used up: 4 configurations, all of them tried")),
        (5, 4, 5, Done("the space is used up: 4 configurations, all of them tried")),
        (5, 3, 5, Propose(42)),  # some were proposed twice, so one is still left
        (5, 3, 6, Wait()),
    ],
)
def test_a_space_that_is_used_up_ends_the_search(n: int, distinct: int, asked: int, answer: object) -> None:
    assert plan(100, size=4).ask(Stand(n, distinct), pending=[Propose(42)] * (asked - n)) == answer


def test_the_stopper_decides() -> None:
    class Own:
        def decide(self, report: Report, standing: Standing) -> Decision:
            asked.append((report, standing))
            return GO_ON

    asked: list[object] = []
    report, standing = Report(0, 1, 0.5, 1.0), Stand(1, 1)
    assert SearchPlan(1, 0, Own()).decide(report, standing) is GO_ON
    assert asked == [(report, standing)]


@pytest.mark.parametrize("answer", [None, True, "stop", Act.STOP, Decision("stop"), Decision(Act.STOP, None)])  # type: ignore[arg-type]
def test_what_is_no_decision_is_refused_by_the_name_of_the_stopper(answer: Any) -> None:
    class Own:
        def decide(self, report: Report, standing: Standing) -> Decision:
            return answer  # type: ignore[no-any-return]

    with pytest.raises(ConfigError) as refused:
        SearchPlan(1, 0, Own()).decide(Report(0, 1, 0.5, 1.0), Stand(1, 1))
    name = f"{Own.__module__}.{Own.__qualname__}"
    assert str(refused.value) == (
        f"The stopper {name} returned {brief(answer)} from decide(), which does not say what becomes of trial 0. "
        "Return etude.Decision(etude.Act.STOP, reason), or etude.GO_ON."
    )


# --- a stopper that hears nothing -----------------------------------------------------------------

SILENT = (
    "Trial 0 finished without one report of 'm', so stopper=MedianRule() has nothing to go by and would never stop a "
    "trial. Report on the way, run.report(m=...), or leave it out (stopper='none' if there is no other). What has "
    "finished is kept."
)


def listening(trials: int = 10) -> SearchPlan:
    return SearchPlan(trials, 42, NeverStop(), wants_reports="MedianRule()")


def test_a_trial_that_finished_without_a_report_ends_the_search_unless_another_has_reported() -> None:
    board = Board()
    assert listening().ask(board.history, pending=[]) == Propose(42)
    board.finish()
    assert listening().ask(board.history, pending=[]) == Halt(SILENT)
    assert plan().ask(board.history, pending=[]) == Propose(42)  # nobody asked for a stopper
    board.report(board.start(), 0.5)
    assert listening().ask(board.history, pending=[]) == Propose(42)


def test_a_trial_that_was_taken_from_another_study_shows_nothing_of_reports() -> None:
    board = Board()
    taken = Outcome(How.FINISHED, value=0.5)
    board.history.apply(Queued(at=0.0, trial=0, params={"n": 0}, seed=42))
    board.history.apply(Settled(at=0.0, trial=0, turn=Turn.REUSED, outcome=taken, taken_from=("other", 3)))
    assert listening().ask(board.history, pending=[]) == Propose(42)
    board.finish()
    assert listening().ask(board.history, pending=[]) == Halt(SILENT.replace("Trial 0", "Trial 1"))


def test_where_everything_has_ended_there_is_nothing_left_to_spare() -> None:
    board = Board()
    board.finish()
    assert listening(1).ask(board.history, pending=[]) == Done("all 1 trial ended")
    board.start()
    assert listening(2).ask(board.history, pending=[]) == Halt(SILENT)


def test_the_driver_ends_the_study_with_that_error_and_keeps_what_finished() -> None:
    driver = Driver(listening(), History(Metrics({"m": "max"})))
    commands = [*driver.handle(Opened(at=0.0, driver="d", epoch=1)), *driver.handle(Joined(at=0.0, worker="a"))]
    for k in range(2):
        commands += driver.handle(Suggested(at=0.0, k=k, params={"x": k}))
    outcome = Outcome(How.FINISHED, value=0.5)
    commands = driver.handle(Ended(at=1.0, worker="a", trial=0, attempt=1, outcome=outcome))
    kept = [command.fact for command in commands if isinstance(command, Persist)]
    assert any(isinstance(fact, Settled) and fact.outcome == outcome for fact in kept)
    failed = [command for command in commands if isinstance(command, Fail)]
    assert [str(command.error) for command in failed] == [SILENT]
    assert isinstance(failed[0].error, StudyError)
