"""Whether anybody listens at a cluster's address: frameworks take more than a minute to find that nobody does."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final

PATIENCE_S: Final = 10.0
"""Seconds that all addresses have together."""


def knock(addresses: Sequence[str]) -> str:
    """Return why nobody answers at any of some addresses; empty if somebody does.

    It is empty as well if one of them is no ``host:port``: the framework knows what to make of that.

    Args:
        addresses: Where somebody may listen, as in ``head:7077``; several are those of one cluster.

    Example:
        >>> knock(["auto"])
        ''
    """
    places = [address.rpartition(":") for address in addresses]
    if not all(host and port.isdigit() and "://" not in host for host, _, port in places):
        return ""
    faults = []
    for host, _, port in places:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE_S / len(places)):
                return ""
        except (OSError, OverflowError, ValueError) as error:  # a host or a port may be none
            faults.append(f"{error} ({host}:{port})")
    return "; ".join(faults)
