"""Saved states: from where an attempt goes on, what is kept, and that nothing else is."""

from __future__ import annotations

import random
from typing import Any

import pytest

from etude.core.errors import ConfigError
from etude.core.events import BEST, LAST, PARTS, STATE, Assign, Checkpoint, Discard, How, Keep, Note
from etude.core.keeping import as_text, read_keep
from etude.core.limits import Limits
from etude.core.shelf import POINTS

from .support import Script, Stage

PATIENT = Limits(workers=3, retries=9, backoff_s=0.0)


def epochs(stage: Stage, trial: int, *values: float, first: int = 1) -> list[Checkpoint]:
    """Let a trial report a value in each epoch, and save its state after it."""
    saved = []
    for epoch, value in enumerate(values, start=first):
        stage.report(trial, value)
        saved.append(stage.save(trial, epoch))
    return saved


def newest_assign(stage: Stage) -> Assign:
    return next(command for command in reversed(stage.told) if isinstance(command, Assign))


def test_a_lost_trial_goes_on_from_its_newest_checkpoint_or_the_one_before() -> None:
    stage = Stage(1, limits=PATIENT)
    stage.join("a", "b")
    assert newest_assign(stage).points == ()
    first, second, third = epochs(stage, 0, 0.1, 0.2, 0.3)
    stage.report(0, 0.4)
    stage.leave("a")
    assert newest_assign(stage).points == (third, second)
    assert list(stage.trial(0).curve) == [], "until it says from where it goes on"
    stage.resume(0, third)
    assert list(stage.trial(0).curve) == [0.1, 0.2, 0.3], "what came after is withdrawn"
    stage.report(0, 0.45)
    assert list(stage.trial(0).curve) == [0.1, 0.2, 0.3, 0.45]
    fourth = stage.save(0, 4)
    assert fourth.attempt == 2
    assert stage.driver.history.shelf.points(0) == (fourth, third)
    assert first not in stage.driver.history.shelf.points(0)


def test_one_that_falls_back_on_the_checkpoint_before_has_the_damaged_one_removed() -> None:
    stage = Stage(1, limits=PATIENT)
    stage.join("a", "b")
    _, second, third = epochs(stage, 0, 0.1, 0.2, 0.3)
    stage.leave("a")
    stage.resume(0, second)
    assert list(stage.trial(0).curve) == [0.1, 0.2]
    assert stage.driver.history.shelf.points(0) == (second,)
    assert (0, third.name("rest")) not in stage.files
    stage.leave("b")
    stage.join("c")
    stage.resume(0, None)
    assert list(stage.trial(0).curve) == []
    assert stage.files == set()


def test_from_where_it_goes_on_is_said_twice_and_heard_once() -> None:
    stage = Stage(1, limits=PATIENT)
    stage.join("a", "b")
    saved = epochs(stage, 0, 0.1, 0.2)
    stage.leave("a")
    stage.resume(0, saved[1])
    stage.report(0, 0.3)
    stage.resume(0, saved[1])
    assert list(stage.trial(0).curve) == [0.1, 0.2, 0.3]


def test_the_next_driver_knows_them_too() -> None:
    stage = Stage(2, limits=PATIENT)
    stage.join("a", "b")
    saved = epochs(stage, 0, 0.1, 0.2)
    stage.take_over(2)
    stage.join("c")
    assert newest_assign(stage).points == tuple(reversed(saved))


def test_a_late_checkpoint_of_an_attempt_that_is_over_is_removed_and_nobody_told() -> None:
    stage = Stage(1, limits=PATIENT)
    stage.join("a", "b")
    stage.leave("a")
    stage.told.clear()
    late = stage.save(0, 1, attempt=1)
    assert [type(command) for command in stage.told] == [Discard]
    assert stage.files == set()
    assert stage.driver.history.shelf.points(0) == ()
    assert late.attempt == 1


