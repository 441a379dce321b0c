"""A space as it stands in a file.

space:
  lr: loguniform(1e-4, 1)                 # a call, as in Python; read, and never run
  width: [32, 64, 128]                    # a choice
  dropout: {uniform: [0, 0.5]}            # the same as a mapping; or {low: 0, high: 0.5}
  optimizer:
    choice:                               # one that brings parameters of its own
      sgd: {momentum: "uniform(0, 1)"}    # in {...} a comma ends a value, so: quotes
      adam: {}
  epochs: 5                               # fixed
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from typing import Any, Final

from etude.core.errors import SpaceError
from etude.files.domains import read_domain
from etude.files.nodes import Entry, Fields, Items, Node, Scalar, told
from etude.files.source import Place, nearest
from etude.tune.spaces import CALLS

CALL: Final = re.compile(r"\s*(etude\.)?[A-Za-z_]\w*\s*\(")
NAME: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class WrongError(ValueError):
    """Something in a file that cannot be, and where."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(message)
        self.place = place


def flat(node: Node, groups: Collection[str], *, prefix: str = "") -> dict[str, Entry]:
    """Return the parameters that stand below a key by their whole names; what stands for a group is taken apart.

    Raises:
        WrongError: It is no mapping of names, or one stands there twice.
    """
    if isinstance(node, Scalar) and node.value is None:
        return {}
    if not isinstance(node, Fields):
        raise WrongError(
            node.place, f"Here is {told(node)}, where names of parameters stand. Write NAME: VALUE, one a line."
        )
    found: dict[str, Entry] = {}
    for name, entry in node.entries.items():
        whole = f"{prefix}{name}"
        if not NAME.fullmatch(name):
            raise WrongError(entry.key.place, f"{name!r} cannot be the name of a parameter.{_if_cut(name)}")
        inner = flat(entry.node, groups, prefix=f"{whole}.") if _is_group(whole, entry, groups) else {whole: entry}
        for one, got in inner.items():
            if one in found:
                raise WrongError(
                    got.key.place, f"{one} stands here a second time, besides {found[one].key.place}. Leave one."
                )
            found[one] = got
    return found


def read_domain_of(name: str, node: Node) -> Any:
    """Return what a parameter may be: a domain, a list for a choice, or the one value that it has.

    Raises:
        WrongError: It is none of these.
    """
    if isinstance(node, Scalar):
        return _of_text(name, node) if isinstance(node.value, str) else node.value
    if isinstance(node, Items):
        return [value_of(item) for item in node.items]
    if len(node.entries) == 1:
        kind, entry = next(iter(node.entries.items()))
        if kind in CALLS:
            return _called(name, kind, entry)
        meant = nearest(kind, CALLS)
    else:
        kind, meant = ", ".join(node.entries), ""
    raise WrongError(
        node.place,
        f"{name} is a mapping with {kind or 'nothing'}, where one of {', '.join(CALLS)} stands alone.{meant} Write "
        f"{name}: {{uniform: [0, 1]}}, or {name}: uniform(0, 1).",
    )


def value_of(node: Node) -> Any:
    """Return one value that a parameter may have: lists are tuples there.

    Raises:
        WrongError: It is a mapping.
    """
    if isinstance(node, Fields):
        raise WrongError(
            node.place, "A mapping is no value of a parameter. Choose by a label, and look it up in the function."
        )
    if isinstance(node, Items):
        return tuple(value_of(item) for item in node.items)
    if isinstance(node.value, str) and not node.quoted and (cut := _if_cut(node.value)):
        raise WrongError(node.place, f"{node.value!r} lacks a bracket.{cut}")
    return node.value


def _is_group(name: str, entry: Entry, groups: Collection[str]) -> bool:
    if name not in groups:
        return False
    if isinstance(entry.node, Scalar) and entry.node.value is not None:
        raise WrongError(
            entry.node.place,
            f"{name} is a group of parameters, and here is {told(entry.node)}. Write its fields below it, each "
            "with its value.",
        )
    return isinstance(entry.node, Fields)


def _of_text(name: str, node: Scalar) -> Any:
    text = str(node.value)
    if not node.quoted and (cut := _if_cut(text)):
        raise WrongError(node.place, f"{name}: {text!r} lacks a bracket.{cut}")
    if text.strip() in CALLS:
        raise WrongError(
            node.place, f"{name}: {text} does not say which values. Write it with brackets, as in uniform(0, 1)."
        )
    if not CALL.match(text):
        return text
    try:
        return read_domain(name, text)
    except SpaceError as error:
        known = text.partition("(")[0].strip().removeprefix("etude.") in CALLS
        meant = "" if known else f" A text that is meant as it stands is a list of one: [{text!r}]."
        raise WrongError(node.place, f"{error}{meant}") from None


def _if_cut(text: str) -> str:
    """Say why a bracket may be missing."""
    if text.count("(") == text.count(")"):
        return ""
    return " In {...} and [...] a comma ends a value: put it in quotes, or on a line of its own."


def _called(name: str, kind: str, entry: Entry) -> Any:
    node = entry.node
    try:
        if kind == "choice" and isinstance(node, Fields):
            return CALLS[kind](
                {
                    branch.key.value: {
                        inner: read_domain_of(inner, one.node) for inner, one in flat(branch.node, ()).items()
                    }
                    for branch in node.entries.values()
                }
            )
        if isinstance(node, Fields):
            _check_options(name, kind, node)
            return CALLS[kind](**{option: _argument(option, one.node) for option, one in node.entries.items()})
        if kind in ("choice", "ordered", "upto"):  # these take one list
            return CALLS[kind](_listed(node))
        if isinstance(node, Items):
            return CALLS[kind](*map(_listed, node.items))
    except SpaceError as error:
        raise WrongError(node.place, f"{name}: {error}") from None
    except TypeError as error:
        raise WrongError(entry.key.place, f"{name}: {kind} cannot be called so: {error}.") from None
    raise WrongError(
        node.place, f"{name}: {kind} has {told(node)}. Write {kind}: [...], or {kind}: {{...}} with names."
    )


def _check_options(name: str, kind: str, node: Fields) -> None:
    known = inspect.signature(CALLS[kind]).parameters
    for option, entry in node.entries.items():
        if option not in known:
            meant = nearest(option, known)
            raise WrongError(
                entry.key.place, f"{name}: {kind} has no option {option!r}.{meant} It has: {', '.join(known)}."
            )


def _argument(option: str, node: Node) -> Any:
    return read_domain_of(option, node) if option == "domain" else _listed(node)


def _listed(node: Node) -> Any:
    return [value_of(item) for item in node.items] if isinstance(node, Items) else value_of(node)
