"""What changes beside a setting, where a variant is nothing but a setting with another value.

Such a variant is one value. Whatever else its patch changes may be tidying, or another experiment: no run can tell,
since all that runs otherwise may follow from the setting. So a person has to look.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from etude.mage.static.policy import Broken, Change, Named, Rule


def find_more_than_a_setting(change: Change, named: Named) -> Iterator[Broken]:
    """Yield the first that changes beside a setting, in a variant that is about settings alone."""
    if not named.settings_only:
        return
    before, after = (_told(change, text, tree, named) for text, tree in _sides(change))
    moves = [one for one in difflib.ndiff(before, after) if one[:2] in ("- ", "+ ")]
    if moves:
        first = moves[0]
        what = "goes" if first.startswith("-") else "comes"
        yield Broken(
            Rule.BESIDE,
            f"{change.path}: `{first[2:].strip()}` {what}, beside the setting. The variant is about nothing else.",
            expected="one value",
            found=f"{len(moves)} lines more",
        )


def _sides(change: Change) -> Iterator[tuple[str, ast.Module]]:
    yield change.before, change.old
    yield change.after, change.new


def _told(change: Change, text: str, tree: ast.Module, named: Named) -> list[str]:
    """Return a file as lines that say the same whatever the setting is; a file of another kind without its lines."""
    if change.python and tree.body:
        copy = ast.parse(ast.unparse(tree))
        return ast.unparse(_Any(named).visit(_without_docstrings(copy))).splitlines()
    return [
        line for line in text.splitlines() if not any(name in line.lower().replace("-", "_") for name in named.names)
    ]


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            has_one = ast.get_docstring(node) is not None
            node.body = (node.body[1:] if has_one else node.body) or [ast.Pass()]
    return tree


class _Any(ast.NodeTransformer):
    """Puts the same in the place of every value that a setting is given."""

    def __init__(self, named: Named) -> None:
        self._named = named

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Replace what is assigned to it; of several at once only its own."""
        self.generic_visit(node)
        target = node.targets[0]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            both = zip(target.elts, node.value.elts, strict=False)
            node.value.elts = [_anything() if _name(one) in self._named else value for one, value in both]
        elif any(_name(one) in self._named for one in node.targets):
            node.value = _anything()
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Replace what a field has by default."""
        self.generic_visit(node)
        if node.value is not None and _name(node.target) in self._named:
            node.value = _anything()
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        """Replace an argument of its name."""
        self.generic_visit(node)
        if node.arg in self._named:
            node.value = _anything()
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """Replace an entry of its name."""
        self.generic_visit(node)
        both = zip(node.keys, node.values, strict=True)
        node.values = [_anything() if _name(key) in self._named else value for key, value in both]
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        """Replace what a parameter of its name has by default."""
        self.generic_visit(node)
        places = [*node.posonlyargs, *node.args][-len(node.defaults) :] if node.defaults else []
        pairs = zip(places, node.defaults, strict=True)
        node.defaults = [_anything() if one.arg in self._named else value for one, value in pairs]
        named = zip(node.kwonlyargs, node.kw_defaults, strict=True)
        node.kw_defaults = [_anything() if one.arg in self._named and value else value for one, value in named]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace how the flag of a command is declared that has its name."""
        self.generic_visit(node)
        is_flag = isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"
        if is_flag and any(_name(one) in self._named for one in node.args):
            node.keywords = []
        return node


def _anything() -> ast.expr:
    return ast.Constant(value=...)


def _name(node: ast.AST | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
