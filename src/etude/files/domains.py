"""``NAME=DOMAIN`` on the command line, read as in Python and never run: ``lr='loguniform(1e-4, 1)'``.

A domain is a Python literal, which means what it means in ``Experiment.tune`` (a list is a choice, anything
else a fixed value), or a call of one of the functions that make domains.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from etude.core.errors import SpaceError
from etude.core.near import did_you_mean, nearest
from etude.tune.spaces import CALLS


def read_space(given: Iterable[str]) -> dict[str, Any]:
    """Return the space that was given on the command line.

    Raises:
        SpaceError: Something is not ``NAME=DOMAIN``, or a name stands there twice.

    Example:
        >>> read_space(["lr=loguniform(1e-4, 1)", "width=[32, 64]", "epochs=5"])
        {'lr': loguniform(0.0001, 1.0), 'width': [32, 64], 'epochs': 5}
    """
    space: dict[str, Any] = {}
    for text in given:
        name, equals, domain = (part.strip() for part in text.partition("="))
        if not (name and equals and domain):
            raise SpaceError(
                f"{text!r} is no NAME=DOMAIN. Write lr='loguniform(1e-4, 1)', width='[32, 64]' or epochs=5, with "
                "quotes where the shell would read more into it."
            )
        if name in space:
            raise SpaceError(f"{name} is given twice: {space[name]!r} and {domain}. Leave one.")
        space[name] = read_domain(name, domain)
    return space


def read_domain(name: str, text: str) -> Any:
    """Return what a parameter may be; ``name`` is for messages.

    Raises:
        SpaceError: It is neither a literal nor a call of a known function.
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise _unreadable(name, text) from None
    try:
        return _value(tree)
    except SpaceError as error:
        raise SpaceError(f"{name}: {error}") from None
    except (ValueError, TypeError):
        raise _unreadable(name, text) from None


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="etude"), attr=name)):
            return _called(name, node)
        case ast.Dict(keys=keys, values=values):  # the branches of a choice, with domains in them
            return {_value(_given(key)): _value(value) for key, value in zip(keys, values, strict=True)}
        case ast.List(elts=items):
            return [_value(item) for item in items]
        case _:
            return ast.literal_eval(node)


def _called(name: str, call: ast.Call) -> Any:
    if name not in CALLS:
        meant = did_you_mean(name, CALLS).rstrip()
        known = ", ".join(CALLS)
        raise SpaceError(f"There is no domain {name!r}. " + (meant or f"Known: {known}."))
    named = {_given(keyword.arg): _value(keyword.value) for keyword in call.keywords}
    try:
        return CALLS[name](*map(_value, call.args), **named)
    except TypeError as error:
        raise SpaceError(f"{ast.unparse(call)} cannot be called so: {error}.") from None


def _given(thing: Any) -> Any:
    """Refuse ``*`` and ``**``, which the syntax tree shows as a name that is None."""
    if thing is None:
        raise ValueError
    return thing


def _unreadable(name: str, text: str) -> SpaceError:
    near = nearest(text, CALLS)
    mend = f"{name}='{near[0]}(...)'" if near else f"""{name}='"{text}"' if a text is meant"""
    return SpaceError(f"{name}={text} is neither a Python literal nor a call of {', '.join(CALLS)}. Write {mend}.")
