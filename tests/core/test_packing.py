"""Which trials run beside each other: those that ran out of memory alone, and others as far as memory goes."""

from __future__ import annotations

import pytest

from etude.core.events import How, Settled
from etude.core.history import Trial
from etude.core.lifecycle import State
from etude.core.limits import Limits
from etude.core.packing import CONTEXT_MB, Needed

from .support import STOP, Script, Stage

ALONE = Limits(workers=3, retries=2, retry_alone=True, backoff_s=0.0)


def test_a_trial_that_ran_out_of_memory_waits_for_its_machine_and_has_it_to_itself() -> None:
    stage = Stage(6, limits=ALONE)
    stage.join("a", "b", "c")
    stage.end(1, How.OUT_OF_MEMORY, reason="killed by the kernel: out of memory")
    assert sorted(stage.hands.values()) == [(0, 1), (2, 1)], "nothing new begins while it waits for the two others"
    stage.end(0)
    assert sorted(stage.hands.values()) == [(2, 1)]
    stage.end(2)
    assert sorted(stage.hands.values()) == [(1, 2)], "alone, and ahead of all that is newer"
    stage.end(1)
    assert sorted(stage.hands.values()) == [(3, 1), (4, 1), (5, 1)]
    stage.run_out()
    assert stage.states == [State.FINISHED] * 6
    assert stage.trial(1).losses == 0, "those beside it may have taken the memory"
    assert stage.driver.history.out_of_memory == {1: 1}


def test_out_of_memory_alone_is_final_whatever_retries_are_left() -> None:
    stage = Stage(2, limits=ALONE)
    stage.join("a", "b")
    stage.end(0, How.OUT_OF_MEMORY, reason="CUDA out of memory")
    stage.end(1)
    stage.end(0, How.OUT_OF_MEMORY, reason="CUDA out of memory")
    assert stage.states == [State.FAILED, State.FINISHED]
    assert stage.trial(0).reason == "out of memory with no other trial on its machine: CUDA out of memory"
    assert stage.driver.history.out_of_memory == {0: 2}


def test_without_the_wish_it_is_a_loss_like_others_and_counted_all_the_same() -> None:
    stage = Stage(2, limits=Limits(workers=2, retries=1, backoff_s=0.0))
    stage.join("a", "b")
    stage.end(0, How.OUT_OF_MEMORY)
    assert stage.hands["b"] == (1, 1)
    assert (stage.trial(0).losses, stage.trial(0).alone) == (1, False)
    stage.end(1)
    stage.end(0, How.OUT_OF_MEMORY)
    assert stage.driver.history.out_of_memory == {0: 2}


def test_other_machines_go_on_while_one_is_cleared() -> None:
    stage = Stage(8, limits=ALONE)
    stage.join("a", "b", machine="one")
    stage.join("c", "d", machine="two")
    stage.end(0, How.OUT_OF_MEMORY)  # 0 and 1 ran on one, 2 and 3 on two
    assert sorted(stage.hands.values()) == [(1, 1), (2, 1), (3, 1)]
    stage.end(3)
    assert sorted(stage.hands.values()) == [(1, 1), (2, 1), (4, 1)], "the second machine is not kept as well"
    stage.end(1)
    assert stage.hands["a"] == (0, 2)
    assert "b" not in stage.hands
    stage.end(0)
    assert {"a", "b"} <= set(stage.hands)


def test_it_blames_no_worker_and_stays_alone_under_the_next_driver() -> None:
    stage = Stage(3, limits=ALONE)
    stage.join("a", "b", "c")
    for trial in (0, 1, 2):
        stage.end(trial, How.OUT_OF_MEMORY)
    assert sorted(stage.hands.values()) == [(0, 2)], "one at a time"
    assert [worker.fails for worker in stage.driver.history.workers.values()] == [0, 0, 0]
    stage.take_over(3)
    stage.join("d", "e")
    assert sorted(stage.hands.values()) == [(0, 3)]
    stage.run_out()
    assert stage.states == [State.FINISHED] * 3


