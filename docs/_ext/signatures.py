"""Signatures of the reference: the types are those that the source writes, and nobody is told to call a protocol.

Sphinx would look up what an annotation means, so that a name like ``Params`` would come out as the union it stands for,
and a name that is imported for type checks only as itself.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import itertools
import re
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from promises import WINDOWS, is_not_made, names_of
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.inspect import stringify_signature

PLAIN: Final = (bool, int, float, str, enum.Enum, type(None))
"""Types of defaults that are shown."""
WORD: Final = re.compile(r"(?<![\w.'\"])[A-Za-z_]\w*(?![\w'\"])")
"""A name in a type that stands for itself: no part of a longer one, and no text."""
OUTSIDE: Final = {"Path": Path}
"""What modules import for type checks alone, and is called as something of the reference is."""


class Other:
    """A default that says nothing to a reader."""

    def __repr__(self) -> str:
        """Return what stands for it."""
        return "..."


def as_written(
    app: Any, kind: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, str] | None:
    """Return how something is called, and what it returns; None where Sphinx knows as much."""
    if not signature:
        return None
    if kind in {"class", "exception"}:
        return ("", "") if is_not_made(obj) else (arguments(obj), "")
    if kind not in {"function", "method"}:
        return None
    annotation = to_link(inspect.signature(obj).return_annotation, obj)
    return arguments(obj), annotation if isinstance(annotation, str) else returns or ""


def arguments(obj: Any) -> str:
    """Return what is passed to a function or a class, in parentheses."""
    signature = inspect.signature(obj)
    written, made = fields_of(obj) if isinstance(obj, type) else ({}, {})
    shown = [
        parameter.replace(
            annotation=to_link(written.get(name, parameter.annotation), obj),
            default=_default(parameter.default, made.get(name)),
        )
        for name, parameter in signature.parameters.items()
        if name != "self" and not name.startswith("_")
    ]
    return stringify_signature(signature.replace(parameters=shown), show_return_annotation=False)


def fields_of(cls: type) -> tuple[dict[str, str], dict[str, Any]]:
    """Return how the types of a class's fields are written, and what makes their defaults."""
    written: dict[str, str] = {}
    if issubclass(cls, msgspec.Struct):  # its signature has types that were looked up
        for base in reversed(cls.__mro__):
            written |= inspect.get_annotations(base)
        return written, {field.name: field.default_factory for field in msgspec.structs.fields(cls)}
    if dataclasses.is_dataclass(cls):
        return written, {field.name: field.default_factory for field in dataclasses.fields(cls)}
    return written, {}


def to_link(annotation: Any, obj: Any) -> Any:
    """Return a type as it is written, and in full where its short name is that of something else in the reference."""
    if not isinstance(annotation, str):
        return annotation
    there = vars(sys.modules[obj.__module__])

    def told(found: re.Match[str]) -> str:
        name = found[0]
        meant = there.get(name, OUTSIDE.get(name))
        if meant is None or name not in ours() or any(meant is one for one in ours()[name]):
            return name
        return f"{meant.__module__}.{meant.__qualname__}"

    return WORD.sub(told, annotation)


@cache
def ours() -> dict[str, list[Any]]:
    """Return what is documented, by short names, of which some stand for several things."""
    found: dict[str, list[Any]] = {}
    for window in WINDOWS:
        for name, one in names_of(window):
            found.setdefault(name, []).append(one)
    return found


def _default(default: Any, factory: Any) -> Any:
    if default is inspect.Parameter.empty or isinstance(default, PLAIN):
        return default
    if isinstance(default, tuple) and all(isinstance(one, PLAIN) for one in default):
        return default
    return factory() if callable(factory) and not factory() else Other()


def forget_overloads(app: Any) -> None:
    """Show what all overloads come to: that has every option, and the docstring tells of it."""
    for one in itertools.chain.from_iterable(ours().values()):
        home = getattr(one, "__module__", "")
        if home.startswith("etude."):
            analyzer = ModuleAnalyzer.for_module(home)
            analyzer.analyze()
            analyzer.overloads.clear()


def as_sentences(app: Any, kind: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Have what stands under ``Returns:`` read as it is: napoleon would take all up to a colon to be a type."""
    if "Returns:" not in lines:
        return
    first = lines.index("Returns:")
    rest = (nth for nth in range(first + 1, len(lines)) if lines[nth] and not lines[nth].startswith(" "))
    end = next(rest, len(lines))
    told = textwrap.dedent("\n".join(lines[first + 1 : end])).strip()
    lines[first:end] = [*textwrap.indent(f":returns: {told}", "    ").strip().split("\n"), ""]


def with_types(app: Any, kind: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Have the types of attributes be those that are meant, as those of arguments are."""
    if kind == "class":
        lines[:] = [to_link(line, obj) if line.startswith(":vartype ") else line for line in lines]


def setup(app: Any) -> dict[str, Any]:
    """Take part in making the site."""
    app.connect("builder-inited", forget_overloads)
    app.connect("autodoc-process-signature", as_written)
    app.connect("autodoc-process-docstring", as_sentences, priority=400)
    app.connect("autodoc-process-docstring", with_types, priority=900)
    return {"parallel_read_safe": True}
