"""Takes out statements that are one call and nothing else, such as ``clip_grad_norm_(...)`` or ``scheduler.step()``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from etude.mage.patch.blocks import Search
from etude.mage.patch.editing import Edit, searches
from etude.mage.sources.functions import function_of
from etude.mage.sources.marks import with_marks
from etude.mage.sources.source import BODIES, Placed, Source, plain_name, sources
from etude.mage.tree import Tree

SETS_AT_ONCE: Final = (
    "OneCycleLR",
    "CyclicLR",
    "LambdaLR",
    "MultiplicativeLR",
    "LinearLR",
    "ConstantLR",
    "SequentialLR",
)
"""Schedulers that change the learning rate when they are made: without their steps they are not gone."""


def without_call_at(name: str, at: tuple[str, int], tree: Tree) -> tuple[Search, ...] | None:
    """Return the changes after which a function is not called at one place; None if that is no statement of its own.

    Args:
        name: The function.
        at: File and line of the statement.
        tree: The project's files.
    """
    for source in sources(tree):
        for call, placed in _calls(source) if source.file == at[0] else ():
            if placed.first == at[1] and function_of(call, source, tree, placed) == name:
                edit = _taken_out(source, placed, call, [placed])
                return searches(source.file, source.text, [edit]) if edit is not None else None
    return None


def without_calls(names: Sequence[str], tree: Tree) -> tuple[Search, ...] | None:
    """Return the changes after which functions are not called; None if not all calls are statements of their own.

    Args:
        names: The functions, as those who watch the program call them.
        tree: The project's files.
    """
    found: list[Search] = []
    left = set(names)
    if any(part in SETS_AT_ONCE for name in names for part in name.split(".")):
        return None
    for source in sources(tree):
        found_here: list[tuple[ast.Call, Placed]] = []
        for call, placed in _calls(source):
            name = function_of(call, source, tree, placed)
            last = plain_name(call.func).rpartition(".")[2]
            if name not in names:
                if not name and any(one.rpartition(".")[2].rpartition(":")[2] == last for one in names):
                    return None  # it may be the same function by another way
                continue
            left.discard(name)
            found_here.append((call, placed))
        going = [placed for _, placed in found_here]
        edits = [_taken_out(source, placed, call, going) for call, placed in found_here]
        if None in edits:
            return None
        if edits:
            blocks = searches(source.file, source.text, [edit for edit in edits if edit is not None])
            if blocks is None:
                return None
            found += blocks
    return tuple(found) if found and not left else None


def _calls(source: Source) -> list[tuple[ast.Call, Placed]]:
    found = {}
    for placed in source.statements:  # those further in come later, and are the ones that count
        for node in ast.walk(placed.node):
            if isinstance(node, ast.Call):
                found[id(node)] = (node, placed)
    return list(found.values())


def _taken_out(source: Source, placed: Placed, call: ast.Call, going: Sequence[Placed]) -> Edit | None:
    """Return the change after which a call is not made, and its marks are gone; None if it is no statement of its own.

    Args:
        source: The file.
        placed: The statement.
        call: The call.
        going: All statements of the file that go.
    """
    node = placed.node
    if not isinstance(node, ast.Expr) or node.value is not call or not _is_plain(source, placed, call):
        return None
    start, end = source.place(node.lineno, node.col_offset), source.place(placed.last, node.end_col_offset or 0)
    if not _stays(source, placed, going):
        start, end = with_marks(source.text, start, end)
    if _alone(source, node):
        return Edit(start, end, "pass")
    line_start = max(source.text.rfind(ending, 0, start) for ending in "\r\n") + 1
    line_end = source.place(placed.last, 0) + len(source.lines[placed.last - 1])
    rest = source.text[end:line_end]
    if source.text[line_start:start].strip() or rest.strip().startswith(";"):
        return None
    if rest.strip():
        return Edit(start, end + len(rest) - len(rest.lstrip()), "")  # a comment stays, on a line of its own
    ending = next((one for one in ("\r\n", "\n", "\r") if source.text.startswith(one, line_end)), "")
    return Edit(line_start, line_end + len(ending), "")


def _stays(source: Source, placed: Placed, going: Sequence[Placed]) -> bool:
    """Say whether a line that stays reads as the first or the last of a statement: its marks could be of that one."""
    gone = {n for one in going for n in range(one.first, one.last + 1)}
    code = {source.lines[n - 1].partition("#")[0].strip() for n in placed.lines}
    return any(line.partition("#")[0].strip() in code for n, line in enumerate(source.lines, 1) if n not in gone)


def _is_plain(source: Source, placed: Placed, call: ast.Call) -> bool:
    """Say whether nothing is lost with a statement but its call."""
    if any(isinstance(one, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom) for one in ast.walk(call)):
        return False
    others = [one for one in source.statements if one is not placed and one.is_simple]
    shares = any(one.first <= placed.last and placed.first <= one.last for one in others)
    return not shares and not any(placed.first <= one.line < placed.last for one in source.comments)


def _alone(source: Source, node: ast.stmt) -> bool:
    """Say whether a statement is the only one of its block."""
    for one in ast.walk(source.module) if source.module is not None else ():
        for name in BODIES:
            body = getattr(one, name, None)
            if isinstance(body, list) and body == [node]:
                return True
    return False
