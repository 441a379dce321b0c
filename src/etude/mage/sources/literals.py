"""Values that stand in a source as such, read without running it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

UNKNOWN: Final = object()
"""It is no value that stands there as such."""

CALCULATES: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def literal(node: ast.expr | None) -> Any:
    """Return a value that stands there, with whole numbers calculated (``128 * 4 * 4``); else ``UNKNOWN``."""
    if node is None:
        return UNKNOWN
    if isinstance(node, ast.BinOp) and type(node.op) in CALCULATES:
        sides = literal(node.left), literal(node.right)
        if all(type(side) is int and abs(side) < 2**40 for side in sides) and sides[1] != 0:
            return CALCULATES[type(node.op)](*sides)
        return UNKNOWN
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN


def argument(call: ast.Call, name: str, order: Sequence[str]) -> ast.expr | None:
    """Return an argument of a call, by keyword or by its place; None if it is not given, or nobody can tell.

    Args:
        call: The call.
        name: The argument.
        order: The names of those that may be given by place.
    """
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    place = order.index(name) if name in order else len(call.args)
    if place < len(call.args) and not any(isinstance(one, ast.Starred) for one in call.args):
        return call.args[place]
    return None


def keyword_of(call: ast.Call, name: str) -> ast.expr | None:
    """Return an argument that is given by keyword; None if it is not."""
    return argument(call, name, ())
