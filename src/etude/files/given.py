"""What the command line says besides a file: ``lr=0.1 space.width=[8,16] verb=run``, as strictly read as the file.

Before ``=`` stands a key of the file, dotted where it leads into one; any other name is a hyperparameter, which is then
fixed. Behind it stands YAML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from etude.files.composing import read_text
from etude.files.keys import FREE, keys
from etude.files.nodes import Entry, Fields, Node, Scalar
from etude.files.source import Place, Problems, Source

ASSIGNED: Final = re.compile(r"\s*([^\W\d][\w.-]*)\s*=(?!=)")
BY_PARAMETER: Final = ("parameters", "space")
"""Keys below which names of hyperparameters stand, which have dots of their own."""


@dataclass(frozen=True)
class Given:
    """One argument of the command line.

    Attributes:
        key: The name, where it stands.
        path: The keys that lead there.
        node: What it gives.
    """

    key: Scalar
    path: tuple[str, ...]
    node: Node


def read_given(texts: Sequence[str], problems: Problems, environment: Mapping[str, str] | None = None) -> list[Given]:
    """Return what arguments give; what is wrong with them is told to ``problems``.

    Example:
        >>> [one.path for one in read_given(["lr=0.1", "space.optimizer.lr=[1, 2]", "at.trial=3"], Problems())]
        [('parameters', 'lr'), ('space', 'optimizer.lr'), ('at', 'trial')]
    """
    found: list[Given] = []
    for number, text in enumerate(texts, start=1):
        source = Source(f"argument {number}", text, Path(), argument=number)
        begin = ASSIGNED.match(text)
        if begin is None:
            problems.add(
                Place(source, 1, 1, len(text)),
                f"{text!r} gives nothing a value. Write NAME=VALUE, as in lr=0.1, 'space.lr=loguniform(1e-4, 1)' or "
                "verb=tune.",
            )
            continue
        place = Place(source, 1, begin.start(1) + 1, len(begin[1]))
        path = _path(begin[1])
        value = text[begin.end() :]
        node: Node = Scalar(place, None, "")
        if value.strip():  # behind as many blanks as there are characters before it, so that its columns are right
            padded = Source(source.name, " " * begin.end() + value, Path(), argument=number, shown=text)
            node = read_text(padded, problems, environment)
        if any(other.path == path for other in found):
            problems.add(place, f"{begin[1]} is given a second time. Leave one.")
        found.append(Given(Scalar(place, begin[1], begin[1]), path, node))
    return found


def put_in(root: Fields, given: Sequence[Given], problems: Problems) -> Fields:
    """Return a file with what the command line says in it, but for single hyperparameters, which ``below`` has."""
    for one in given:
        if one.path[0] not in BY_PARAMETER or len(one.path) == 1:
            root = _with(root, one, one.path, problems)
    return root


def below(key: str, given: Sequence[Given]) -> list[Given]:
    """Return what the command line says of single hyperparameters below a key."""
    return [one for one in given if one.path[0] == key and len(one.path) > 1]


def _path(name: str) -> tuple[str, ...]:
    first, dot, rest = name.partition(".")
    if first not in keys() and not first.startswith(FREE):
        return ("parameters", name)
    if not dot:
        return (name,)
    return (first, rest) if first in BY_PARAMETER else tuple(name.split("."))


def _with(node: Node, one: Given, path: tuple[str, ...], problems: Problems) -> Fields:
    if not isinstance(node, Fields):
        if not (isinstance(node, Scalar) and node.value is None):
            problems.add(
                one.key.place, f"{one.key.text} leads into what is no mapping in {node.place}. Give all of it."
            )
        node = Fields(one.key.place, {})
    name, *rest = path
    inner = node.entries[name].node if name in node.entries else Scalar(one.key.place, None, "")
    entry = Entry(one.key, _with(inner, one, tuple(rest), problems) if rest else one.node)
    return Fields(node.place, {**node.entries, name: entry}, node.size + 1)
