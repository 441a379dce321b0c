"""Claims that a person writes: expressions over the facts of two runs, evaluated without giving them any power.

An expression may look at facts, compare, count and calculate. It cannot call anything but a few counting functions,
cannot reach anything but the fields of the values that it is given, and its work is bounded. What is not listed here
is not allowed: there is no list of what is forbidden that something could be missing from.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from etude.core.errors import ExpressionError, MissingFactError
from etude.mage.facts import Facts

LONGEST: Final = 2_000
"""Characters."""
DEEPEST: Final = 40
"""How many brackets, operators and loops may be inside each other."""
MOST_STEPS: Final = 200_000
"""So many parts may be evaluated, those of loops anew in each turn."""
LARGEST: Final = 10**18
"""No whole number may be larger."""

NAMES: Final = ("base", "variant")

FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "len": len,
    "sum": sum,
    "min": min,
    "max": max,
    "any": any,
    "all": all,
    "sorted": sorted,
    "set": set,
    "abs": abs,
}

COMPARES: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}

CALCULATES: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def holds(expression: str, base: Facts, variant: Facts) -> bool:
    """Say whether an expression is true of two runs.

    Args:
        expression: Python, with the names ``base`` and ``variant``.
        base: What was seen of the baseline.
        variant: What was seen of the variant.

    Raises:
        MissingFactError: It looks at a fact that is not there, such as a parameter that no model has.
        ExpressionError: It does something that is not allowed, is no Python, or gives something else than a truth
            value.

    Example:
        >>> from etude.mage.facts import Ended
        >>> run = Facts(ended=Ended(code=0, why="finished"), lengths=(4, 2))
        >>> holds("sum(variant.lengths) == 6", run, run)
        True
    """
    found = _Evaluation(expression, {"base": base, "variant": variant}).value()
    if not isinstance(found, bool):
        raise ExpressionError(
            f"`{expression}` gives {_short(found)}, which is neither true nor false. Compare it with something."
        )
    return found


def check_expression(expression: str) -> None:
    """Refuse an expression that could never be evaluated, before there are any facts.

    Raises:
        ExpressionError: It does something that is not allowed, or is no Python.
    """
    _Evaluation(expression, {}).check()


def mentioned(expression: str) -> frozenset[str]:
    """Return the fields of ``variant`` that an expression looks at; none of one that is no Python."""
    try:
        tree = _parsed(expression)
    except ExpressionError:
        return frozenset()
    return frozenset(
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "variant"
    )


def _parsed(expression: str) -> ast.expr:
    if len(expression) > LONGEST:
        raise ExpressionError(
            f"The expression has {len(expression):,} characters, and {LONGEST:,} are the most. Say less, or in several."
        )
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else type(error).__name__
        raise ExpressionError(f"`{_cut(expression)}` is no Python expression: {why}.") from None
    layer, depth = [tree], 0
    while layer:
        depth += 1
        if depth > DEEPEST:
            raise ExpressionError(f"`{_cut(expression)}` is nested more than {DEEPEST} deep. Write it flatter.")
        layer = [child for node in layer for child in ast.iter_child_nodes(node)]  # type: ignore[misc]
    return tree


class _Evaluation:
    """One evaluation: a walk over the syntax, with a purse of steps."""

    def __init__(self, expression: str, names: Mapping[str, Any]) -> None:
        self._text = expression
        self._tree = _parsed(expression)
        self._names = dict(names)
        self._steps = 0

    def value(self) -> Any:
        self.check()
        return self._of(self._tree, self._names)

    def check(self) -> None:
        """Look at every part once: what is refused does not depend on facts."""
        bound = set(NAMES)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.comprehension):
                bound |= {self._target(one) for one in self._targets(node.target)}
        for node in ast.walk(self._tree):
            self._check_node(node, bound)

    def _check_node(self, node: ast.AST, bound: set[str]) -> None:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in bound | FUNCTIONS.keys():
            raise self._refused(f"the name `{node.id}`", "It knows `base`, `variant`, and the names of its own loops")
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            raise self._refused(f"`.{node.attr}`", "It may look at fields of facts")
        if isinstance(node, ast.Call):
            self._check_call(node)
        if isinstance(node, ast.Constant) and not isinstance(node.value, str | int | float | bool | None):
            raise self._refused(f"`{node.value!r}`", "It may have numbers, texts, truth values and None")
        if isinstance(node, ast.expr | ast.comprehension) and not isinstance(node, ALLOWED):
            raise self._refused(f"`{_cut(ast.unparse(node))}`", "It may look at facts, compare, count and calculate")
        if isinstance(node, ast.operator) and type(node) not in CALCULATES:
            raise self._refused(f"the operator {type(node).__name__}", "It may calculate with + - * / // %")
        if isinstance(node, ast.unaryop) and isinstance(node, ast.Invert):
            raise self._refused("the operator ~", "It may calculate with + - * / // %")
        if isinstance(node, ast.comprehension) and node.is_async:
            raise self._refused("`async for`", "Write `for`")

    def _check_call(self, node: ast.Call) -> None:
        known = isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS
        if not known:
            raise self._refused(f"`{_cut(ast.unparse(node.func))}(...)`", f"It may call {', '.join(FUNCTIONS)}")
        if node.keywords or any(isinstance(one, ast.Starred) for one in node.args):
            raise self._refused(f"`{_cut(ast.unparse(node))}`", "It may pass plain arguments by position")

    def _refused(self, what: str, mend: str) -> ExpressionError:
        return ExpressionError(f"`{_cut(self._text)}` has {what}, which a claim may not. {mend}.")

    def _targets(self, node: ast.expr) -> list[ast.expr]:
        if isinstance(node, ast.Tuple | ast.List):
            return [one for part in node.elts for one in self._targets(part)]
        return [node]

    def _target(self, node: ast.expr) -> str:
        if not isinstance(node, ast.Name) or node.id in NAMES or node.id in FUNCTIONS or node.id.startswith("_"):
            raise self._refused(f"the loop name `{_cut(ast.unparse(node))}`", "Take a plain name of your own")
        return node.id

    # --- values -----------------------------------------------------------------------------------

    def _of(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        self._step()
        try:
            return VALUES[type(node)](self, node, names)
        except ExpressionError:
            raise
        except (KeyError, IndexError) as error:
            what = _short(error.args[0])
            raise MissingFactError(f"`{_cut(self._text)}` looks at something that is not there: {what}.") from None
        except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise ExpressionError(f"`{_cut(self._text)}` cannot be evaluated: {_cut(str(error))}.") from None

    def _step(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > MOST_STEPS:
            raise ExpressionError(f"`{_cut(self._text)}` takes more than {MOST_STEPS:,} steps. Look at fewer facts.")

    def _constant(self, node: ast.Constant, names: Mapping[str, Any]) -> Any:
        return self._bounded(node.value)

    def _name(self, node: ast.Name, names: Mapping[str, Any]) -> Any:
        if node.id not in names:
            raise self._refused(f"the name `{node.id}` outside of its loop", "Use a loop's name inside it")
        return names[node.id]

    def _attribute(self, node: ast.Attribute, names: Mapping[str, Any]) -> Any:
        value = self._of(node.value, names)
        if not isinstance(value, msgspec.Struct):
            raise self._refused(f"`.{node.attr}` of {_short(value)}", "Only facts have fields; others are indexed")
        if node.attr not in value.__struct_fields__:
            fields = ", ".join(value.__struct_fields__)
            raise self._refused(f"`.{node.attr}`", f"{type(value).__name__} has {fields}")
        return getattr(value, node.attr)

    def _subscript(self, node: ast.Subscript, names: Mapping[str, Any]) -> Any:
        value = self._of(node.value, names)
        if not isinstance(value, Mapping | list | tuple | str):
            raise self._refused(f"an index of {_short(value)}", "Mappings, tuples and texts have them")
        if isinstance(node.slice, ast.Slice):
            parts = (node.slice.lower, node.slice.upper, node.slice.step)
            at: Any = slice(*(None if one is None else self._of(one, names) for one in parts))
            if isinstance(value, Mapping):
                raise self._refused("a slice of a mapping", "Index it by name")
        else:
            at = self._of(node.slice, names)
        return value[at]

    def _compare(self, node: ast.Compare, names: Mapping[str, Any]) -> bool:
        left = self._of(node.left, names)
        for compare, one in zip(node.ops, node.comparators, strict=True):
            right = self._of(one, names)
            if not COMPARES[type(compare)](self._listless(left), self._listless(right)):
                return False
            left = right
        return True

    def _bool(self, node: ast.BoolOp, names: Mapping[str, Any]) -> Any:
        value: Any = None
        for one in node.values:
            value = self._of(one, names)
            if bool(value) is isinstance(node.op, ast.Or):
                return value
        return value

    def _unary(self, node: ast.UnaryOp, names: Mapping[str, Any]) -> Any:
        value = self._of(node.operand, names)
        if isinstance(node.op, ast.Not):
            return not value
        self._numbers(value)
        return -value if isinstance(node.op, ast.USub) else +value

    def _binary(self, node: ast.BinOp, names: Mapping[str, Any]) -> Any:
        one, other = self._of(node.left, names), self._of(node.right, names)
        if isinstance(one, set) and isinstance(other, set) and isinstance(node.op, ast.Sub):
            return one - other
        self._numbers(one, other)  # "%99999d" % 1 and [0] * 10**9 are no arithmetic
        return self._bounded(CALCULATES[type(node.op)](one, other))

    def _numbers(self, *values: Any) -> None:
        for value in values:
            if not isinstance(value, int | float):
                raise self._refused(f"arithmetic with {_short(value)}", "It calculates with numbers alone")

    def _bounded(self, value: Any) -> Any:
        if isinstance(value, int) and abs(value) > LARGEST:
            raise self._refused("a number above 1e18", "Write it as 1e18, or say less")
        return value

    def _choice(self, node: ast.IfExp, names: Mapping[str, Any]) -> Any:
        return self._of(node.body if self._of(node.test, names) else node.orelse, names)

    def _call(self, node: ast.Call, names: Mapping[str, Any]) -> Any:
        assert isinstance(node.func, ast.Name)
        values = [self._of(one, names) for one in node.args]
        for value in values:
            self._step(len(value) if isinstance(value, Mapping | list | tuple | set | str) else 1)
        if node.func.id == "sum":
            self._numbers(*(values[0] if values else ()), *values[1:])
        return self._bounded(FUNCTIONS[node.func.id](*values))

    def _tuple(self, node: ast.Tuple, names: Mapping[str, Any]) -> Any:
        return tuple(self._of(one, names) for one in node.elts)

    def _list(self, node: ast.List, names: Mapping[str, Any]) -> Any:
        return [self._of(one, names) for one in node.elts]

    def _set(self, node: ast.Set, names: Mapping[str, Any]) -> Any:
        return {self._listless(self._of(one, names)) for one in node.elts}

    def _loop(self, node: ast.ListComp | ast.GeneratorExp, names: Mapping[str, Any]) -> Any:
        return [self._of(node.elt, inner) for inner in self._turns(node.generators, names)]

    def _set_loop(self, node: ast.SetComp, names: Mapping[str, Any]) -> Any:
        return {self._listless(self._of(node.elt, inner)) for inner in self._turns(node.generators, names)}

    def _turns(self, loops: list[ast.comprehension], names: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if not loops:
            yield names
            return
        first, *others = loops
        for value in self._over(self._of(first.iter, names)):
            self._step()
            inner = {**names, **self._bound(first.target, value)}
            if all(self._of(one, inner) for one in first.ifs):
                yield from self._turns(others, inner)

    def _over(self, value: Any) -> Any:
        if not isinstance(value, Mapping | list | tuple | set | str):
            raise self._refused(f"a loop over {_short(value)}", "Mappings, tuples and texts can be gone through")
        return value

    def _listless(self, value: Any) -> Any:
        """Return a value in which lists are tuples, as they were before they were in a journal."""
        if not isinstance(value, list | tuple):
            return value
        self._step(len(value))
        return tuple(map(self._listless, value))

    def _bound(self, target: ast.expr, value: Any) -> dict[str, Any]:
        if isinstance(target, ast.Name):
            return {target.id: value}
        assert isinstance(target, ast.Tuple | ast.List)
        parts = list(self._over(value))
        if len(parts) != len(target.elts):
            raise ValueError(f"{len(parts)} values for {len(target.elts)} names")
        return {
            name: one
            for to, part in zip(target.elts, parts, strict=True)
            for name, one in self._bound(to, part).items()
        }


VALUES: Final[Mapping[type[ast.expr], Callable[[_Evaluation, Any, Mapping[str, Any]], Any]]] = {
    ast.Constant: _Evaluation._constant,
    ast.Name: _Evaluation._name,
    ast.Attribute: _Evaluation._attribute,
    ast.Subscript: _Evaluation._subscript,
    ast.Compare: _Evaluation._compare,
    ast.BoolOp: _Evaluation._bool,
    ast.UnaryOp: _Evaluation._unary,
    ast.BinOp: _Evaluation._binary,
    ast.IfExp: _Evaluation._choice,
    ast.Call: _Evaluation._call,
    ast.Tuple: _Evaluation._tuple,
    ast.List: _Evaluation._list,
    ast.Set: _Evaluation._set,
    ast.ListComp: _Evaluation._loop,
    ast.GeneratorExp: _Evaluation._loop,
    ast.SetComp: _Evaluation._set_loop,
}
"""What each part of an expression is worth: what is not in this table cannot be evaluated."""

ALLOWED: Final = (*VALUES, ast.Slice, ast.comprehension)


def _short(value: Any) -> str:
    """Return what something is; of what could be large, its kind alone."""
    return _cut(repr(value), 60) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"


def _cut(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
