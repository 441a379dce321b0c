"""Numbers at the door: which are taken, and what is said to the others."""

from __future__ import annotations

from typing import Any

import pytest

from etude.core.errors import ConfigError
from etude.core.numbers import is_finite, is_port, port_to_open


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