def test_of_the_best_trials_the_last_and_the_best_weights_are_kept() -> None:
    stage = Stage(5, limits=PATIENT)
    stage.join("a")
    curves = [(0.1, 0.5, 0.3), (0.2, 0.2, 0.2), (0.7, 0.6, 0.9), (0.8, 0.4, 0.4), (0.1, 0.1, 0.1)]
    for trial, curve in enumerate(curves):
        saved = epochs(stage, trial, *curve)
        stage.end(trial, value=curve[-1])
        if trial == 0:
            assert stage.files == {(0, saved[1].name("weights")), (0, saved[2].name("weights"))}
    kept = stage.driver.history.shelf.weights
    assert {trial: {name: point.epoch for name, point in kept(trial).items()} for trial in range(5)} == {
        0: {"last": 3, "best": 2},
        1: {},
        2: {"last": 3, "best": 3},
        3: {"last": 3, "best": 1},
        4: {},
    }
    assert stage.files == stage.driver.history.shelf.files
    assert len(stage.files) == 5


def test_a_trial_that_failed_keeps_nothing() -> None:
    stage = Stage(1, limits=Limits(workers=1, retries=0))
    stage.join("a")
    epochs(stage, 0, 0.9)
    stage.end(0, How.KILLED)
    assert stage.files == set()


def test_without_reports_checkpoints_are_kept_all_the_same() -> None:
    stage = Stage(1, limits=PATIENT)
    stage.join("a", "b")
    saved = [stage.save(0, epoch) for epoch in (1, 2, 3)]
    stage.leave("a")
    assert newest_assign(stage).points == (saved[2], saved[1])
    stage.resume(0, saved[2])
    stage.end(0)
    assert {point.epoch for point in stage.driver.history.shelf.weights(0).values()} == {3}


def test_at_no_moment_there_is_more_than_the_bound() -> None:
    draw = random.Random(3)
    for _ in range(20):
        stage = Stage(12, limits=PATIENT)
        workers = [f"w{n}" for n in range(3)]
        stage.join(*workers)
        for step in range(150):
            held = [(worker, trial) for worker, (trial, _) in stage.hands.items()]
            if not held:
                break
            worker, trial = draw.choice(held)
            match turn := draw.choice(["epoch"] * 4 + ["batch"] * 4 + ["end", "leave", "fail"]):
                case "epoch" | "batch":
                    known = stage.trial(trial)
                    points = stage.driver.history.shelf.points(trial)
                    if known.attempt > 1 and points and points[0].attempt < known.attempt and not known.reports:
                        stage.resume(trial, draw.choice([*points, None]))
                    if turn == "epoch":
                        stage.report(trial, draw.random())
                    stage.save(trial, stage.trial(trial).reports, batch=step + 1 if turn == "batch" else 0)
                case "end":
                    stage.end(trial, value=draw.random())
                case "fail":
                    stage.end(trial, draw.choice([How.RAISED, How.KILLED]))
                case "leave":
                    stage.leave(worker)
                    stage.join(f"{worker}-{step}")
            live = sum(t.attempt > 0 and stage.driver.history.shelf.points(t.number) != () for t in stage.trials)
            rests = sum(name.endswith(".rest.safetensors") for _, name in stage.files)
            assert rests <= (POINTS + 1) * live, "the one more is within an epoch"
            assert len(stage.files) - rests <= 2 * Keep().trials + (POINTS + 1) * live
            assert stage.files == stage.driver.history.shelf.files
        assert any(isinstance(command, Note) for command in stage.told)


def promoting(trials: int = 2, **options: Any) -> Stage:
    """Return a study in which trial 1 carries on trial 0."""
    plan = Script(trials, given={1: {"x": 0, "epochs": 3}}, carries_on={1: 0}, resumes=True, **options)
    return Stage(plan, limits=PATIENT)


def test_a_trial_goes_on_from_the_newest_state_of_the_one_that_it_carries_on() -> None:
    stage = promoting()
    stage.join("a")
    _, second = epochs(stage, 0, 0.1, 0.2)
    stage.end(0)
    assert {name for trial, name in stage.files if ".rest." in name} == {second.name("rest")}, "the newest alone"
    assign = newest_assign(stage)
    assert (assign.trial, assign.points, assign.source) == (1, (second,), 0)
    stage.resume(1, second, source=0)
    assert list(stage.trial(1).curve) == [0.1, 0.2]
    stage.report(1, 0.3)
    assert list(stage.trial(1).curve) == [0.1, 0.2, 0.3]
    third = stage.save(1, 3)
    assert (0, second.name("rest")) in stage.files, "trial 1 has but one of its own, which may be damaged"
    stage.report(1, 0.4)
    fourth = stage.save(1, 4)
    assert (0, second.name("rest")) not in stage.files
    stage.leave("a")
    stage.join("b")
    assign = newest_assign(stage)
    assert (assign.points, assign.source) == ((fourth, third), None)
    stage.resume(1, fourth)
    assert list(stage.trial(1).curve) == [0.1, 0.2, 0.3, 0.4]
    stage.end(1)
    assert not [name for _, name in stage.files if ".rest." in name]


