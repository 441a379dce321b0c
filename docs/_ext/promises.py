"""Arguments of what carries out a protocol: they are told where it promises the method, and a link leads there."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import etude

WINDOWS: Final = ("etude", "etude.components", "etude.measures", "etude.partitions", "etude.policies", "etude.testing")
"""Modules whose names are documented."""
RESULTS: Final = "etude.results."
"""What is written there is what verbs return: nobody makes it."""


@cache
def protocols() -> tuple[tuple[str, type], ...]:
    """Return the protocols of the reference, by the names under which they are found."""
    found = [(f"{window}.{name}", one) for window in WINDOWS for name, one in names_of(window)]
    return tuple((name, one) for name, one in found if isinstance(one, type) and getattr(one, "_is_protocol", False))


def names_of(window: str) -> Iterator[tuple[str, Any]]:
    """Yield what a module has for users, by name."""
    module = importlib.import_module(window)
    for name in etude.__all__ if module is etude else module.__all__:
        yield name, getattr(module, name)


def is_not_made(cls: type) -> bool:
    """Say whether users get such objects, or write such classes, and never make one."""
    return getattr(cls, "_is_protocol", False) or issubclass(cls, enum.Enum) or cls.__module__.startswith(RESULTS)


def promised_by(cls: type, method: str) -> str | None:
    """Return where a protocol tells of the arguments of a method that carries it out; None if none does.

    That is the protocol's own method; or the protocol, where the method is one that need not be there: then its
    docstring names it, as in ``size(space)``.
    """
    takes = list(inspect.signature(getattr(cls, method)).parameters)
    for name, protocol in protocols():
        required = [own for own in protocol.__dict__ if not own.startswith("_")]
        if cls is protocol or not all(hasattr(cls, own) for own in required):
            continue
        own = protocol.__dict__.get(method)
        if own is None and re.search(rf"``{method}\(\w", protocol.__doc__ or ""):
            return name
        if own is not None and list(inspect.signature(own).parameters) == takes:
            return f"{name}.{method}"
    return None


def tell_where(app: Any, kind: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Say at a method that tells of no arguments where that is done."""
    takes_some = kind == "method" and any(one != "self" for one in inspect.signature(obj).parameters)
    if not takes_some or any(line.startswith(":param") for line in lines):
        return
    window = next(window for window in sorted(WINDOWS, key=len, reverse=True) if name.startswith(f"{window}."))
    owner, method = name.removeprefix(f"{window}.").split(".")
    there = promised_by(getattr(importlib.import_module(window), owner), method)
    if there is not None:
        role = "meth" if there.endswith(f".{method}") else "class"
        lines += ["", f"For its arguments see :{role}:`{there.removeprefix('etude.')} <{there}>`.", ""]


def setup(app: Any) -> dict[str, Any]:
    """Take part in making the site."""
    app.connect("autodoc-process-docstring", tell_where, priority=900)
    return {"parallel_read_safe": True}
