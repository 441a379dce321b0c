"""What a statement is about, as a user would call it: ``conv2`` of ``self.conv2 = nn.Conv2d(32, 64, 3)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from etude.mage.sources.settings import flag_at
from etude.mage.sources.source import Placed, Source, plain_name, within

LISTS = ("Sequential", "ModuleList", "ModuleDict", "OrderedDict", "Compose")
"""What is made of a list whose members are things of their own."""


def names_of(source: Source, placed: Placed) -> tuple[str, ...]:  # noqa: PLR0911 - one for each kind
    """Return the names of what a statement makes, sets or calls; none if it is about nothing that has one."""
    node = placed.node
    if (flag := flag_at(source, placed)) is not None:
        return (flag.short,)
    if isinstance(node, ast.Assign):
        return tuple(name for target in node.targets for name in _targets(source, target))
    if isinstance(node, ast.AnnAssign | ast.AugAssign):
        return tuple(_targets(source, node.target))
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return (node.name,)
    if isinstance(node, ast.Expr | ast.Return):
        return _called(source, node.value)
    if isinstance(node, ast.With | ast.AsyncWith):
        return tuple(name for item in node.items for name in _called(source, item.context_expr))
    if isinstance(node, ast.If | ast.While):
        return tuple(dict.fromkeys(_read_in(node.test)))
    if isinstance(node, ast.Import | ast.ImportFrom):
        return tuple(one.asname or one.name for one in node.names)
    return ()


def members_at(placed: Placed, line: int, *, alone: bool) -> tuple[str, ...]:
    """Return the names of what stands on one line in the middle of a list: columns, or modules of a sequence.

    Args:
        placed: The statement.
        line: The comment's line.
        alone: Whether the comment stands above what it is about, and not behind it.
    """
    if not placed.is_simple or not placed.first < line < placed.last:
        return ()
    held = [(name, node) for name, node in members(placed.node) if node.lineno > placed.first]
    if alone:
        line = min((node.lineno for _, node in held if node.lineno > line), default=0)
        return tuple(name for name, node in held if node.lineno == line)
    return tuple(name for name, node in held if (node.end_lineno or 0) == line)


def members(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Yield what the lists of a statement hold, with what each is called.

    Texts in a list are called as they say. Modules of a sequence are called by their path, such as ``features.2``, or
    by the name that they are given.
    """
    prefix = _prefix(statement)
    for node in ast.walk(statement):
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            for one in node.elts:
                if isinstance(one, ast.Constant) and isinstance(one.value, str) and not _is_pair(node):
                    yield one.value, one
        elif isinstance(node, ast.Call) and plain_name(node.func).rpartition(".")[2] in LISTS:
            for n, one in enumerate(_listed(node)):
                name, made = _pair(one) if _is_pair(one) else (str(n), one)
                if isinstance(made, ast.Call) and plain_name(made.func).rpartition(".")[2] not in LISTS:
                    yield f"{prefix}{name}", one


def _prefix(statement: ast.stmt) -> str:
    """Return the path of the sequence that is assigned; a sequence that is a whole model has none."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    for target in targets:
        name = plain_name(target)
        if within(name) != name:
            return f"{within(name)}."
    return ""


def _listed(call: ast.Call) -> list[ast.expr]:
    if len(call.args) == 1 and isinstance(call.args[0], ast.List | ast.Tuple):
        return call.args[0].elts
    return call.args


def _is_pair(node: ast.AST) -> bool:
    """Say whether it is ``("conv2", nn.Conv2d(...))``, as an ordered dictionary of modules has them."""
    return (
        isinstance(node, ast.Tuple)
        and len(node.elts) == 2  # noqa: PLR2004 - a pair
        and isinstance(node.elts[0], ast.Constant)
        and isinstance(node.elts[1], ast.Call)
    )


def _pair(node: ast.expr) -> tuple[str, ast.expr]:
    assert isinstance(node, ast.Tuple)
    name, made = node.elts
    assert isinstance(name, ast.Constant)
    return str(name.value), made


def _targets(source: Source, target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _targets(source, one)
    elif isinstance(target, ast.Starred):
        yield from _targets(source, target.value)
    elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        yield str(target.slice.value)  # data["age"] = ...
    elif isinstance(target, ast.Subscript):
        yield from _targets(source, target.value)
    elif name := plain_name(target):
        yield _of_an_object(source, name)


def _called(source: Source, node: ast.expr | None) -> tuple[str, ...]:
    if isinstance(node, ast.Await):
        node = node.value
    if not isinstance(node, ast.Call):
        return ()
    name = plain_name(node.func)
    first, _, rest = name.partition(".")
    if first in source.imports:  # nn.utils.clip_grad_norm_(...)
        return (name.rpartition(".")[2],)
    if not name and isinstance(node.func, ast.Attribute):
        return (node.func.attr,)  # make()[0].step()
    return (rest if first in ("self", "cls") and rest else name,) if name else ()


def _of_an_object(source: Source, name: str) -> str:
    """Return an attribute's path from its object on; one of a library is called in full."""
    first, _, rest = name.partition(".")
    return rest if rest and first not in source.imports else name


def _read_in(node: ast.expr) -> Iterator[str]:
    if name := plain_name(node):
        yield within(name)
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield from _read_in(child)
