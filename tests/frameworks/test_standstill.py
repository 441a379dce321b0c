"""A standstill is certain, or it is none: who computes, and what is on its way, is waited for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.frameworks.standstill import Awaited, Waiting, has_moved, is_standstill, last_heard, told


def waits(
    kind: str = "backward", number: int = 12, *, line: str = "train.py:33", nth: int = 40, said: int = 1, **begun: int
) -> Waiting:
    awaited = Awaited(kind, number, f"{kind} {number}")
    return Waiting(awaited, line, nth, said, {kind: number, **begun})


BACKWARD, REPORT = waits(report=4), waits("report", 5, line="train.py:40", nth=7, backward=11)


def later(ranks: list[Waiting], times: int = 2) -> list[Waiting]:
    return [replace(one, said=one.said + times) for one in ranks]


def test_ranks_that_wait_for_what_another_has_not_begun_stand_still() -> None:
    assert is_standstill([BACKWARD, REPORT], later([BACKWARD, REPORT]))
    assert is_standstill([BACKWARD, BACKWARD, REPORT], later([BACKWARD, BACKWARD, REPORT]))


@pytest.mark.parametrize("times", [0, 1])
def test_a_wait_that_was_not_said_twice_more_may_have_been_over_when_it_was_read(times: int) -> None:
    before = [BACKWARD, REPORT]
    assert not is_standstill(before, later(before, times))
    assert not is_standstill(before, [*later([BACKWARD]), replace(REPORT, said=REPORT.said + times)])


def test_a_rank_that_waits_for_something_else_by_now_has_moved() -> None:
    before, now = [BACKWARD, REPORT], later([BACKWARD, replace(REPORT, nth=8)])
    assert has_moved(before, now)
    assert not has_moved(before, later(before))
    assert not is_standstill(before, now)


def test_what_all_have_begun_is_on_its_way() -> None:
    same = [BACKWARD, BACKWARD]
    assert not is_standstill(same, later(same)), "the network is slow"
    ahead = [waits(report=5), REPORT]  # a report does not wait: it was made before that backward
    assert not is_standstill(ahead, later(ahead)), "the report will be there, and then that rank goes on"


BEGUN = st.dictionaries(st.sampled_from("abc"), st.integers(0, 3))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3), BEGUN), min_size=2, max_size=5))
def test_nobody_who_can_go_on_is_at_a_standstill(drawn: list[tuple[str, int, dict[str, int]]]) -> None:
    """Somebody can where all have begun what that one waits for."""
    ranks = [
        Waiting(Awaited(kind, number, ""), "", 1, 1, {**begun, kind: max(number, begun.get(kind, 0))})
        for kind, number, begun in drawn
    ]
    free = [all(other.begun.get(one.awaited.kind, 0) >= one.awaited.number for other in ranks) for one in ranks]
    assert is_standstill(ranks, later(ranks)) is not any(free)


def test_a_standstill_is_told_with_all_places_and_the_mend() -> None:
    assert told([BACKWARD, REPORT, BACKWARD]) == (
        "The ranks wait for each other at different places, and none of them can go on: ranks 0, 2 wait at backward 12 "
        "(train.py:33); rank 1 waits at report 5 (train.py:40). Something is done on some ranks only: a batch that is "
        "skipped, an epoch that is left early, a backward or a report under `if run.rank == 0`. All ranks go the same "
        "way through the training function; run.mean(value) makes one number of theirs to decide by."
    )
    assert "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more wait at backward 12 (train.py:33); rank 10" in told(
        [BACKWARD] * 10 + [REPORT]
    )
    assert "waits at the end of the training; " in told(
        [replace(REPORT, awaited=Awaited("report", 5, "the end of the training"), line=""), BACKWARD]
    )


def test_after_the_timeout_users_hear_where_ranks_were() -> None:
    assert last_heard({0: None, 1: None}) == ""
    assert last_heard({0: BACKWARD, 1: None}) == (
        "Last heard: rank 0 waits at backward 12 (train.py:33); rank 1 waits for nobody: a rank computes "
        "then, hangs, or waits for something of its own."
    )
    assert last_heard({0: BACKWARD, 1: BACKWARD}) == (
        "Last heard: ranks 0, 1 wait at backward 12 (train.py:33); so what is between them, such as the network, is "
        "in trouble."
    )
    assert last_heard({0: BACKWARD, 1: REPORT}).endswith("rank 1 waits at report 5 (train.py:40).")


def test_what_a_rank_says_is_read_as_it_was_said() -> None:
    assert Waiting.unpacked(BACKWARD.packed()) == BACKWARD
