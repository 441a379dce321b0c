"""The policy: what is asked again, when, and what never is. And the words for a limit that is reached."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.core.errors import BackendError
from etude.mage.asking.retrying import NEVER, Patience, next_wait, told_of_limit
from etude.mage.backends.failing import failure, what_was_said


def error_of(
    status: int | None = None, code: str = "server", *, may_retry: bool = True, after_s: float | None = None
) -> BackendError:
    return BackendError("no", code=code, may_retry=may_retry, after_s=after_s, status=status)


def wait_of(error: BackendError, attempt: int = 1, *, waited_s: float = 0.0, draw: float = 0.5) -> float | None:
    return next_wait(error, attempt, waited_s=waited_s, draw=lambda: draw)


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503, 504, 529, None])
def test_what_passes_is_asked_again(status: int | None) -> None:
    assert wait_of(error_of(status)) == 0.75


@pytest.mark.parametrize("status", sorted(NEVER))
def test_what_does_not_change_is_not_asked_again_whatever_else_is_said(status: int) -> None:
    assert wait_of(error_of(status, after_s=1.0)) is None


def test_a_spend_limit_is_never_asked_again() -> None:
    assert wait_of(error_of(429, "spend limit", after_s=1.0)) is None
    assert wait_of(error_of(429, "rate limit", may_retry=False)) is None


def test_waits_double_and_half_of_each_is_left_to_chance() -> None:
    assert [wait_of(error_of(529), n, draw=0.0) for n in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, 4.0]
    assert [wait_of(error_of(529), n, draw=1.0) for n in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, 8.0]
    assert wait_of(error_of(529), 5) is None


def test_what_the_service_asks_for_is_the_least() -> None:
    assert wait_of(error_of(429, "rate limit", after_s=1.0)) == 1.0
    assert wait_of(error_of(429, "rate limit", after_s=7.0), 2) == 7.0
    assert wait_of(error_of(429, "rate limit", after_s=0.0), 3, draw=0.0) == 2.0


@pytest.mark.parametrize("after_s", [120.1, 86_400.0, math.inf, math.nan])
def test_who_asks_for_too_long_a_wait_is_given_up(after_s: float) -> None:
    assert wait_of(error_of(429, "rate limit", after_s=after_s)) is None


def test_all_waits_together_have_an_end() -> None:
    assert wait_of(error_of(529, after_s=100.0), 2, waited_s=200.0) == 100.0
    assert wait_of(error_of(529, after_s=100.0), 2, waited_s=200.1) is None


def test_a_time_limit_is_tried_once_more_and_not_four_times() -> None:
    assert wait_of(error_of(code="timeout")) is not None
    assert wait_of(error_of(code="timeout"), 2) is None


@given(
    st.integers(1, 60),
    st.floats(0, 400),
    st.floats(0, 1, exclude_max=True),
    st.one_of(st.none(), st.floats(0, 200)),
)
def test_no_wait_is_below_what_is_asked_or_above_the_ceilings(
    attempt: int, waited_s: float, draw: float, after_s: float | None
) -> None:
    patience = Patience(attempts=100)
    wait_s = next_wait(error_of(529, after_s=after_s), attempt, waited_s=waited_s, draw=lambda: draw, patience=patience)
    if wait_s is not None:
        assert (after_s or 0.0) <= wait_s <= patience.longest_s
        assert waited_s + wait_s <= patience.total_s


def test_the_words_for_a_spend_limit() -> None:
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "Too much."}}
    error = failure("anthropic", 429, what_was_said(body))
    assert told_of_limit(error, done=4, waiting=2) == (
        "Provider says the monthly spend limit is reached (429, no retry-after). Not retried. 4 variants done, 2 wait; "
        "`resume` continues."
    )
    assert told_of_limit(error, done=1, waiting=1).endswith("1 variant done, 1 waits; `resume` continues.")
