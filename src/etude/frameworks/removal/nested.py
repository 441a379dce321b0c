"""Tensors in nested values: what goes into a module and what comes out, with a path to each leaf."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

import torch
from msgspec import Struct

Path: TypeAlias = tuple[str | int, ...]
"""Where a leaf lies: names of arguments, keys, positions."""


class Nth(Struct, frozen=True, tag="nth"):
    """Here stands the tensor that the nth rule gives."""

    n: int


class Given(Struct, frozen=True, tag="given"):
    """Here stands what was passed in, as it is."""

    path: Path


class Plain(Struct, frozen=True, tag="plain"):
    """Here stands a plain value."""

    value: bool | int | float | str | None


class Row(Struct, frozen=True, tag="row"):
    """Here stands a tuple or list, or a named tuple of a class."""

    kind: str
    items: tuple[Template, ...]


class Table(Struct, frozen=True, tag="table"):
    """Here stands a mapping or a dataclass of a class."""

    kind: str
    keys: tuple[str, ...]
    items: tuple[Template, ...]


Template: TypeAlias = Nth | Given | Plain | Row | Table
"""The form of what a module gives, without its tensors."""


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Go through all leaves of a nested value: tensors, and whatever is no container that we know."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, (*path, key if isinstance(key, int) else str(key)))
    elif isinstance(value, tuple | list):
        for n, item in enumerate(value):
            yield from leaves(item, (*path, n))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name, None), (*path, field.name))
    else:
        yield path, value


def tensors(value: Any) -> Iterator[tuple[Path, torch.Tensor]]:
    """Go through the tensors of a nested value."""
    return ((path, leaf) for path, leaf in leaves(value) if isinstance(leaf, torch.Tensor))


def at(value: Any, path: Path) -> Any:
    """Return the leaf that lies there; raise LookupError if there is none."""
    for step in path:
        if isinstance(value, Mapping | tuple | list):
            value = cast(Any, value)[step]
        elif isinstance(step, str) and hasattr(value, step):
            value = getattr(value, step)
        else:
            raise LookupError(f"nothing lies at {path}")
    return value


def mapped(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """Return a nested value with its tensors changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, Mapping):
        changed = {key: mapped(item, change) for key, item in value.items()}
        return changed if type(value) is dict else _made(type(value), changed)
    if isinstance(value, tuple | list):
        items = [mapped(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def bound(kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return what a module of a class was called with, by the names that its ``forward`` gives."""
    try:
        signature = inspect.signature(kind.forward)  # type: ignore[attr-defined]
        given = signature.bind(None, *args, **kwargs).arguments
    except (TypeError, ValueError):
        return {**{f"argument_{n}": value for n, value in enumerate(args)}, **kwargs}
    return dict(list(given.items())[1:]) if given else {}


def template(value: Any, rule_of: Callable[[Path], int], given: Callable[[Any], Path | None]) -> Template:
    """Return the form of what a module gave.

    Args:
        value: What it gave.
        rule_of: Says which rule gives the tensor at a path.
        given: Says where a value that is no tensor was passed in; None if it was not.

    Raises:
        TypeError: It holds an object that no data can stand for.
    """
    return _template(value, (), rule_of, given)


def _template(value: Any, path: Path, rule_of: Callable[[Path], int], given: Callable[[Any], Path | None]) -> Template:
    def below(item: Any, step: str | int) -> Template:
        return _template(item, (*path, step), rule_of, given)

    if isinstance(value, torch.Tensor):
        return Nth(rule_of(path))
    if value is None or isinstance(value, bool | int | float | str):
        return Plain(value)
    where = given(value)
    if where is not None or type(value).__name__.endswith("Cache"):
        return Plain(None) if where is None else Given(where)  # of a cache models make another one
    if isinstance(value, tuple | list):
        return Row(_name(type(value)), tuple(below(item, n) for n, item in enumerate(value)))
    fields = value if isinstance(value, Mapping) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and fields is None:
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if fields is None:
        raise TypeError(f"it gives a {type(value).__name__}")
    items = tuple(below(item, str(key)) for key, item in fields.items())
    return Table(_name(type(value)), tuple(map(str, fields)), items)


def filled(form: Template, results: list[torch.Tensor], inputs: dict[str, Any]) -> Any:
    """Return a value of a form, with these tensors in it."""
    if isinstance(form, Nth):
        return results[form.n]
    if isinstance(form, Given):
        return at(inputs, form.path)
    if isinstance(form, Plain):
        return form.value
    items = [filled(item, results, inputs) for item in form.items]
    kind = _kind(form.kind)
    if isinstance(form, Row):
        return kind(*items) if hasattr(kind, "_fields") else kind(items)
    return _made(kind, dict(zip(form.keys, items, strict=True)))


_LOCAL: dict[str, type] = {}
"""Classes that cannot be imported, since they were defined in a function."""


def _name(kind: type) -> str:
    name = f"{kind.__module__}:{kind.__qualname__}"
    if "<locals>" in name:
        _LOCAL[name] = kind
    return name


def _kind(name: str) -> Any:
    if name in _LOCAL:
        return _LOCAL[name]
    module, _, qualified = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    return found


def _made(kind: Any, fields: dict[str, Any]) -> Any:
    if kind is dict:
        return fields
    try:
        return kind(**fields)
    except TypeError:
        return kind(fields)
