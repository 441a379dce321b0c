"""Where ``etude worker --join`` is told to go."""

from __future__ import annotations

import pytest

from etude.cli.worker import _address
from etude.core.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "host", "port"),
    [
        ("host", "host", None),
        ("host:8443", "host", 8443),
        ("10.0.0.1:1", "10.0.0.1", 1),
        ("[fe80::1]:8443", "fe80::1", 8443),
        ("[fe80::1]", "fe80::1", None),
        ("fe80::1", "fe80::1", None),
    ],
)
def test_an_address_is_a_host_or_a_host_and_a_port(given: str, host: str, port: int | None) -> None:
    assert _address(given) == (host, port)


@pytest.mark.parametrize(
    "given", ["host:", "host:0", "host:65536", ":8443", "host:http", "host:٣", f"host:{'9' * 5000}"]
)
def test_what_is_none_is_refused_with_the_mend(given: str) -> None:
    with pytest.raises(ConfigError) as refused:
        _address(given)
    assert str(refused.value).endswith("is no address. Pass HOST, or HOST:PORT with a port from 1 to 65535.")
