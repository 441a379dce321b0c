"""Numbers as they are given to us: read strictly, once, at the door."""

from __future__ import annotations

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
        ConfigError: It is none, or below ``least``; ``why`` says what is wrong with that.
    """
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name}={brief(value)} is no whole number. Pass one.")
    if least is not None and value < least:
        raise ConfigError(f"{name}={value} cannot be: {why}. Pass {name}={least} or more.")
    return value


def seed_of(value: Any) -> int:
    """Return a seed.

    Raises:
        ConfigError: It is no whole number of 64 bits.
    """
    seed = whole("seed", value)
    if not SMALLEST <= seed <= LARGEST:
        raise ConfigError(f"seed={value} does not fit into 64 bits. Pass a smaller one.")
    return seed


def is_number(value: Any) -> bool:
    """Say whether this is an int or a float, and no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)
