"""Lines that change, and nothing with them: a file that was formatted anew, or whose comments are gone.

A statement is the same if its tree is, in the same definition and under the same ``if``, ``for`` and so on: code that
is put under a condition is no longer the same. Comments that come are welcome, comments that go were not ours to take.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from etude.mage.sources.definitions import Defined
from etude.mage.static.policy import Broken, Change, Rule

LEAST: Final = 12
"""So many idle lines are no accident."""


def find_reformatting(change: Change) -> Iterator[Broken]:
    """Yield that many lines of a file change and mean what they meant."""
    if not change.python or not (change.before and change.after):
        return
    old, new = _statements(change.old), _statements(change.new)
    comes, goes = change.diff.numbered("+"), change.diff.numbered("-")
    idle = _idle(comes, new, old, taken=False) + _idle(goes, old, new, taken=True)
    changed = len(comes) + len(goes)
    if idle >= LEAST and 2 * idle > changed:
        yield Broken(
            Rule.FORMAT,
            f"{idle} of the {changed} changed lines of {change.path} change nothing that the program does: they are "
            "formatted anew, moved, or comments that are gone. Leave all lines as they are that need not change.",
            expected="lines that change something",
            found=f"{idle} of {changed} lines that do not",
        )


def _idle(lines: list[tuple[int, str]], own: dict[int, str], other: dict[int, str], *, taken: bool) -> int:
    """Count the lines that go or come, and mean on the other side what they mean here."""
    there = set(other.values())
    return sum(_is_idle(line.strip(), own.get(number, ""), there, taken=taken) for number, line in lines)


def _is_idle(line: str, statement: str, there: set[str], *, taken: bool) -> bool:
    if not line or line.startswith("#"):
        return taken or not line
    return statement in there


def _statements(tree: ast.Module) -> dict[int, str]:
    """Return what stands in each line: the smallest statement there, as text, with what is around it."""
    found: dict[int, str] = {}
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    while stack:
        node, around = stack.pop()
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            head = _head(node)
            if isinstance(node, ast.stmt | ast.excepthandler):
                first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
                for line in range(first, (node.end_lineno or node.lineno) + 1):
                    found[line] = f"{around}{head}"
            name = node.name if isinstance(node, Defined) else head
            around = f"{around}{name}/"
        stack += [
            (one, around)
            for one in ast.iter_child_nodes(node)
            if isinstance(one, ast.stmt | ast.excepthandler | ast.match_case)
        ]
    return found


def _head(node: ast.AST) -> str:
    """Return a statement without the statements in it."""
    parts = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ast.stmt | ast.excepthandler | ast.match_case):
                continue
            parts.append(f"{name}={ast.dump(one) if isinstance(one, ast.AST) else one!r}")
    return " ".join(parts)
