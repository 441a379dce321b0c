"""Ways out of a training before its end: what ends a loop or a turn of it, and a function that trains."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from typing import Final

from etude.mage.sources.definitions import parsed
from etude.mage.sources.walking import dotted, last_part

LOOPS: Final = re.compile(r"(?:^|_)(?:epochs?|steps?|iterations?|it)(?:$|_)")
"""Names of what counts epochs or steps."""
STOPPERS: Final = re.compile(r"early_?stop|patience|TerminateOnNaN|Pruning", re.IGNORECASE)
"""Names by which a training is known that may end by what it has learnt."""
EXITS: Final = frozenset({"exit", "quit", "_exit"})

Loop = ast.For | ast.AsyncFor | ast.While
Function = ast.FunctionDef | ast.AsyncFunctionDef


def trains(node: ast.AST) -> bool:
    """Say whether code goes back through a loss, or takes a step of an optimizer."""
    return any(isinstance(one, ast.Attribute) and one.attr in ("backward", "step") for one in ast.walk(node))


def counter_of(loop: Loop) -> str:
    """Return the name of what a loop counts epochs or steps by; empty if it counts none."""
    head = loop.test if isinstance(loop, ast.While) else loop.target
    return next((one.id for one in ast.walk(head) if isinstance(one, ast.Name) and LOOPS.search(one.id)), "")


def ways_out(loop: Loop) -> Iterator[ast.stmt]:
    """Yield what ends a loop or a turn early: ``break`` and ``continue`` of its own, ``return`` and exits in it."""
    yield from _leaving(loop, own=True)


def early_returns(function: Function) -> Iterator[ast.stmt]:
    """Yield the returns of a function that are not in a loop, and after which there would be more to do."""
    last = function.body[-1]
    yield from (one for one in _outside_loops(function) if one is not last and _leaves(one))


@functools.lru_cache(maxsize=1024)  # asked of each source for each patch that was run to its end
def stops_itself(text: str) -> bool:
    r"""Say whether a source may end its training by what it has learnt.

    Example:
        >>> stops_itself("for epoch in range(9):\n    if loss < 0.1:\n        break\n")
        True
    """
    try:
        tree = parsed(text, "")
    except (SyntaxError, RecursionError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, Loop):
            if (counter_of(node) or trains(node)) and any(not isinstance(one, ast.Continue) for one in ways_out(node)):
                return True
            if isinstance(node, ast.While) and trains(node) and not counter_of(node):
                return True
        names = (getattr(node, field, None) for field in ("id", "attr", "arg", "name"))
        if any(isinstance(name, str) and STOPPERS.search(name) for name in names):
            return True
    return False


def _leaving(node: ast.AST, *, own: bool) -> Iterator[ast.stmt]:
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.stmt) and (_leaves(one) or (own and isinstance(one, ast.Break | ast.Continue))):
            yield one
        elif not isinstance(one, Function | ast.Lambda | ast.ClassDef):
            yield from _leaving(one, own=own and not isinstance(one, Loop))


def _outside_loops(node: ast.AST) -> Iterator[ast.stmt]:
    for one in ast.iter_child_nodes(node):
        if isinstance(one, Function | ast.Lambda | ast.ClassDef | Loop):
            continue
        if isinstance(one, ast.stmt):
            yield one
        yield from _outside_loops(one)


def _leaves(one: ast.stmt) -> bool:
    if isinstance(one, ast.Return):
        return True
    if isinstance(one, ast.Raise):
        raised = one.exc.func if isinstance(one.exc, ast.Call) else one.exc
        return isinstance(raised, ast.Name) and raised.id in ("SystemExit", "StopIteration", "KeyboardInterrupt")
    return (
        isinstance(one, ast.Expr)
        and isinstance(one.value, ast.Call)
        and (last_part(dotted(one.value.func, {})) in EXITS)
    )
