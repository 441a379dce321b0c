"""By which network interface the ranks of a trial reach each other."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from typing import Final

LOOPBACK: Final = "lo"
GLOO: Final = "GLOO_SOCKET_IFNAME"
NCCL: Final = "NCCL_SOCKET_IFNAME"
ADDRESS_OF: Final = 0x8915
"""The request by which Linux tells the address of an interface (SIOCGIFADDR)."""

_chosen: dict[str, str] = {}
"""What we have set the two variables to."""


def use_interface(host: str, port: int) -> None:
    """Have gloo and NCCL use the network interface by which the ranks reach each other, unless somebody said which.

    A process that runs attempt after attempt may have to take another one each time.
    """
    name = interface_of(address_towards(host, port))
    exact = {GLOO: name, NCCL: f"={name}" if name not in ("", LOOPBACK) else ""}
    for variable, value in exact.items():
        said = os.environ.get(variable)
        if said and said != _chosen.get(variable):
            continue
        _chosen[variable] = value
        if value:
            os.environ[variable] = value
        else:
            os.environ.pop(variable, None)


def address_towards(host: str, port: int) -> str:
    """Return the address of this machine from which a host is reached; empty if that cannot be told."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((host, port))  # sends nothing
            return str(sock.getsockname()[0])
    return ""


def interface_of(address: str) -> str:
    """Return the name of the network interface that has an address; empty if none has."""
    if address.startswith("127."):
        return LOOPBACK
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no address
                found = fcntl.ioctl(sock.fileno(), ADDRESS_OF, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(found[20:24]) == address:
                    return name
    return ""