def test_one_that_is_lost_before_its_first_state_goes_on_from_there_again() -> None:
    stage = promoting()
    stage.join("a")
    (first,) = epochs(stage, 0, 0.1)
    stage.end(0)
    stage.resume(1, first, source=0)
    stage.report(1, 0.2)
    stage.take_over(stage.plan)
    stage.join("b")
    assign = newest_assign(stage)
    assert (assign.trial, assign.attempt, assign.points, assign.source) == (1, 2, (first,), 0)
    stage.resume(1, first, source=0)
    assert list(stage.trial(1).curve) == [0.1]


def test_one_that_cannot_use_it_starts_over() -> None:
    stage = promoting()
    stage.join("a")
    epochs(stage, 0, 0.1)
    stage.end(0)
    stage.resume(1, None, source=0)
    assert list(stage.trial(1).curve) == []
    stage.report(1, 0.5)
    assert list(stage.trial(1).curve) == [0.5]
    stage.end(1)
    assert not [name for _, name in stage.files if ".rest." in name]


def test_what_is_never_promoted_is_let_go_and_nothing_is_left_when_all_is_done() -> None:
    stage = Stage(Script(3, resumes=True, never=[0]), limits=PATIENT)
    stage.join("a", "b", "c")
    for trial, left in enumerate([set(), {1}, set()]):
        epochs(stage, trial, 0.1 * trial)
        stage.end(trial)
        assert {number for number, name in stage.files if ".rest." in name} == left
    assert stage.driver.over
    assert not [name for _, name in stage.files if ".rest." in name]


def test_where_trials_start_anew_no_state_is_kept_for_them() -> None:
    plan = Script(2, given={1: {"x": 0, "epochs": 3}}, carries_on={1: 0})
    stage = Stage(plan, limits=PATIENT)
    stage.join("a")
    epochs(stage, 0, 0.1)
    stage.end(0)
    assert (newest_assign(stage).points, newest_assign(stage).source) == ((), None)
    assert not [name for _, name in stage.files if ".rest." in name]


def test_weights_of_epochs_that_are_named_are_kept_beside_the_others() -> None:
    stage = Stage(1, limits=PATIENT)
    stage.keep = Keep(1, ("last", "best", 2, 9))
    stage.join("a")
    epochs(stage, 0, 0.1, 0.2, 0.9, 0.3, 0.4, 0.5)
    stage.end(0)
    kept = {name: point.epoch for name, point in stage.driver.history.shelf.weights(0).items()}
    assert kept == {"last": 6, "best": 3, 2: 2}
    assert len(stage.files) == 3


def test_the_states_of_optimizers_are_kept_where_that_is_asked_for() -> None:
    stage = Stage(2, limits=PATIENT)
    stage.keep = Keep(2, ("last",), optimizers=True)
    stage.join("a")
    epochs(stage, 0, 0.1, 0.2)
    stage.end(0, value=0.2)
    shelf = stage.driver.history.shelf
    assert shelf.has_optimizers(0)
    assert sorted(name.split(".")[1] for _, name in stage.files) == ["rest", "weights"]
    stage.keep = Keep(2, ("last",))
    stage.take_over(2)
    stage.join("b")
    shelf = stage.driver.history.shelf
    assert not shelf.has_optimizers(0), "less at once"
    assert stage.files == shelf.files
    assert len(stage.files) == 1
    epochs(stage, 1, 0.1)
    stage.end(1, value=0.1)
    stage.keep = Keep(2, ("last",), optimizers=True)
    stage.take_over(3)
    assert not stage.driver.history.shelf.has_optimizers(1), "what is gone does not come back"


