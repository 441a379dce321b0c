"""What takes the place of a component where it was used: nothing should, but what went into it may go on.

Where ``context = self.attention(state, memory)`` becomes ``context = memory[:, -1]``, the component is gone, and
something is there in its stead that nobody asked for. No count of operators tells that from a removal, so a person has
to look. What may stand there is made of what stood there before, with the component's first argument in the place of
its call.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from etude.mage.sources.source import plain_name
from etude.mage.static.policy import Broken, Change, Named, Rule

RETURNED = "return"


@dataclass(frozen=True)
class _Use:
    """A statement that gives a value: to a name, to the caller, or to a function such as ``written.append``."""

    target: str
    value: ast.expr
    line: int


def find_stand_ins(change: Change, named: Named) -> Iterator[Broken]:
    """Yield what stands where a component was used, and is not made of what stood there."""
    if not change.python or not change.after:
        return
    after = dict(_functions(change.new))
    for name, function in _functions(change.old):
        if name not in after:
            continue
        old, new = list(_uses(function)), list(_uses(after[name]))
        assigned = {one.target for one in new}
        for use in old:
            if not _calls(use.value, named):
                continue
            yield from _odd(change, use, _without(use.value, named), old, new, named)
            if use.target not in assigned and use.target != RETURNED:  # it is gone, and others have used it
                for other in old:
                    if other is not use and _mentions(other.value, use.target):
                        yield from _odd(change, other, other.value, old, new, named, but=use.target)


def _odd(
    change: Change, use: _Use, may_be: ast.expr | None, old: list[_Use], new: list[_Use], named: Named, *, but: str = ""
) -> Iterator[Broken]:
    known = Counter(ast.dump(one.value) for one in old if one.target == use.target)
    may = Counter(_leaves(may_be)) if may_be is not None else Counter[str]()
    may.pop(but, None)
    for one in new:
        if one.target != use.target or _calls(one.value, named):  # where it is still used, whether it is gone is asked
            continue
        said = ast.dump(one.value)
        if known[said]:
            known[said] -= 1
        elif Counter(_leaves(one.value)) - may:
            yield Broken(
                Rule.STAND_IN,
                f"{change.path}, line {one.line}: `{ast.unparse(one.value)}` stands where the component was used "
                f"(`{ast.unparse(use.value)}`), and is not made of what stood there.",
                expected=ast.unparse(use.value),
                found=ast.unparse(one.value),
            )


def _functions(module: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    todo: list[tuple[str, ast.AST]] = [("", module)]
    while todo:
        outer, node = todo.pop()
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{outer}{inner.name}"
                todo.append((f"{name}.", inner))
                if not isinstance(inner, ast.ClassDef):
                    yield name, inner


def _uses(function: ast.AST) -> Iterator[_Use]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield _Use(node.targets[0].id, node.value, node.lineno)
        elif isinstance(node, ast.Return) and node.value is not None:
            yield _Use(RETURNED, node.value, node.lineno)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield _Use(f"{ast.unparse(node.value.func)}()", node.value, node.lineno)


def _is_component(node: ast.AST, named: Named) -> bool:
    return isinstance(node, ast.Call) and plain_name(node.func).rpartition(".")[2] in named


def _calls(value: ast.expr, named: Named) -> bool:
    return any(_is_component(node, named) for node in ast.walk(value))


def _mentions(value: ast.expr, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(value))


class _PassedOn(ast.NodeTransformer):
    """Puts the first argument in the place of a component's call, and of what is taken of that."""

    def __init__(self, named: Named) -> None:
        self._named = named

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace a call of the component."""
        self.generic_visit(node)
        if not _is_component(node, self._named):
            return node
        return node.args[0] if node.args else ast.Constant(value=None)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Replace what is taken of such a call."""
        is_of_it = _is_component(node.value, self._named)
        self.generic_visit(node)
        return node.value if is_of_it else node


def _without(value: ast.expr, named: Named) -> ast.expr | None:
    copy = ast.parse(ast.unparse(value), mode="eval").body
    found = _PassedOn(named).visit(copy)
    return found if isinstance(found, ast.expr) else None


def _leaves(node: ast.AST) -> Iterator[str]:
    """Yield what an expression is made of: names with what is taken of them, numbers, and functions that it calls."""
    if isinstance(node, ast.Name | ast.Constant) or (
        isinstance(node, ast.Attribute | ast.Subscript) and not any(isinstance(one, ast.Call) for one in ast.walk(node))
    ):
        yield ast.unparse(node)
        return
    if isinstance(node, ast.Attribute):
        yield f".{node.attr}"
    for inner in ast.iter_child_nodes(node):
        yield from _leaves(inner)
