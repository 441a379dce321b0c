"""Numbers at the door: which are taken, and what is said to the others."""

from __future__ import annotations

from typing import Any

import pytest

from etude.core.errors import ConfigError
from etude.core.numbers import amount, is_finite, is_port, port_to_open, seeds_listed, share, whole


@pytest.mark.parametrize("value", [1, 8443, 65535])
def test_a_port_is_where_somebody_can_be_reached(value: int) -> None:
    assert is_port(value)
    assert port_to_open("port", value) == value


def test_any_free_port_is_asked_for_by_0() -> None:
    assert not is_port(0)
    assert port_to_open("port", 0) == 0


@pytest.mark.parametrize("value", [-1, 65536, True, False, 8443.0, 0.0, "8443", None])
def test_what_is_no_port_is_refused(value: Any) -> None:
    assert not is_port(value)
    with pytest.raises(ConfigError, match=r"^port=.* is no port\. Pass 1 to 65535, or 0 for any that is free\.$"):
        port_to_open("port", value)


@pytest.mark.parametrize("value", [True, float("inf"), float("nan"), 10**400, "1", None])
def test_what_no_float_can_hold_is_no_finite_number(value: Any) -> None:
    assert not is_finite(value)
    assert is_finite(-2)
    assert is_finite(0.5)


@pytest.mark.parametrize("value", [True, 1.5, "3", None])
def test_what_is_no_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^trials=.* is no whole number\. Pass one\.$"):
        whole("trials", value)


@pytest.mark.parametrize("value", [1 << 64, -(1 << 63) - 1])
def test_what_does_not_fit_into_64_bits_is_refused(value: int) -> None:
    with pytest.raises(ConfigError, match=r"does not fit into 64 bits"):
        whole("trials", value)


def test_a_whole_number_that_is_too_small_is_refused_with_the_reason() -> None:
    assert whole("trials", 1, 1, "nothing would run") == 1
    with pytest.raises(ConfigError, match=r"^trials=0 cannot be: nothing would run\. Pass trials=1 or more\.$"):
        whole("trials", 0, 1, "nothing would run")


def test_seeds_are_different_and_there_is_one_at_least() -> None:
    assert seeds_listed([3, 1]) == (3, 1)
    for seeds in ([], [1, 2, 1]):
        with pytest.raises(ConfigError, match=r"^seeds=.* has none, or one twice\."):
            seeds_listed(seeds)


@pytest.mark.parametrize("value", [-0.1, 1.1, "0.5", True, float("nan")])
def test_what_is_no_share_is_refused(value: Any) -> None:
    assert (share("quantile", 0), share("quantile", 1.0)) == (0.0, 1.0)
    with pytest.raises(ConfigError, match=r"^quantile=.* is no share\. Pass a number from 0 to 1\.$"):
        share("quantile", value)


def test_an_amount_is_said_to_lie_where_it_may() -> None:
    assert (amount("deadline_s", 0), amount("deadline_s", 2, above=True)) == (0.0, 2.0)
    with pytest.raises(ConfigError, match=r"^deadline_s=0 \(int\) cannot be\. Pass a number above 0\.$"):
        amount("deadline_s", 0, above=True)
    with pytest.raises(ConfigError, match=r"^part=3 \(int\) cannot be\. Pass a number from 0 to 2\.$"):
        amount("part", 3, most=2)
