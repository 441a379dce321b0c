"""A source as a list of its nodes, each with the definition that it stands in, and names as they were imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from etude.mage.sources.definitions import Defined


def walk(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield every node with the qualified name of the definition around it; a definition is not around itself."""
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    while stack:
        node, scope = stack.pop()
        yield scope, node
        if isinstance(node, Defined):
            scope = f"{scope}.{node.name}" if scope else node.name
        stack += [(one, scope) for one in reversed(list(ast.iter_child_nodes(node)))]


def imported(tree: ast.AST) -> dict[str, str]:
    """Return the names that imports bind, anywhere in a source, and what they stand for, dotted."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                found[one.asname or one.name.partition(".")[0]] = one.name if one.asname else one.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for one in node.names:
                found[one.asname or one.name] = f"{module}.{one.name}"
    return found


def dotted(node: ast.AST, names: dict[str, str]) -> str:
    """Return a name or an attribute with dots, its first part as it was imported; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ".".join(["", *reversed(parts)]) if parts else ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])


def root_of(node: ast.AST) -> str:
    """Return the name that a chain of attributes begins with; empty if it begins with something else."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def last_part(name: str) -> str:
    """Return what stands behind the last dot."""
    return name.rpartition(".")[2]


def is_literal(node: ast.AST | None) -> bool:
    """Say whether an expression is a number that somebody wrote, however it is written."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return is_literal(node.operand)
    if isinstance(node, ast.BinOp):
        return is_literal(node.left) and is_literal(node.right)
    if isinstance(node, ast.Call):
        values = [*node.args, *(one.value for one in node.keywords)]
        return bool(values) and last_part(dotted(node.func, {})) in _NUMERIC and all(is_number(one) for one in values)
    return False


def is_number(node: ast.AST) -> bool:
    """Say whether an expression is a number or a text that is one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            float(node.value)
        except ValueError:
            return False
        return True
    if isinstance(node, ast.List | ast.Tuple):
        return all(map(is_number, node.elts))
    return is_literal(node)


_NUMERIC = frozenset(
    {"float", "int", "round", "min", "max", "abs", "sum", "tensor", "float64", "float32", "mean", "item", "array"}
)
