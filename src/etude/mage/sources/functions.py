"""What functions and methods in a source are called by those who watch the program: ``train.py:smooth`` or dotted."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from etude.mage.sources.importing import imported_names
from etude.mage.sources.source import Placed, Source, plain_name, sources
from etude.mage.tree import Tree

PLUMBING = frozenset(
    re.findall(
        r"\w+",
        "print len range zip enumerate int float str bool list dict tuple set min max sum abs round isinstance "
        "getattr hasattr setattr super open sorted format join append extend items keys values get update to cuda cpu "
        "detach item numpy size view mean backward zero_grad train eval",
    )
)
"""What is called everywhere, and is never what somebody wants to remove."""


def function_of(call: ast.Call, source: Source, tree: Tree, placed: Placed | None = None) -> str:
    """Return what a called function is known as; empty if it cannot be told.

    Functions of the project are ``file.py:name``, those of libraries have their dotted name, and methods of an object
    that is made in the same file are called by its class: ``torch.optim.lr_scheduler.StepLR.step``.
    """
    name = plain_name(call.func)
    if not name:
        return ""
    first, dot, rest = name.partition(".")
    owner = placed.owner if placed is not None else None
    if first in ("self", "cls") and owner is not None:
        methods = {one.name for one in owner.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
        return f"{source.file}:{owner.name}.{rest}" if rest in methods else ""
    own = _defined(source)
    if not dot and first in own:
        return f"{source.file}:{name}" + (".__init__" if isinstance(own[first], ast.ClassDef) else "")
    project = imported_names(source, tree)
    if first in project:
        file, original = project[first]
        function = f"{original}.{rest}" if original and rest else original or rest
        if function:
            return f"{file}:{function}"
    if first in source.imports:
        return source.dotted(call.func)
    kind = _class_of(first, source) if dot else ""
    return f"{kind}.{rest}" if kind and "." not in rest else ""


def times_called(call: ast.Call, source: Source, tree: Tree, name: str) -> int:
    """Return at how many places of the tree a function is called, or may be: where it cannot be told, names decide."""
    last = plain_name(call.func).rpartition(".")[2]
    found = 0
    for other in sources(tree):
        for node in other.nodes:
            if isinstance(node, ast.Call) and plain_name(node.func).rpartition(".")[2] == last:
                found += function_of(node, other, tree) in (name, "")
    return found


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """Yield what is called in something, without what is called everywhere."""
    for one in ast.walk(node):
        if isinstance(one, ast.Call) and not _is_plumbing(plain_name(one.func)):
            yield one


def _is_plumbing(name: str) -> bool:
    """Say whether a name is called everywhere; a function of the program may be called as a method of tensors is."""
    _, dot, last = name.rpartition(".")
    return last in PLUMBING and (bool(dot) or hasattr(builtins, last))


def _defined(source: Source) -> dict[str, ast.stmt]:
    return {
        one.node.name: one.node
        for one in source.statements
        if isinstance(one.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not one.scopes
    }


def _class_of(name: str, source: Source) -> str:
    """Return the class of an object that the file makes once: ``scheduler = torch.optim.lr_scheduler.StepLR(...)``."""
    made = []
    for placed in source.statements:
        node = placed.node
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        if any(isinstance(target, ast.Name) and target.id == name for target in node.targets):
            made.append(source.dotted(node.value.func))
    kinds = {kind for kind in made if kind.rpartition(".")[2][:1].isupper()}
    return kinds.pop() if len(kinds) == 1 and len(made) == 1 else ""
