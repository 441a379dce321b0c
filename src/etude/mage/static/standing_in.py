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

from etude.mage.networks.roles import Role, role_of
from etude.mage.sources.source import plain_name
from etude.mage.static.policy import Broken, Change, Named, Rule

RETURNED = "return"


@dataclass(frozen=True)
class _Use:
    """A statement that gives a value: to a name, to the caller, or to a function such as ``written.append``."""

    target: str
    value: ast.expr
    line: int
    leaves: tuple[str, ...]


def find_stand_ins(change: Change, named: Named) -> Iterator[Broken]:
    """Yield what stands where a component was used, and is not made of what stood there."""
    if not change.python or not change.after:
        return
    modules = _imported(change.old) | _imported(change.new)
    after = dict(_functions(change.new))
    for name, function in _functions(change.old):
        if name not in after:
            continue
        old, new = list(_uses(function, modules)), list(_uses(after[name], modules))
        yield from _more(change, old, new, named)
        assigned = {one.target for one in new}
        for use in old:
            if not _calls(use.value, named):
                continue
            yield from _with_itself(change, use, old, new, named)
            yield from _way_around(change, use, new, named)
            passed_on = _without(use.value, named, passes_on=True)
            yield from _odd(change, use, Counter(_leaves(passed_on, modules)), old, new, named)
            if use.target not in assigned and use.target != RETURNED:  # it is gone, and others have used it
                for other in old:
                    if other is not use and use.target in other.leaves:
                        may = Counter(other.leaves)
                        del may[use.target]
                        yield from _odd(change, other, may, old, new, named)


def _odd(
    change: Change, use: _Use, may: Counter[str], old: list[_Use], new: list[_Use], named: Named
) -> Iterator[Broken]:
    known = Counter(one.leaves for one in old if one.target == use.target)
    for one in new:
        if one.target != use.target or _calls(one.value, named):  # where it is still used, whether it is gone is asked
            continue
        if known[one.leaves]:
            known[one.leaves] -= 1
        elif Counter(one.leaves) - may:
            yield Broken(
                Rule.STAND_IN,
                f"{change.path}, line {one.line}: `{ast.unparse(one.value)}` stands where the component was used "
                f"(`{ast.unparse(use.value)}`), and is not made of what stood there.",
                expected=ast.unparse(use.value),
                found=ast.unparse(one.value),
            )


def _with_itself(change: Change, use: _Use, old: list[_Use], new: list[_Use], named: Named) -> Iterator[Broken]:
    """Yield what is calculated of something with itself, where the component stood between the two."""
    known = {one.leaves for one in old if one.target == use.target}
    before = _doubled(_without(use.value, named, passes_on=False))
    for one in new:
        if one.target != use.target or _calls(one.value, named) or one.leaves in known:
            continue
        if odd := _doubled(one.value) - before:
            yield Broken(
                Rule.STAND_IN,
                f"{change.path}, line {one.line}: `{ast.unparse(one.value)}` has `{next(iter(odd))}` on both sides, "
                f"where the component stood between them (`{ast.unparse(use.value)}`): what is done with its result "
                "may have to go with it.",
                expected=ast.unparse(use.value),
                found=ast.unparse(one.value),
            )


def _way_around(change: Change, use: _Use, new: list[_Use], named: Named) -> Iterator[Broken]:
    """Yield a layer's argument that stands beside an operator where its result stood: the way around it stays."""
    for operator in (node for node in ast.walk(use.value) if isinstance(node, ast.BinOp)):
        for call in (operator.left, operator.right):
            if not (
                _is_component(call, named) and isinstance(call, ast.Call) and call.args and _is_layer(change, call)
            ):
                continue
            passed_on = ast.unparse(_without(use.value, named, passes_on=True))
            for one in new:
                if one.target == use.target and ast.unparse(one.value) == passed_on:
                    yield Broken(
                        Rule.STAND_IN,
                        f"{change.path}, line {one.line}: `{ast.unparse(call.args[0])}` stands where the component's "
                        f"result did (`{ast.unparse(use.value)}`): what is around the component stays without it.",
                        expected=ast.unparse(use.value),
                        found=ast.unparse(one.value),
                    )


def _is_layer(change: Change, call: ast.Call) -> bool:
    """Say whether what is called is made as a layer, and not as something that changes no shape."""
    last = plain_name(call.func).rpartition(".")[2]
    made = (
        node.value
        for node in ast.walk(change.old)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Attribute) and target.attr == last for target in node.targets)
    )
    return any(isinstance(one, ast.Call) and role_of(plain_name(one.func)) is Role.LAYER for one in made)


