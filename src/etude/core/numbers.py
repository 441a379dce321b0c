"""Numbers as they are given to us: read strictly, once, at the door."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.signature import plain
from etude.core.text import brief

SMALLEST: Final = -(2**63)
LARGEST: Final = 2**64 - 1
"""The whole numbers from one to the other are those that a journal and a message can hold."""


def whole(name: str, value: Any, least: int | None = None, why: str = "") -> int:
    """Return an argument that has to be a whole number.

    Raises:
        ConfigError: It is none, or below ``least``, which ``why`` says what is wrong with; or none of 64 bits.
    """
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name}={brief(value)} is no whole number. Pass one.")
    if least is not None and value < least:
        raise ConfigError(f"{name}={value} cannot be: {why}. Pass {name}={least} or more.")
    if not SMALLEST <= value <= LARGEST:
        raise ConfigError(f"{name}={value} does not fit into 64 bits. Pass a smaller one.")
    return value


def seed_of(value: Any) -> int:
    """Return a seed.

    Raises:
        ConfigError: It is no whole number of 64 bits.
    """
    return whole("seed", value)


def seeds_listed(seeds: Sequence[Any]) -> tuple[int, ...]:
    """Return the seeds that a call lists.

    Raises:
        ConfigError: There are none, one is none, or one is there twice.
    """
    found = tuple(map(seed_of, seeds))
    if not found or len(set(found)) < len(found):
        raise ConfigError(f"seeds={brief(seeds)} has none, or one twice. Pass different whole numbers, or how many.")
    return found


def is_number(value: Any) -> bool:
    """Say whether this is an int or a float, and no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Say whether this is a number that a float can hold, and no infinity."""
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:  # an int of hundreds of digits
        return False


def is_port(value: Any, *, least: int = 1) -> bool:
    """Say whether this is the number of a port that somebody can be reached at."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 16


def port_to_open(name: str, value: Any) -> int:
    """Return an option that has to be a port to listen at; 0 stands for any that is free.

    Raises:
        ConfigError: It is none.
    """
    if not is_port(value, least=0):
        raise ConfigError(f"{name}={brief(value)} is no port. Pass 1 to 65535, or 0 for any that is free.")
    return value  # type: ignore[no-any-return]


def amount(name: str, value: Any, *, above: bool = False, most: float = math.inf) -> float:
    """Return an option that has to be a finite number from 0, or above it, up to ``most``.

    Raises:
        ConfigError: It is none.
    """
    if not is_finite(value) or not 0 <= value <= most or (above and value == 0):
        up_to = f" to {most:g}" if most < math.inf else ""
        raise ConfigError(f"{name}={brief(value)} cannot be. Pass a number {'above 0' if above else 'from 0'}{up_to}.")
    return float(value)


def share(name: str, value: Any) -> float:
    """Return an option that has to be a share.

    Raises:
        ConfigError: It is none.
    """
    if not is_number(value) or not 0 <= value <= 1:
        raise ConfigError(f"{name}={brief(value)} is no share. Pass a number from 0 to 1.")
    return float(value)
