"""What stands in an experiment file: values, lists and mappings that know where they stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from etude.files.scalars import Plain
from etude.files.source import Place


@dataclass(frozen=True)
class Scalar:
    """A single value.

    Attributes:
        place: Where it stands.
        value: What it means.
        text: What was written, with variables put in.
        quoted: Whether that was in quotes.
    """

    place: Place
    value: Plain
    text: str
    quoted: bool = False
    size: int = 1


@dataclass(frozen=True)
class Items:
    """A list."""

    place: Place
    items: tuple[Node, ...]
    size: int = 1


@dataclass(frozen=True)
class Entry:
    """A key of a mapping, and what stands behind it."""

    key: Scalar
    node: Node


@dataclass(frozen=True)
class Fields:
    """A mapping.

    Attributes:
        place: Where it begins.
        entries: The text of each key -> the key, and what stands behind it.
    """

    place: Place
    entries: Mapping[str, Entry]
    size: int = 1


Node: TypeAlias = "Scalar | Items | Fields"


def plain(node: Node) -> Any:
    """Return what a node stands for, as Python has it."""
    match node:
        case Scalar(value=value):
            return value
        case Items(items=items):
            return [plain(item) for item in items]
        case Fields(entries=entries):
            return {name: plain(entry.node) for name, entry in entries.items()}


def told(node: Node) -> str:
    """Say in a few words what stands there."""
    match node:
        case Items():
            return "a list"
        case Fields():
            return "a mapping"
        case Scalar(value=None):
            return "nothing"
        case Scalar(value=bool() as value):
            return str(value).lower()
        case Scalar(value=str() as value):
            return f"the text {value[:60]!r}"
        case Scalar(text=text):
            return f"the number {text}"
