"""An experiment file before its script is loaded: its keys are known, and of the right types; no code has run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from etude.core.signature import MISSING
from etude.files.composing import read_file
from etude.files.given import Given, put_in, read_given
from etude.files.keys import FREE, NOT_IN_FILES, OWN, VERBS, arguments_of, keys
from etude.files.nodes import Entry, Fields, Node, Scalar, plain, told
from etude.files.source import Place, Problems, Source, nearest
from etude.files.spaces import WrongError
from etude.files.values import check_type, is_by_type

SUFFIXES: Final = (".yaml", ".yml")


def is_file(target: str) -> bool:
    """Say whether what the command line names is an experiment file, and not a script."""
    return target.endswith(SUFFIXES)


@dataclass(frozen=True)
class Document:
    """A file that was read, with what the command line says besides; its keys are known, and of the right types.

    Attributes:
        root: What stands in it.
        given: What the command line says of single hyperparameters.
        problems: Where what is wrong with it is told.
    """

    root: Fields
    given: tuple[Given, ...]
    problems: Problems

    @property
    def verb(self) -> str:
        """What is to be done."""
        return str(plain(self.root.entries["verb"].node))

    @property
    def experiment(self) -> str:
        """Where the experiment is, as the command line would name it."""
        node = self.root.entries["experiment"].node
        file, colon, name = str(plain(node)).rpartition(":")
        path = node.place.source.folder / (file if colon else name)
        path = Path(os.path.relpath(path)) if path.is_absolute() else Path(os.path.normpath(path))
        return f"{path}:{name}" if colon else str(path)


def read_document(target: str, given: Sequence[str] = (), *, environment: Mapping[str, str] | None = None) -> Document:
    """Read a file, or take a script as one that says nothing else; no code is run.

    Args:
        target: The file; or ``script.py:experiment``, with the verb ``run`` unless ``given`` says another one.
        given: What the command line says besides: ``lr=0.1``.
        environment: What variables have; those of this process if left out.

    Raises:
        FileError: It cannot be read; the message shows each place.
    """
    problems = Problems()
    root = read_file(Path(target), problems, environment) if is_file(target) else _of_script(target)
    if not isinstance(root, Fields):
        raise problems.fatal(
            root.place,
            f"Here is {told(root)}, where an experiment file has keys. Write experiment: script.py:experiment.",
        )
    found = read_given(given, problems, environment)
    root = put_in(root, found, problems)
    document = Document(root, tuple(found), problems)
    _check_keys(document)
    problems.check()
    return document


def _of_script(target: str) -> Fields:
    place = Place(Source(target, target, Path()), 1, 1, len(target))
    said = {"experiment": target, "verb": "run"}
    entries = {name: Entry(Scalar(place, name, name), Scalar(place, text, text)) for name, text in said.items()}
    return Fields(place, entries)


def _check_keys(document: Document) -> None:
    entries, problems = document.root.entries, document.problems
    known = keys()
    for name, entry in entries.items():
        if name.startswith(FREE):
            continue
        if name not in known:
            problems.add(entry.key.place, _unknown(name))
        elif name not in OWN and is_by_type(name) and name != "space" and not is_nothing(entry.node):
            verb = verb_of(document, known[name].verbs)
            tried(problems, check_type, name, entry.node, arguments_of(verb)[name].type)
    if "verb" not in entries:
        problems.add(
            document.root.place,
            f"The key verb is missing. Write verb: run, or another one of {', '.join(VERBS)}.",
            missing=True,
        )
    elif plain(node := entries["verb"].node) not in VERBS:
        meant = nearest(str(plain(node)), VERBS)
        problems.add(node.place, f"verb is {told(node)}, which is none.{meant} There are: {', '.join(VERBS)}.")
    _check_experiment(document)


def _check_experiment(document: Document) -> None:
    entry = document.root.entries.get("experiment")
    problems = document.problems
    if entry is None:
        problems.add(
            document.root.place, "The key experiment is missing. Write experiment: script.py:experiment.", missing=True
        )
        return
    text, place = plain(entry.node), entry.node.place
    if not isinstance(text, str) or ".py" not in text:
        problems.add(
            place, f"experiment is {told(entry.node)}. Name the script, and the experiment in it: script.py:experiment."
        )
        return
    file = text.rpartition(":")[0] if ".py:" in text else text
    path = place.source.folder / file
    if not path.is_file():
        others = [other.name for other in path.parent.glob("*.py")]
        here = f" There is {file} in the working folder, but paths are relative to their file." * Path(file).is_file()
        problems.add(place, f"There is no file {path}.{here or nearest(path.name, others)}")


def verb_of(document: Document, verbs: Sequence[str]) -> str:
    """Return the verb of a file if it is one of these, else the first of them."""
    entry = document.root.entries.get("verb")
    verb = str(plain(entry.node)) if entry is not None else ""
    return verb if verb in verbs else verbs[0]


def _unknown(name: str) -> str:
    if name in NOT_IN_FILES:
        return f"{name!r} is no matter of a file: the command line waits, and shows progress unless --quiet is given."
    return f"{name!r} is no key.{nearest(name, keys())} Hyperparameters stand under parameters, or space."


def is_nothing(node: Node) -> bool:
    """Say whether nothing stands behind a key: then it is as if the key were not there."""
    return isinstance(node, Scalar) and node.value is None


def tried(problems: Problems, reader: Any, *args: Any) -> Any:
    """Return what a reader gives; ``MISSING``, and tell what is wrong, if it cannot read."""
    try:
        return reader(*args)
    except WrongError as wrong:
        problems.add(wrong.place, str(wrong))
        return MISSING
