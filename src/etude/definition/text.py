"""Files of source text, and which of the definitions in them a code object is.

A file may be edited after it was loaded, and then its text is not what runs. So a code object is looked for by its
bytecode, wherever in the file its text stands now. Only where nothing has that bytecode do line and name count.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import inspect
import linecache
import os
import textwrap
import time
import types
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from etude.core.clock import WallClock
from etude.definition.meaning import bytecode, compiled, parsed

NOT_PYTHON: Final = (SyntaxError, ValueError, RecursionError)
"""What reading a text raises that is no Python."""
_IMPORTED_S: Final = WallClock().now_s()


class Source:
    """A file as it is now, or what ``linecache`` knows of a cell in a notebook.

    Args:
        file: The path, or the name of the cell.
        names: The globals of what was loaded from it.

    Attributes:
        text: Its text; empty if it is no Python, or cannot be read.
        sha256: The hash of the file's bytes; None if there is no such file.
    """

    def __init__(self, file: str, names: Mapping[str, Any]) -> None:
        self.text, self.sha256 = "", None
        self._file = file
        self._nodes: list[_Node] = []
        with contextlib.suppress(*NOT_PYTHON, OSError):
            if Path(file).is_file():
                content = Path(file).read_bytes()
                self.sha256 = hashlib.sha256(content).hexdigest()
                text = importlib.util.decode_source(content)
            else:
                linecache.checkcache(file)
                text = "".join(linecache.getlines(file, dict(names)))
            self._nodes = [node for node in ast.walk(parsed(text)) if isinstance(node, _Node)]
            self.text = text

    @property
    def edited(self) -> bool:
        """Whether the file was changed since this process started, however its old time was kept."""
        try:
            return os.stat(self._file).st_ctime > _process_started_s()
        except (OSError, ValueError):
            return False

    def same(self, code: types.CodeType) -> list[types.CodeType]:
        """Return the function that has the name and the bytecode of ``code``: of several, the one nearest to it."""

        def nearness(other: types.CodeType) -> tuple[bool, ...]:
            here = other.co_firstlineno == code.co_firstlineno
            return here and _spans(other) == _spans(code), here, other.co_qualname == code.co_qualname

        wanted = bytecode(code)
        return sorted((c for c in self._named(code.co_name) if bytecode(c) == wanted), key=nearness)[-1:]

    def at_the_line(self, code: types.CodeType) -> list[types.CodeType]:
        """Return the functions that stand where ``code`` stood; several only if lambdas cannot be told apart."""
        here = [c for c in self._named(code.co_name) if c.co_firstlineno == code.co_firstlineno]
        return [c for c in here if _spans(c) == _spans(code)] or here

    def namesake(self, code: types.CodeType) -> list[types.CodeType]:
        """Return the function that is found under the qualified name of ``code``: of several, the last."""
        found = [c for c in self._named(code.co_name) if c.co_qualname == code.co_qualname]
        return [] if code.co_name == "<lambda>" else found[-1:]

    def classes(self, name: str, methods: Collection[types.CodeType] = ()) -> list[types.CodeType]:
        """Return the classes of that name whose bodies hold functions equal to ``methods``."""
        wanted = {(code.co_name, bytecode(code)) for code in methods}
        found = [c for c in self._named(name) if not c.co_flags & inspect.CO_OPTIMIZED]
        return [c for c in found if wanted <= {(inner.co_name, bytecode(inner)) for inner in _inside(c)}]

    def cut(self, code: types.CodeType) -> str:
        """Return the text of a definition that was found in this file."""
        found = [n for n in self._nodes if _first_line(n) == code.co_firstlineno and _name(n) == code.co_name]
        if len(found) > 1:  # lambdas of one line
            found = [n for n in found if isinstance(n, ast.Lambda) and _span(n.body) in set(_spans(code))] or found
        return "".join(_cut(self.text, node) for node in found)

    def _named(self, name: str) -> list[types.CodeType]:
        return [code for code in self._codes if code.co_name == name]

    @functools.cached_property
    def _codes(self) -> list[types.CodeType]:
        try:
            return list(_inside(compiled(self.text, self._file)))
        except NOT_PYTHON:
            return []


_Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


def _process_started_s() -> float:
    """Return when this process started, in seconds since 1970: at the latest, when it imported this module."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):  # not on Linux
        return _IMPORTED_S
    return min(_IMPORTED_S, WallClock().now_s() - age_s)  # of a fork it says when it was forked


def _inside(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _inside(constant)


def _name(node: _Node) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _first_line(node: _Node) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _span(node: ast.expr) -> tuple[int | None, ...]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _spans(code: types.CodeType) -> list[tuple[int | None, ...]]:
    return list(code.co_positions())


def _cut(text: str, node: _Node) -> str:
    if isinstance(node, ast.Lambda):
        return f"{ast.get_source_segment(text, node)}\n"
    lines = text.split("\n")[_first_line(node) - 1 : node.end_lineno]
    return textwrap.dedent("\n".join(lines)) + "\n"