def test_a_trial_that_was_to_stop_anyway_runs_no_more() -> None:
    stage = Stage(1, limits=ALONE)
    stage.join("a")
    assert isinstance(stage.plan, Script)
    stage.plan.verdicts = {(0, 1): STOP}
    stage.report(0, 0.5)
    stage.end(0, How.OUT_OF_MEMORY)
    assert stage.states == [State.STOPPED]
    assert not any(fact.alone for fact in stage.facts if isinstance(fact, Settled))


def test_where_one_trial_runs_at_a_time_it_was_alone_the_first_time() -> None:
    stage = Stage(1, limits=Limits(workers=1, retries=5, retry_alone=True, backoff_s=0.0))
    stage.join("a")
    stage.end(0, How.OUT_OF_MEMORY, reason="CUDA out of memory")
    assert stage.states == [State.FAILED]
    assert stage.trial(0).attempt == 1


class Known:
    """Predicts nothing before the first has finished, and then 10 MB for trial 0, 20 for trial 1, and so on."""

    def __init__(self) -> None:
        self.stage: Stage | None = None

    def __call__(self, trial: Trial) -> Needed:
        assert self.stage is not None
        return Needed(10.0 * (1 + trial.number) if self.stage.driver.history.finished else None)


def packed(trials: int) -> Stage:
    known = Known()
    known.stage = Stage(trials, limits=Limits(workers=8), need=known)
    return known.stage


def test_the_first_trial_runs_alone_to_be_measured_and_then_as_many_as_fit() -> None:
    stage = packed(5)
    stage.join(*"abcdefgh", memory_mb=100.0)
    assert sorted(stage.hands.values()) == [(0, 1)]
    stage.end(0)
    assert sorted(stage.hands.values()) == [(1, 1), (2, 1), (3, 1)], "20, 30 and 40 of the 90 that are for trials"
    stage.end(1)
    assert sorted(stage.hands.values()) == [(2, 1), (3, 1)], "50 more do not fit"
    stage.end(3)
    assert sorted(stage.hands.values()) == [(2, 1), (4, 1)]
    stage.run_out()
    assert stage.states == [State.FINISHED] * 5


def test_no_more_is_asked_of_the_sampler_than_can_be_placed() -> None:
    stage = packed(50)
    stage.join(*"abcdefgh", memory_mb=100.0)
    assert len(stage.trials) == 2, "one runs, one waits for room, and what comes later is not decided yet"


def test_what_needs_more_than_there_is_runs_alone_all_the_same() -> None:
    stage = packed(3)
    stage.join("a", "b", memory_mb=15.0)
    for number in range(3):
        assert list(stage.hands.values()) == [(number, 1)]
        stage.end(number)
    assert stage.states == [State.FINISHED] * 3


def test_a_machine_of_unknown_memory_takes_what_comes() -> None:
    stage = packed(9)
    stage.join(*"abcd")
    stage.end(0)
    assert len(stage.hands) == 4


GPU = {"0": 10_000.0}


def on_gpus(needed_mb: float | None, trials: int = 20) -> Stage:
    """Return a study whose trials need little of a machine, and so much of a GPU."""
    return Stage(trials, limits=Limits(workers=8), need=lambda trial: Needed(1.0, needed_mb))


def test_as_many_trials_share_a_gpu_as_its_memory_suffices_for() -> None:
    stage = on_gpus(3000.0 - CONTEXT_MB)
    stage.join(*"abcdefgh", memory_mb=1000.0, gpus_mb=GPU)
    assert sorted(stage.hands.values()) == [(0, 1), (1, 1), (2, 1)], "9 of the 9 GB that are for trials"
    stage.end(1)
    assert sorted(stage.hands.values()) == [(0, 1), (2, 1), (3, 1)]
    stage.run_out()
    assert stage.states == [State.FINISHED] * 20


def test_each_gpu_of_a_machine_is_filled_for_itself() -> None:
    stage = on_gpus(5000.0)
    stage.join("a", "b", memory_mb=1000.0, gpus_mb={"0": 10_000.0})
    stage.join("c", "d", memory_mb=1000.0, gpus_mb={"1": 24_000.0})
    assert sorted(stage.hands) == ["a", "c", "d"]