def _more(change: Change, old: list[_Use], new: list[_Use], named: Named) -> Iterator[Broken]:
    """Yield what is calculated with something besides, where the component was not used."""
    known = {(one.target, ast.unparse(one.value)) for one in old}
    stays = {(one.target, ast.unparse(one.value)) for one in new}
    changed = {(one.target, ast.unparse(one.value)) for one in old if not _calls(one.value, named)} - stays
    for one in new:
        if (one.target, ast.unparse(one.value)) in known:
            continue
        for operator in (node for node in ast.walk(one.value) if isinstance(node, ast.BinOp)):
            for kept, other in ((operator.left, operator.right), (operator.right, operator.left)):
                text = ast.unparse(kept)
                if (one.target, text) in changed:
                    yield Broken(
                        Rule.STAND_IN,
                        f"{change.path}, line {one.line}: `{ast.unparse(one.value)}` is calculated with "
                        f"`{ast.unparse(other)}` besides what it was (`{text}`), where the component was not used.",
                        expected=text,
                        found=ast.unparse(one.value),
                    )


def _doubled(node: ast.AST) -> Counter[str]:
    """Return what stands on both sides of an operator, by name, and how often."""
    found: Counter[str] = Counter()
    for one in ast.walk(node):
        if isinstance(one, ast.BinOp):
            found.update(_names(one.left) & _names(one.right))
    return found


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and one.id != "self"}


def _imported(module: ast.Module) -> frozenset[str]:
    """Return the names that imports give."""
    imports = (node for node in ast.walk(module) if isinstance(node, ast.Import | ast.ImportFrom))
    return frozenset((one.asname or one.name).partition(".")[0] for node in imports for one in node.names)


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


def _uses(function: ast.AST, modules: frozenset[str]) -> Iterator[_Use]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            target, value = node.targets[0].id, node.value
        elif isinstance(node, ast.Return) and node.value is not None:
            target, value = RETURNED, node.value
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            target, value = f"{ast.unparse(node.value.func)}()", node.value
        else:
            continue
        yield _Use(target, value, node.lineno, tuple(_leaves(value, modules)))


def _is_component(node: ast.AST, named: Named) -> bool:
    return isinstance(node, ast.Call) and plain_name(node.func).rpartition(".")[2] in named


def _calls(value: ast.expr, named: Named) -> bool:
    return any(_is_component(node, named) for node in ast.walk(value))


def _without(value: ast.expr, named: Named, *, passes_on: bool) -> ast.AST:
    """Return an expression without the component's calls in it."""
    without: ast.AST = _Without(named, passes_on=passes_on).visit(ast.parse(ast.unparse(value), mode="eval").body)
    return without


class _Without(ast.NodeTransformer):
    """Puts something in the place of a component's call: the first argument, or nothing, whatever went into it."""

    def __init__(self, named: Named, *, passes_on: bool) -> None:
        self._named, self._passes_on = named, passes_on

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace a call of the component."""
        self.generic_visit(node)
        if not _is_component(node, self._named):
            return node
        return node.args[0] if self._passes_on and node.args else ast.Constant(value=None)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Replace what is taken of a call whose argument goes on."""
        is_of_it = self._passes_on and _is_component(node.value, self._named)
        self.generic_visit(node)
        return node.value if is_of_it else node


def _leaves(node: ast.AST, modules: frozenset[str]) -> Iterator[str]:
    """Yield what an expression is made of: names with what is taken of them, numbers, and functions that it calls.

    A function is called by its last name, however its module is called.
    """
    is_plain = isinstance(node, ast.Attribute | ast.Subscript) and not _has_calls(node)
    if isinstance(node, ast.Name | ast.Constant) or is_plain:
        yield ast.unparse(node)
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield f"{node.func.attr}()"
        if _has_calls(node.func) or plain_name(node.func).partition(".")[0] not in modules | {"self"}:
            yield from _leaves(node.func.value, modules)
        rest: list[ast.AST] = [*node.args, *node.keywords]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield f"{node.func.id}()"
        rest = [*node.args, *node.keywords]
    else:
        rest = list(ast.iter_child_nodes(node))
    for inner in rest:
        yield from _leaves(inner, modules)


def _has_calls(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Call) for one in ast.walk(node))
