"""What is random, whatever draws from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Source(NamedTuple):
    """Something random: how its state is read, and set."""

    get: Callable[[], Any]
    set: Callable[[Any], Any]
