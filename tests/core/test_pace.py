"""How many proposals there are in hand."""

import math

from hypothesis import given
from hypothesis import strategies as st

from etude.core.pace import Pace


def paced(workers: int, thinks_s: float, between_s: float, ends: int = 20) -> Pace:
    """Return what was seen of a sampler that thinks so long, and of trials that end so far apart."""
    pace = Pace(workers)
    for k in range(ends):
        pace.ended(k * between_s)
        pace.asked(k, k * thinks_s)
        pace.answered(k, (k + 1) * thinks_s)
    return pace


def test_one_is_in_hand_until_something_was_seen() -> None:
    assert Pace(4).in_hand == 1
    assert paced(4, 1.0, 1.0, ends=4).in_hand == 1  # four workers, and not one of them has ended two trials


def test_one_is_in_hand_where_thinking_takes_little() -> None:
    assert paced(2, 0.0001, 10.0).in_hand == 1
    assert paced(2, 0.005, 0.2).in_hand == 1


def test_more_than_one_is_in_hand_where_trials_end_while_the_sampler_thinks() -> None:
    assert paced(2, 0.6, 1.0).in_hand == 2
    assert paced(8, 0.25, 0.1).in_hand == 4
    assert paced(100, 0.5, 0.01, ends=150).in_hand == 51


def test_none_is_in_hand_with_one_worker_however_long_thinking_takes() -> None:
    assert Pace(1).in_hand == 0
    assert paced(1, 0.9, 1.0).in_hand == 0


def test_never_more_than_there_are_workers() -> None:
    assert paced(3, 100.0, 1.0).in_hand == 3


def test_the_first_proposal_waits_for_a_process_to_start_and_tells_of_nothing() -> None:
    pace = Pace(2)
    for k, thinks_s in enumerate([2.0, 0.001, 0.001]):
        pace.ended(1.0 * k)
        pace.asked(k, 1.0 * k)
        pace.answered(k, 1.0 * k + thinks_s)
    assert pace.in_hand == 1


def test_questions_that_wait_for_another_one_are_not_thought_about_meanwhile() -> None:
    pace = Pace(2)
    for k in range(0, 20, 2):
        at = float(k)
        for later in (0, 1):
            pace.ended(at + later)
            pace.asked(k + later, at)
        pace.answered(k, at + 0.5)
        pace.answered(k + 1, at + 1.0)  # half a second as well
    assert pace.in_hand == 1 + math.ceil(0.45)


def test_what_is_made_on_the_spot_tells_nothing_of_what_thinking_will_take() -> None:
    pace = Pace(2)
    for k in range(10):
        pace.ended(1.0 * k)
        pace.asked(k, 1.0 * k)
        pace.answered(k, 1.0 * k + 0.9, thought=False)
    assert pace.in_hand == 1


@given(
    workers=st.integers(2, 64),
    ends=st.lists(st.floats(0, 1e6), max_size=200).map(sorted),
    thinks_s=st.floats(0, 1e6),
)
def test_it_is_always_between_one_and_one_for_each_worker(workers: int, ends: list[float], thinks_s: float) -> None:
    pace = Pace(workers)
    for k, at in enumerate(ends):
        pace.ended(at)
        pace.asked(k, at)
        pace.answered(k, at + thinks_s)
        assert 1 <= pace.in_hand <= workers
