"""The functions and classes of a source, by qualified name, wherever they are defined."""

from __future__ import annotations

import ast
import difflib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, eq=False)
class Definition:
    """A function, method or class.

    Attributes:
        name: Its qualified name, such as ``Net.forward``; ``outer.inner`` of a function in a function.
        node: It.
    """

    name: str
    node: Defined

    @property
    def first(self) -> int:
        """Its first line, from 1, with decorators."""
        return min([self.node.lineno, *(one.lineno for one in self.node.decorator_list)])

    @property
    def last(self) -> int:
        """Its last line."""
        return self.node.end_lineno or self.node.lineno

    @property
    def kind(self) -> str:
        """What it is, in a word."""
        return "class" if isinstance(self.node, ast.ClassDef) else "function"


def parsed(text: str, path: str = "<text>") -> ast.Module:
    """Return a source as a tree, whatever warnings it is worth.

    Raises:
        SyntaxError: It is no Python, or Python cannot bear it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text, path)
        except (ValueError, RecursionError, MemoryError) as error:
            raise SyntaxError(str(error) or type(error).__name__) from None


def definitions(tree: ast.AST) -> list[Definition]:
    """Return all definitions, in the order of the source; those under ``if``, ``try`` and ``with``, too."""
    return list(_under(tree))


def named(name: str, among: Sequence[Definition]) -> list[Definition]:
    """Return the definitions of a qualified name; ``outer.<locals>.inner`` is ``outer.inner``."""
    name = plain_name(name)
    return [one for one in among if one.name == name]


def plain_name(name: str) -> str:
    """Return a qualified name without what Python puts between a function and what is in it."""
    return name.replace(".<locals>", "")


def nearest_names(name: str, among: Sequence[str]) -> list[str]:
    """Return the names that are most like one, three at most."""
    last = name.rpartition(".")[2]
    same = [one for one in among if one.rpartition(".")[2] == last]
    return list(dict.fromkeys([*same, *difflib.get_close_matches(name, among, n=3, cutoff=0.5)]))[:3]


def _under(tree: ast.AST) -> Iterator[Definition]:
    # A stack, since a long chain of elif is as deep as it is long.
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    while stack:
        node, scope = stack.pop()
        if isinstance(node, Defined):
            yield Definition(scope + node.name, node)
            scope = f"{scope}{node.name}."
        children = [
            one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt | ast.excepthandler | ast.match_case)
        ]
        stack += [(one, scope) for one in reversed(children)]
