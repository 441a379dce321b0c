"""Functions of another tree, which stand for those of an experiment in an arm of its ablation.

Such a function has the signature of the one in the tree, travels to workers with all of the tree's files in it, and is
for the identity of a study what its patch is: another patch is another study.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etude.core.errors import ConfigError
from etude.core.signature import Definition
from etude.mage.handover.apart import Apart
from etude.mage.handover.signing import hints_of, signature_in
from etude.mage.handover.travelling import Files
from etude.mage.tree import Tree


@dataclass(frozen=True)
class Place:
    """Where an experiment of a tree is.

    Attributes:
        files: The tree.
        script: The script, by its path in the tree.
        name: What the experiment is called in it.
        search: Where modules are found: folders of the tree, the script's first.
        kind: The class of experiments.
    """

    files: Files
    script: str
    name: str
    search: tuple[str, ...]
    kind: type


def functions_of(
    tree: Tree, base: Tree, experiment: Definition, *, entry: str, root: Path, identity: str
) -> dict[str, Callable[..., Any]]:
    """Return stand-ins for all functions of an experiment, by role, as another tree has them.

    All of them are of that tree, also those that it has not changed: a model is then of the classes that its training
    function knows.

    Args:
        tree: The tree that they are taken from.
        base: The tree that the experiment is from.
        experiment: The experiment.
        entry: ``script.py:experiment``; the script relative to ``root``.
        root: The project's folder.
        identity: What tells this tree's patch from others.

    Raises:
        ConfigError: The tree has no such script, or the entry names none.
        SignatureError: A function has a new default that is no plain value.
    """
    script, colon, name = entry.rpartition(":")
    if not colon or script not in tree:
        raise ConfigError(f"{entry!r} names no experiment of these files. Give script.py:experiment, by its path here.")
    place = Place(Files.of(tree, root=root), script, name, search_in(root, script), type(experiment))
    found = {}
    for role, function in experiment.functions.items():
        file = _file_of(function, root)
        if file is not None and file in tree and file in base:
            signature, hints = signature_in(tree.text(file), base.text(file), function, file=file)
        else:
            signature, hints = inspect.signature(function), hints_of(function)
        found[role] = stand_in(place, role, identity, signature, hints)
    return found


def stand_in(
    place: Place, role: str, identity: str, signature: inspect.Signature, hints: Mapping[str, Any]
) -> Callable[..., Any]:
    """Return a function that calls the one that an experiment of another tree has for ``role``."""

    def function(identity: str, /, **named: Any) -> Any:
        return call(place, role, named)

    function.__name__ = role
    function.__annotations__ = dict(hints)
    # The identity is an argument that is given already, since those are part of what a study depends on.
    given = functools.partial(function, identity)
    given.__signature__ = signature  # type: ignore[attr-defined]
    return given


def call(place: Place, role: str, named: Mapping[str, Any]) -> Any:
    """Call the function that an experiment of a tree has for a role, among the tree's own modules."""
    apart = opened(place.files, place.search)
    with apart.inside():
        module = apart.script(place.script, place.kind)
        experiment = getattr(module, place.name, None)
        if not isinstance(experiment, place.kind):
            raise ConfigError(
                f"{place.script} of this variant has no experiment {place.name!r} by the time it starts a study, or at "
                'its end. Define it before that, or put what starts a study under `if __name__ == "__main__":`.'
            )
        functions: Mapping[str, Callable[..., Any]] = experiment.functions  # type: ignore[attr-defined]
        if role not in functions:
            raise ConfigError(f"{place.name!r} of this variant has no {role} function any more. Leave it one.")
        return functions[role](**named)


def opened(files: Files, search: tuple[str, ...]) -> Apart:
    """Return the modules of a tree in this process; they are loaded at most once."""
    key = (files.digest, files.root, search)
    if key not in _OPENED:
        _OPENED[key] = Apart(files.laid(), search, list(files.tree))
    return _OPENED[key]


_OPENED: dict[tuple[str, str, tuple[str, ...]], Apart] = {}


def search_in(root: Path, script: str) -> tuple[str, ...]:
    """Return where modules of a project are found: the script's folder, and those of the search path.

    Args:
        root: The project's folder.
        script: The script, relative to it.
    """
    root = root.resolve()
    found = [os.path.dirname(script) or "."]
    for place in sys.path:
        path = Path(place or ".").resolve()
        inside = path.is_relative_to(root) and not {"site-packages", "dist-packages"} & set(path.parts)
        if inside and path.is_dir() and (relative := path.relative_to(root).as_posix()) not in found:
            found.append(relative)
    return tuple(found)


def _file_of(function: Callable[..., Any], root: Path) -> str | None:
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(inner)
    inner = inner if inspect.isroutine(inner) else getattr(inner, "__init__", None)
    code = getattr(inner, "__code__", None)
    if code is None:
        return None
    file = Path(code.co_filename).resolve()
    return file.relative_to(root.resolve()).as_posix() if file.is_relative_to(root.resolve()) else None
