"""Configurations as MessagePack gives them back, and how they were before.

MessagePack has one kind of array, and reads it as a list. A parameter may be a tuple, of tuples
even, but never a list; so whatever comes back as a list was a tuple.
"""

from __future__ import annotations

from typing import Any

from etude.core.events import Params


def exact(params: Params) -> Params:
    """Return a configuration that was read from MessagePack as it was when it was written.

    Example:
        >>> exact({"lr": 0.1, "kernel": (3, [5, [7]])})
        {'lr': 0.1, 'kernel': (3, (5, (7,)))}
    """
    return {name: _tuples(value) for name, value in params.items()}


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, tuple | list) else value
