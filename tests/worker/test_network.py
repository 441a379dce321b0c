"""By which network interface ranks reach each other."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from etude.worker import network
from etude.worker.network import address_towards, interface_of, use_interface

GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_chosen", {})
    for name in (GLOO, NCCL):
        monkeypatch.setenv(name, "")


def said() -> tuple[str | None, str | None]:
    return os.environ.get(GLOO), os.environ.get(NCCL)


def test_ranks_of_one_machine_stay_on_it() -> None:
    use_interface("127.0.0.1", 9)
    assert said() == ("lo", None)


def test_a_process_takes_the_way_of_each_attempt_unless_somebody_said_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "interface_of", {"a": "eth1", "b": "ib0", "c": "lo"}.__getitem__)
    monkeypatch.setattr(network, "address_towards", lambda host, port: host)
    for host, expected in (("a", ("eth1", "=eth1")), ("b", ("ib0", "=ib0")), ("c", ("lo", None))):
        use_interface(host, 9)
        assert said() == expected
    monkeypatch.setenv(GLOO, "eth7")
    use_interface("a", 9)
    assert said() == ("eth7", "=eth1")


@pytest.mark.skipif(sys.platform != "linux", reason="interfaces are asked for as Linux tells them")
def test_an_interface_is_known_by_its_address() -> None:
    own = address_towards("192.0.2.1", 9)
    names = [name for _, name in socket.if_nameindex()]
    assert own == "" or interface_of(own) in names
    assert interface_of("192.0.2.1") == ""