def test_gpus_of_the_same_name_on_two_machines_are_two() -> None:
    stage = on_gpus(5000.0)
    stage.join("a", "b", machine="one", memory_mb=1000.0, gpus_mb=GPU)
    stage.join("c", "d", machine="two", memory_mb=1000.0, gpus_mb=GPU)
    assert len(stage.hands) == 2
    assert {"a", "b"} & set(stage.hands)
    assert {"c", "d"} & set(stage.hands)


def test_of_several_gpus_that_a_trial_sees_any_may_be_the_one_it_fills() -> None:
    stage = on_gpus(5000.0)
    stage.join("a", memory_mb=1000.0, gpus_mb={"0": 10_000.0, "1": 10_000.0})
    stage.join("b", memory_mb=1000.0, gpus_mb={"1": 10_000.0, "2": 10_000.0})
    stage.join("c", memory_mb=1000.0, gpus_mb={"2": 10_000.0})
    assert sorted(stage.hands) == ["a", "c"]


def test_a_trial_that_uses_no_gpu_minds_none_and_one_of_unknown_size_takes_what_comes() -> None:
    stage = on_gpus(0.0)
    stage.join("a", "b", memory_mb=1000.0, gpus_mb={"0": 1.0})
    assert len(stage.hands) == 2
    stage = on_gpus(5000.0)
    stage.join("a", "b", memory_mb=1000.0, gpus_mb={"0": 0.0})
    assert len(stage.hands) == 2


def test_while_nothing_is_known_of_gpus_a_trial_has_its_own_to_itself() -> None:
    stage = on_gpus(None)
    stage.join("a", "b", memory_mb=1000.0, gpus_mb={"0": 10_000.0})
    stage.join("c", memory_mb=1000.0, gpus_mb={"1": 10_000.0})
    assert sorted(stage.hands) == ["a", "c"]


def test_no_more_is_proposed_than_idle_workers_could_take_where_all_that_comes_needs_too_much() -> None:
    stage = Stage(200, limits=Limits(workers=4), need=lambda trial: Needed(1.0, 5000.0))
    stage.join("a", memory_mb=1000.0, gpus_mb={"0": 100_000.0})
    stage.join("b", "c", memory_mb=1000.0, gpus_mb={"1": 8_000.0})
    assert sorted(stage.hands) == ["a", "b"], "the second GPU is full, and on the first nobody is idle"
    assert len(stage.trials) == 3


def test_who_waits_for_a_gpu_keeps_that_one_and_leaves_the_others() -> None:
    stage = Stage(6, limits=Limits(workers=4), need=lambda trial: Needed(1.0, 8000.0 if trial.number == 3 else 3000.0))
    stage.join("a", "b", memory_mb=1000.0, gpus_mb={"0": 10_000.0})
    stage.join("c", memory_mb=1000.0, gpus_mb={"1": 10_000.0})
    stage.join("d", memory_mb=1000.0, gpus_mb={"1": 10_000.0})
    assert stage.hands == {"a": (0, 1), "b": (1, 1), "c": (2, 1)}, "trial 3 waits for the GPU that fewest share"
    stage.end(0)
    assert stage.hands == {"b": (1, 1), "c": (2, 1), "d": (4, 1)}, "the other one is not kept"
    stage.end(1)
    assert (3, 1) in stage.hands.values()


@pytest.mark.parametrize("leaves", ["a", "b"])
def test_a_machine_whose_workers_left_keeps_nobody_waiting(leaves: str) -> None:
    stage = Stage(2, limits=ALONE)
    stage.join("a", machine="one")
    stage.join("b", machine="two")
    stage.end(0, How.OUT_OF_MEMORY)
    stage.leave(leaves)
    stage.join("c", machine="three")
    stage.run_out()
    assert stage.states == [State.FINISHED] * 2


def test_a_round_of_hand_outs_asks_for_what_runs_on_a_machine_once() -> None:
    asked: list[int] = []

    def need(trial: Trial) -> Needed:
        asked.append(trial.number)
        return Needed(1.0)

    stage = Stage(100, limits=Limits(workers=50), need=need)
    stage.join(*(f"w{n}" for n in range(50)), memory_mb=1e6)
    assert len(stage.hands) == 50
    asked.clear()
    stage.end(0)
    assert len(asked) <= 52, "those that run, once, and the one that is handed out"
