"""Trials that have finished in another study: taken, marked, and never run."""

from collections.abc import Mapping

from etude.core.events import (
    Assign,
    End,
    Fail,
    How,
    Opened,
    Outcome,
    Params,
    Queued,
    Start,
    Usage,
)
from etude.core.history import Trial
from etude.core.lifecycle import State
from etude.core.reuse import NOTHING, Donor, Reuse, key

from .support import Script, Stage, all_different

SEED = 7  # that of the stage's trials
USAGE = Usage(wall_s=12.0)


def reuse(*taken: int, seed: int = SEED, defaults: Mapping[str, int] | None = None) -> Reuse:
    """Return what a study gives that has run the sampler's proposals with these numbers."""

    def whole(params: Params) -> Params:
        return {**(defaults or {}), **params}

    found = {}
    for k in taken:
        outcome = Outcome(How.FINISHED, value=0.9, extra={"lag": k}, usage=USAGE)
        found[key(whole(all_different(k, 0)), seed)] = Donor("other", 10 + k, outcome)
    return Reuse(found, whole)


def handed_out(stage: Stage) -> list[int]:
    return [command.trial for command in stage.told if isinstance(command, Assign)]


def test_a_trial_that_has_finished_elsewhere_is_taken_and_not_run() -> None:
    stage = Stage(3, reuse=reuse(0, 2))
    stage.join("a")
    stage.run_out()
    assert handed_out(stage) == [1]
    assert stage.states == [State.FINISHED] * 3
    assert [trial.taken_from for trial in stage.trials] == [("other", 10), None, ("other", 12)]
    first = stage.trial(0)
    assert (first.value, first.extra, first.outcome.usage if first.outcome else None) == (0.9, {"lag": 0}, USAGE)
    assert (first.attempt, first.reports, first.reason) == (0, 0, "taken from trial 10 of study other")
    assert stage.driver.history.taken == 2
    assert stage.told[-1] == End("all trials ended", complete=True)


def test_a_study_of_which_all_is_known_ends_before_a_worker_comes() -> None:
    stage = Stage(3, reuse=reuse(0, 1, 2))
    stage.open()
    assert stage.told[-1] == End("all trials ended", complete=True)


def test_another_seed_is_another_trial() -> None:
    stage = Stage(1, reuse=reuse(0, seed=8))
    stage.join("a")
    assert handed_out(stage) == [0]


def test_defaults_of_what_a_configuration_leaves_out_count() -> None:
    found = Reuse({key({"x": 0, "redraw": 0, "depth": 2}, SEED): Donor("other", 3, Outcome(How.FINISHED, value=0.9))})
    stage = Stage(1, reuse=Reuse(found.donors, lambda params: {"depth": 2, **params}))
    stage.join("a")
    assert stage.trial(0).taken_from == ("other", 3)
    other = Stage(1, reuse=Reuse(found.donors, lambda params: {"depth": 3, **params}))
    other.join("a")
    assert other.trial(0).taken_from is None


def test_an_earlier_trial_of_the_same_study_goes_first() -> None:
    stage = Stage(2, sampler=lambda k, redraw: {"x": 0, "redraw": 0}, reuse=reuse(0))
    stage.join("a")
    assert [(trial.same_as, trial.taken_from) for trial in stage.trials] == [(None, ("other", 10)), (0, None)]
    assert [trial.value for trial in stage.trials] == [0.9, 0.9]


def test_a_promoted_configuration_may_be_taken_and_carried_on() -> None:
    given: dict[int, Params] = {1: {"x": 0, "epochs": 3}, 2: {"x": 0, "epochs": 9}}
    known = {key(given[1], SEED): Donor("other", 4, Outcome(How.FINISHED, value=0.8))}
    stage = Stage(Script(3, given=given, carries_on={1: 0, 2: 1}, resumes=True), reuse=Reuse(known))
    stage.join("a")
    stage.run_out()
    assert handed_out(stage) == [0, 2]
    assert [trial.taken_from for trial in stage.trials] == [None, ("other", 4), None]
    last = next(c for c in stage.told if isinstance(c, Assign) and c.trial == 2)
    assert last.points == ()  # nothing of the one before is here to go on from


def test_a_driver_that_was_killed_between_the_two_facts_loses_nothing() -> None:
    for given, taken in ((NOTHING, False), (reuse(0), True)):
        stage = Stage(1, reuse=given)
        stage.facts = [
            Opened(at=0.0, driver="driver 1", epoch=1),
            Queued(at=0.0, trial=0, params=all_different(0, 0), seed=SEED),
        ]
        stage._replayed.apply(stage.facts[0])
        stage._replayed.apply(stage.facts[1])
        stage.take_over()
        stage.join("a")
        stage.run_out()
        assert stage.states == [State.FINISHED]
        assert handed_out(stage) == ([] if taken else [0])
        assert (stage.trial(0).taken_from is not None) == taken


def test_what_was_taken_stays_without_the_other_study() -> None:
    stage = Stage(2, reuse=reuse(0))
    stage.join("a")
    stage.cancel()
    stage.reuse = NOTHING
    stage.take_over()
    stage.join("b")
    stage.run_out()
    assert handed_out(stage) == [1, 1]
    assert [trial.taken_from for trial in stage.trials] == [("other", 10), None]


def test_a_trial_that_was_handed_out_before_is_run_to_its_end() -> None:
    stage = Stage(1)
    stage.join("a")
    stage.cancel()
    stage.reuse = reuse(0)
    stage.take_over()
    stage.join("b")
    stage.run_out()
    assert handed_out(stage) == [0, 0]
    assert stage.trial(0).taken_from is None


def test_a_trial_that_begins_with_given_weights_is_no_plain_run() -> None:
    found = reuse(0)
    params = all_different(0, 0)
    plain = Trial(Queued(at=0.0, trial=0, params=params, seed=SEED))
    begun = Trial(Queued(at=0.0, trial=0, params=params, seed=SEED, start=Start("best", "abc")))
    assert found.find(plain) is not None
    assert found.find(begun) is None


def test_what_went_well_elsewhere_does_not_show_that_trials_can_go_well_here() -> None:
    stage = Stage(2, reuse=reuse(0))
    stage.join("a")
    stage.end(1, How.UNUSABLE, reason="it returned nothing")
    assert any(isinstance(command, Fail) for command in stage.told)
    assert stage.states == [State.FINISHED, State.QUEUED]


def test_what_was_taken_ends_no_doubt_whether_any_trial_can_go_well() -> None:
    stage = Stage(3, sampler=None, reuse=reuse(2))
    stage.join("a", "b")
    stage.suggest(0, all_different(0, 0))
    stage.suggest(1, all_different(1, 0))
    stage.end(0, How.UNUSABLE, reason="it returned nothing")
    said = stage.suggest(2, all_different(2, 0))
    assert stage.trial(2).taken_from == ("other", 12)
    assert not [command for command in said if isinstance(command, Assign)]
    stage.end(1)
    assert stage.hands == {"a": (0, 2)}  # a trial that ran went well, so the first is worth another try