def test_weights_take_no_more_room_than_they_may() -> None:
    """The weights of each take 10 bytes, and the rest of a state 30 (``Stage.save``)."""
    stage = Stage(5, limits=PATIENT)
    stage.keep = Keep(3, ("last",), max_gb=25e-9)
    stage.join("a")
    for trial, value in enumerate((0.1, 0.3, 0.2, 0.4)):
        epochs(stage, trial, value)
        stage.end(trial, value=value)
    weights = stage.driver.history.shelf.weights
    assert [bool(weights(trial)) for trial in range(4)] == [False, True, False, True]
    assert stage.files == stage.driver.history.shelf.files
    assert len(stage.files) == 2
    epochs(stage, 4, 0.9)
    stage.save(4, 2, step=1, sizes=(30, 30))
    stage.end(4, value=0.9)
    assert [bool(weights(trial)) for trial in range(5)] == [False, True, False, True, False], "it alone is too large"
    stage.keep = Keep(3, ("last",), max_gb=5e-9)
    stage.take_over(4)
    assert not stage.files, "not even one finds room"


def test_another_driver_may_keep_more_from_then_on_or_less_at_once() -> None:
    stage = Stage(3, limits=PATIENT)
    stage.join("a", "b", "c")
    for trial in range(3):
        epochs(stage, trial, 0.1 * trial, 0.2 * trial)
        stage.end(trial, value=0.2 * trial)
    assert len(stage.files) == 2 + 2 + 2 - 3, "last and best are the same epoch"
    stage.keep = Keep(1, ("last",))
    stage.take_over(4)
    weights = stage.driver.history.shelf.weights
    assert [list(weights(trial)) for trial in range(3)] == [[], [], ["last"]]
    assert stage.files == stage.driver.history.shelf.files
    assert len(stage.files) == 1


def test_the_best_trial_by_its_final_value_has_its_weights_whatever_others_reported_on_their_way() -> None:
    stage = Stage(3, limits=PATIENT)
    stage.keep = Keep(1)
    stage.join("a")
    epochs(stage, 0, 0.9, 0.4)
    stage.end(0, value=0.4)
    epochs(stage, 1, 0.6, 0.6)
    stage.end(1, value=0.6)
    assert [bool(stage.driver.history.shelf.weights(trial)) for trial in (0, 1)] == [False, True]
    stage.save(2, 1, step=0)
    stage.end(2, value=0.7)
    assert stage.driver.history.shelf.weights(2), "it never reported"


def test_a_trial_that_runs_takes_nobodys_place() -> None:
    stage = Stage(2, limits=Limits(workers=1, retries=0))
    stage.keep = Keep(1)
    stage.join("a")
    epochs(stage, 0, 0.5)
    stage.end(0, value=0.5)
    epochs(stage, 1, 0.8, 0.9)
    assert stage.driver.history.shelf.weights(0)
    stage.end(1, How.KILLED)
    assert stage.driver.history.shelf.weights(0)
    assert {trial for trial, _ in stage.files} == {0}


def test_a_trial_that_runs_keeps_its_newest_checkpoint_and_its_best_or_the_one_before() -> None:
    stage = Stage(1, limits=PATIENT)
    stage.join("a")
    seen = []
    for epoch, value in enumerate([0.1, 0.2, 0.9, 0.3, 0.4, 0.95], start=1):
        epochs(stage, 0, value, first=epoch)
        seen.append([point.epoch for point in stage.driver.history.shelf.points(0)])
    assert seen == [[1], [2, 1], [3, 2], [4, 3], [5, 3], [6, 5]]


def test_a_lost_trial_goes_on_within_an_epoch_if_that_is_its_newest_checkpoint() -> None:
    stage = Stage(1, limits=PATIENT)
    stage.join("a", "b")
    first, second = epochs(stage, 0, 0.2, 0.1)
    older = stage.save(0, 2, batch=200)
    stage.report(0, 0.3)
    newer = stage.save(0, 2, batch=400)
    assert [second.key < older.key, older.key < newer.key] == [True, True]
    stage.report(0, 0.4)
    stage.leave("a")
    assert newest_assign(stage).points == (newer, second, first), "those between epochs are as they were"
    assert {(0, point.name(part)) for point in (newer, second, first) for part in PARTS} == stage.files
    assert newer.name("rest") == "attempt-1/checkpoints/0-00002-0000400.rest.safetensors"
    assert STATE.fullmatch(newer.name("rest").partition("/")[2])
    stage.resume(0, newer)
    assert list(stage.trial(0).curve) == [0.2, 0.1, 0.3]
    (third,) = epochs(stage, 0, 0.4, first=3)
    assert stage.driver.history.shelf.points(0) == (third, second), "this is the best, so the one before it is kept"


