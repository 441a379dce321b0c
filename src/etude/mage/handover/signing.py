"""What a function of another tree takes, read from its source: nothing is imported to know it."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

from etude.core.errors import SignatureError

Arguments = ast.FunctionDef | ast.AsyncFunctionDef


def signature_in(
    source: str, base_source: str, base: Callable[..., Any], *, file: str
) -> tuple[inspect.Signature, dict[str, Any]]:
    """Return what a changed function takes, and its annotations.

    Parameters that its source has as that of the base has them are those of the base, with their types and defaults.
    Of others only what can be told from the text is known: a plain default, and a plain type.

    Args:
        source: The changed file.
        base_source: The file as it was.
        base: The function of the base.
        file: What the file is called, for messages.

    Raises:
        SignatureError: A new default can be known only by running the file.
    """
    known, hints = inspect.signature(base), hints_of(base)
    name = getattr(_inner(base), "__qualname__", "<locals>")
    now, before = definition(source, name), definition(base_source, name)
    if now is None or before is None or _same(now.args, before.args):
        return known, hints
    asked: list[inspect.Parameter] = []
    notes: dict[str, Any] = {}
    for kind, argument, default in _parameters(now.args, is_method="." in name or isinstance(_inner(base), type)):
        old = _spelled(before.args).get(argument.arg)
        if old == _shown(argument, default) and argument.arg in known.parameters:
            asked.append(known.parameters[argument.arg].replace(kind=kind))
            notes |= {argument.arg: hints[argument.arg]} if argument.arg in hints else {}
            continue
        asked.append(inspect.Parameter(argument.arg, kind, default=_value(default, argument.arg, name, file)))
        notes |= _type(argument)
    return inspect.Signature(asked), notes


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function as objects; those that cannot be are left out."""
    inner = _inner(function)
    target = inner.__init__ if isinstance(inner, type) else inner  # type: ignore[misc]
    target = target if inspect.isroutine(target) else type(target).__call__
    found: dict[str, Any] = {}
    for name, annotation in getattr(target, "__annotations__", {}).items():
        holder = type("Holder", (), {"__annotations__": {name: annotation}})
        with contextlib.suppress(Exception):  # one that exists for type checkers only spoils no other
            found |= typing.get_type_hints(holder, dict(getattr(target, "__globals__", {})), include_extras=True)
    return found


def definition(source: str, name: str) -> Arguments | None:
    """Return the function of a qualified name, of a class its ``__init__``; None if there is none.

    Of several the last one counts, as it does for Python.
    """
    body: list[ast.stmt] = ast.parse(source).body
    found: ast.stmt | None = None
    for part in name.split("."):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        named = [node for node in body if isinstance(node, kinds) and node.name == part]
        if not named:
            return None
        found = named[-1]
        body = named[-1].body
    if isinstance(found, ast.ClassDef):
        return definition(source, f"{name}.__init__")
    return found if isinstance(found, Arguments) else None


def _inner(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.unwrap(function)


def _same(one: ast.arguments, other: ast.arguments) -> bool:
    return ast.dump(one) == ast.dump(other)


Taken = tuple[Any, ast.arg, ast.expr | None]
"""How a parameter may be given, the parameter, and its default."""


def _parameters(arguments: ast.arguments, *, is_method: bool) -> list[Taken]:
    kinds = inspect.Parameter
    plain: list[tuple[Any, ast.arg]] = [(kinds.POSITIONAL_ONLY, one) for one in arguments.posonlyargs]
    plain += [(kinds.POSITIONAL_OR_KEYWORD, one) for one in arguments.args]
    none: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    defaults = [*none, *arguments.defaults]
    found: list[Taken] = [(kind, one, default) for (kind, one), default in zip(plain, defaults, strict=True)]
    found = found[1:] if is_method else found
    if arguments.vararg is not None:
        found.append((kinds.VAR_POSITIONAL, arguments.vararg, None))
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found += [(kinds.KEYWORD_ONLY, one, default) for one, default in pairs]
    if arguments.kwarg is not None:
        found.append((kinds.VAR_KEYWORD, arguments.kwarg, None))
    return found


def _spelled(arguments: ast.arguments) -> dict[str, str]:
    return {one.arg: _shown(one, default) for _, one, default in _parameters(arguments, is_method=False)}


def _shown(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.dump(argument) + ("" if default is None else ast.dump(default))


def _value(default: ast.expr | None, parameter: str, function: str, file: str) -> Any:
    if default is None:
        return inspect.Parameter.empty
    try:
        return ast.literal_eval(default)
    except (ValueError, TypeError, SyntaxError):
        raise SignatureError(
            f"{file}: the default of {parameter!r} in {function}() is now `{ast.unparse(default)}`, which is known "
            "only once the file runs. Give it a plain value, or leave that parameter as the project has it."
        ) from None


def _type(argument: ast.arg) -> dict[str, Any]:
    """Return the annotation of a parameter if it is made of Python's own types alone."""
    if argument.annotation is None:
        return {}
    names = {node.id for node in ast.walk(argument.annotation) if isinstance(node, ast.Name)}
    plain = (ast.Name, ast.BinOp, ast.BitOr, ast.Subscript, ast.Tuple, ast.Constant, ast.Load)
    if not all(isinstance(node, plain) for node in ast.walk(argument.annotation)):
        return {}
    if not all(isinstance(getattr(builtins, name, None), type) for name in names):
        return {}
    with contextlib.suppress(Exception):
        return {argument.arg: eval(ast.unparse(argument.annotation), {})}  # noqa: S307 - types alone
    return {}
