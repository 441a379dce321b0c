"""Where questions may go: what an address names, and whether that is this machine."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import SplitResult, urlsplit

from etude.core.errors import BackendError, ConfigError

THIS_MACHINE: Final = "this machine"
"""The host of a backend that sends nothing anywhere by itself."""


def read_url(url: str) -> SplitResult:
    """Return the parts of an address that requests can be sent to.

    Raises:
        ConfigError: It names no host, is no http, or has a password in it.
    """
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"base URL {url!r} cannot be read: {error}. Write it as http://127.0.0.1:11434/v1.") from None
    if "@" in parts.netloc:  # it would stand in journals and errors
        raise ConfigError(
            f"The base URL for {host} has a user or a password in it. Keys are taken from the environment only, "
            "since addresses are written down. Put it into ETUDE_API_KEY and leave it out of the address."
        )
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"base URL {url!r} is no address of a service. Write it as http://127.0.0.1:11434/v1.")
    return parts


def host_of(url: str) -> str:
    """Return the host that an address names, and its port if it says one."""
    parts = read_url(url)
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else str(parts.hostname)
    return f"{host}:{parts.port}" if parts.port else host


def is_loopback(host: str, *, look_up: Callable[[str], Iterable[str]] | None = None) -> bool:
    """Say whether a host is this machine and cannot be another one.

    Args:
        host: A name or a number, without a port. Of names only ``localhost`` is looked up: to look up another one
            would already tell somebody else.
        look_up: Gives the addresses of a name.
    """
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost":
        try:
            found = list((look_up or addresses_of)(name))
        except OSError:
            return False
        return bool(found) and all(_is_loopback_number(one) for one in found)
    return _is_loopback_number(name)


def addresses_of(name: str) -> list[str]:
    """Return the numbers that a name stands for."""
    return [str(found[4][0]) for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]


def _is_loopback_number(text: str) -> bool:
    try:
        number = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(number, "ipv4_mapped", None)
    return (mapped or number).is_loopback


def check_local(host: str, *, why: str = "") -> None:
    """Refuse a host that is not this machine, before anything is sent to it.

    Args:
        host: Its name or number.
        why: How it came up, such as ``a redirect``; empty if it was asked for.

    Raises:
        BackendError: It is another machine, or may be; its code is ``refused host``.
    """
    if not is_loopback(host):
        by = f" ({why})" if why else ""
        raise BackendError(
            f"{host}{by} is not this machine, and --local-only was asked for. Nothing was sent there. Give a server on "
            "this machine, such as --base-url http://127.0.0.1:11434/v1, or leave --local-only out.",
            code="refused host",
        )