def test_what_is_kept_of_a_trial_that_ended_is_never_from_within_an_epoch() -> None:
    stage = Stage(1, limits=PATIENT)
    stage.keep = Keep(3, (LAST, BEST, 2))
    stage.join("a")
    _, best = epochs(stage, 0, 0.1, 0.9)
    stage.save(0, 2, batch=100)
    (last,) = epochs(stage, 0, 0.5, first=3)
    stage.save(0, 3, batch=100)
    stage.end(0, value=0.9)
    assert stage.driver.history.shelf.weights(0) == {LAST: last, BEST: best, 2: best}
    assert {name for _, name in stage.files} == {last.name("weights"), best.name("weights")}


def test_one_that_was_only_ever_saved_within_its_first_epoch_keeps_nothing_when_it_has_ended() -> None:
    stage = promoting()
    stage.join("a")
    stage.save(0, 0, batch=100)
    stage.report(0, 0.5)
    stage.end(0, value=0.5)
    assert newest_assign(stage).trial == 1
    assert newest_assign(stage).points == ()
    assert stage.files == set()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (-1, "keep=-1 cannot be"),
        (True, "keep=True"),
        (Keep(3, ("first",)), "keep has 'first' (str), which is no epoch"),
        (Keep(3, (0,)), "keep has 0 (int), which is no epoch"),
        ("3,best,x", "keep has 'x' (str), which is no epoch"),
        ("many", "keep='many'"),
        (Keep(3, "best"), "names no epochs"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_kept_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_keep(given)
    assert problem in str(refused.value)


def test_what_is_kept_is_told_as_text_that_can_be_read() -> None:
    for keep in (Keep(), Keep(0, ()), Keep(7, ("last", 3)), Keep(1, ("last",), True, 0.5), read_keep(4)):
        assert read_keep(as_text(keep)) == (keep if keep.epochs else Keep(0))


def test_of_a_state_in_shards_the_files_of_all_ranks_are_kept_and_go_together() -> None:
    stage = Stage(1, limits=PATIENT)
    stage.join("a", "b")
    stage.report(0, 0.1)
    first = stage.save(0, 1, ranks=3)
    assert first.name("rest", 2) == "attempt-1/checkpoints/0-00001.rank-2.rest.safetensors"
    assert len(first.names()) == 6
    assert all(STATE.fullmatch(name.partition("/")[2]) for name in first.names())
    stage.report(0, 0.9)
    second = stage.save(0, 2, ranks=3)
    assert {name for _, name in stage.files} == {*first.names(), *second.names()}
    stage.report(0, 0.5)
    third = stage.save(0, 3, ranks=3)
    assert {name for _, name in stage.files} == {*second.names(), *third.names()}
    stage.end(0, value=0.5)
    assert {name for _, name in stage.files} == {*second.names(("weights",)), *third.names(("weights",))}


def test_a_bound_for_weights_counts_those_of_all_ranks() -> None:
    stage = Stage(2, limits=PATIENT)
    stage.keep = Keep(2, (LAST,), max_gb=3.5)
    stage.join("a")
    for trial, value in enumerate((0.2, 0.9)):
        stage.report(trial, value)
        stage.save(trial, 1, ranks=2, sizes=(10**9, 10**10))
        stage.end(trial, value=value)
    assert {trial for trial, _ in stage.files} == {1}, "there is room for those of the better one, which are two files"
    assert len(stage.files) == 2


def test_a_state_of_which_a_shard_is_lost_goes_and_the_next_may_be_written() -> None:
    stage = Stage(1, limits=PATIENT)
    stage.join("a", "b")
    stage.report(0, 0.1)
    first = stage.save(0, 1, ranks=2)
    stage.told.clear()
    lost = stage.save(0, 2, ranks=2, lost=True)
    assert [type(command) for command in stage.told] == [Discard, Note]
    assert {name for _, name in stage.files} == {*first.names()}
    assert stage.driver.history.shelf.points(0) == (first,)
    stage.leave("a")
    stage.told.clear()
    stage.save(0, 2, ranks=2, attempt=lost.attempt, lost=True)
    assert [type(command) for command in stage.told] == [Discard], "its attempt is over"
