"""What the trials of a study come to: how many stand where, how long they took, what stopping them saved."""

from __future__ import annotations

from etude.core import totals
from etude.core.events import How

from .support import STOP, Script, Stage


def test_a_study_that_has_not_begun_comes_to_nothing() -> None:
    history = Stage(2).driver.history
    assert totals.counts(history) == {}
    assert totals.makespan_s(history) is None
    assert totals.elapsed_s(history) is None
    assert totals.saved(history) == (0, 0)
    assert totals.parameters(history) == []


def test_trials_are_counted_where_they_stand() -> None:
    stage = Stage(3)
    stage.join("a", "b")
    stage.end(0)
    stage.end(1, How.UNUSABLE, reason="ValueError: no")
    assert totals.counts(stage.driver.history) == {"finished": 1, "failed": 1, "running": 1}
    assert totals.parameters(stage.driver.history) == ["x", "redraw"]


def test_the_makespan_goes_from_the_first_hand_out_to_the_last_end() -> None:
    stage = Stage(2)
    stage.open()
    stage.wait(5.0)
    stage.join("a")
    assert totals.makespan_s(stage.driver.history) is None  # none has ended
    stage.wait(3.0)
    stage.end(0)
    stage.wait(4.0)
    stage.end(1)
    stage.wait(2.0)
    assert totals.makespan_s(stage.driver.history) == 7.0
    assert totals.elapsed_s(stage.driver.history) == 12.0


def test_a_stopped_trial_was_spared_what_the_longest_finished_one_had() -> None:
    stage = Stage(Script(3, verdicts={(1, 2): STOP}))
    stage.join("a", "b")
    for step in range(1, 6):
        stage.report(0, 0.1 * step)
    stage.report(1, 0.1)
    stage.report(1, 0.1)
    assert totals.saved(stage.driver.history) == (0, 0)  # it has been asked to, and has not ended
    stage.end(1, How.STOPPED)
    assert totals.saved(stage.driver.history) == (1, 0)  # nobody knows yet how far trials go
    stage.end(0)
    assert totals.saved(stage.driver.history) == (1, 3)


def test_epochs_that_no_trial_shares_were_all_trained() -> None:
    stage = Stage(1)
    stage.join("a")
    stage.end(0)
    assert totals.saved_epochs(stage.driver.history)[0] == 0
