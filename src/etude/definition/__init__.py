"""What the numbers of a study depend on, as text that can be compared, hashed and shown.

A study may go on tomorrow only if it is still the same study, and two trials are equal only if all
that shaped their numbers was equal. So we read the code that the user's functions can reach:

- a function or class of the functions' own files, by its source; what it names is read in turn;
- any other project module, by its whole file, with the project modules that it imports;
- installed packages by their version; the standard library and Étude itself not at all;
- small plain values (settings, closure cells, default arguments) by value.

What is reachable is read from the bytecode, which knows which names are global, and never by
running or importing anything. What cannot be read is listed in ``unseen`` and is no error: a study with a
large table among its globals should start, and its user should know.

Everything is text, in one of two kinds: *code* ends with a newline and means what its syntax tree
means, so that comments, blank lines and docstrings are free; a *value* is one line and means what it says.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from etude.definition.meaning import meaning
from etude.definition.origins import Origin, origin_of
from etude.definition.reader import Reader

LONGEST_DIFF: Final = 30
"""Lines of a difference that are shown of one part."""


@dataclass(frozen=True)
class Code:
    """What some functions depend on.

    Args:
        parts: What was read, by a readable name: ``{"function train": "def train(...", ...}``.
        packages: The version of each installed package they use, by the name that is imported.
        preload: Installed modules they name, sorted: what a warm worker imports ahead of time.
        unseen: Sentences about what they use and we could not read.
        files: The sha256 of each project file that workers import, by its absolute path: they have to find the
            same bytes there.
    """

    parts: Mapping[str, str]
    packages: Mapping[str, str]
    preload: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The sha256 of parts and packages, equal in every process and on every machine."""
        meanings = {name: meaning(text) for name, text in self.parts.items()}
        said = json.dumps([meanings, dict(self.packages)], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()


def read_code(functions: Mapping[str, Callable[..., Any]]) -> Code:
    """Read everything that ``functions`` can reach; none of it is run or imported, nothing raises.

    Args:
        functions: The functions of an experiment by their role: ``{"train": train, "model": model}``.
    """
    reader = Reader()
    reader.read(functions)
    return Code(
        parts=dict(sorted(reader.parts.items())),
        packages=dict(sorted(reader.packages.items())),
        preload=tuple(sorted(reader.preload)),
        unseen=tuple(sorted(reader.unseen)),
        files=dict(sorted(reader.files.items())),
    )


def difference(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Say what changed from ``old`` to ``new`` parts; empty if nothing that matters did.

    Example:
        >>> print(difference({"lr": "uniform(0.0, 1.0)"}, {"lr": "uniform(0.0, 2.0)"}))
        lr: uniform(0.0, 1.0) -> uniform(0.0, 2.0)
    """
    said: list[str] = []
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            text = after if before is None else before
            value = "" if text is None or "\n" in text else f": {text}"
            said.append(f"{'added' if before is None else 'removed'} {name}{value}")
        elif "\n" not in before + after:
            said += [] if before == after else [f"{name}: {before} -> {after}"]
        elif meaning(before) != meaning(after):
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
            shown = list(lines)[2:]  # without the file names
            more = len(shown) - LONGEST_DIFF
            said += [f"{name}:", *(f"  {line}" for line in shown[:LONGEST_DIFF])]
            said += [f"  ... and {more} more lines"] if more > 0 else []
    return "\n".join(said)


def source_line(function: Callable[..., Any]) -> tuple[str, int] | None:
    """Return the file, relative to the working folder if inside it, and the first line of a function.

    None if there is no such file: code of a notebook's cell bears the name of one that was never written.
    """
    inner: Any = function
    while isinstance(inner, functools.partial) or hasattr(inner, "__wrapped__"):
        inner = inner.func if isinstance(inner, functools.partial) else inner.__wrapped__
    named = getattr(inner, "__init__" if isinstance(inner, type) else "__call__", None)
    code = getattr(inner, "__code__", getattr(named, "__code__", None))
    if code is None or code.co_filename.startswith("<"):
        return None
    file = Path(code.co_filename).absolute()
    if not file.is_file():
        return None
    inside = file.is_relative_to(Path.cwd())
    return (file.relative_to(Path.cwd()).as_posix() if inside else file.name), code.co_firstlineno


def where_is(experiment: object) -> str | None:
    """Return ``path/to/script.py:name`` of an object that a project file binds to ``name``.

    The path is relative to the working folder. None if no file does, as in a notebook.
    """
    modules = dict(sys.modules)
    for module_name in ("__main__", *(name for name in modules if name != "__main__")):
        module = modules.get(module_name)
        names = getattr(module, "__dict__", {})
        name = next((name for name, bound in list(names.items()) if bound is experiment), None)
        file = names.get("__file__")
        if name and isinstance(file, str) and origin_of(module_name) is Origin.PROJECT:
            return f"{Path(os.path.relpath(file)).as_posix()}:{name}"
    return None
