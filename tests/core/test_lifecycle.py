"""The lifecycle table, and what is computed from it."""

from itertools import product

import pytest

from etude.core.errors import TransitionError
from etude.core.lifecycle import FINAL, LIVE, NEXT, State, Turn, after, diagram


def test_every_state_can_be_reached() -> None:
    assert {State.QUEUED, *NEXT.values()} == set(State)


def test_every_turn_happens_somewhere() -> None:
    assert {turn for _, turn in NEXT} == set(Turn)


def test_four_states_are_final() -> None:
    assert {State.FINISHED, State.STOPPED, State.FAILED, State.INVALID} == FINAL


@pytest.mark.parametrize("state", sorted(set(State) - FINAL))
def test_a_final_state_can_be_reached_from_every_other(state: State) -> None:
    reached = {state}
    while more := {to for (at, _), to in NEXT.items() if at in reached} - reached:
        reached |= more
    assert reached & FINAL


def test_a_worker_holds_a_trial_only_after_it_was_assigned() -> None:
    assert {to for (_, turn), to in NEXT.items() if turn is Turn.ASSIGNED} <= LIVE
    assert {at for (at, turn) in NEXT if turn is Turn.LOST} == LIVE


def test_every_pair_is_a_row_or_an_error_that_lists_the_rows() -> None:
    for state, turn in product(State, Turn):
        if (state, turn) in NEXT:
            assert after(state, turn, trial=0) is NEXT[state, turn]
        else:
            with pytest.raises(TransitionError):
                after(state, turn, trial=0)


def test_a_step_that_cannot_be_is_refused_with_those_that_can() -> None:
    with pytest.raises(TransitionError) as refused:
        after(State.PAUSED, Turn.FINISHED, trial=3)
    assert str(refused.value) == ("trial 3 is paused, and got 'finished'. From here it takes: promoted, study_ended.")
    with pytest.raises(TransitionError) as refused:
        after(State.FINISHED, Turn.ASSIGNED, trial=3)
    assert str(refused.value) == ("trial 3 is finished, and got 'assigned'. From here it takes: nothing, it is final.")


def test_the_diagram_shows_every_row_and_every_end() -> None:
    lines = diagram().splitlines()
    assert lines[:2] == ["stateDiagram-v2", "    [*] --> queued"]
    assert "    running --> queued: lost" in lines
    assert {line for line in lines if line.endswith("--> [*]")} == {f"    {state.value} --> [*]" for state in FINAL}
    assert len(lines) == 2 + len(NEXT) + len(FINAL)
