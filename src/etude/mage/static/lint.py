"""Whether a changed file can be read at all, and whether its names are known: what costs no run to find out."""

from __future__ import annotations

import json
import tomllib
import warnings
from collections.abc import Iterator

from etude.mage.patch.lines import bare, lines_of
from etude.mage.sources.definitions import parsed
from etude.mage.static.policy import Change
from etude.mage.verdicts import Reason

FATAL = frozenset({"UndefinedName", "UndefinedLocal", "UndefinedExport"})
"""What pyflakes finds and no run survives, once it comes there."""
_AROUND = 2


def read_errors(change: Change) -> Iterator[Reason]:
    """Yield why a file can no longer be read; nothing if it could not be before."""
    error = _unreadable(change.path, change.after)
    if error is None or (change.before and _unreadable(change.path, change.before) is not None):
        return
    line, message = error
    yield Reason(
        text=f"{change.path}, line {line}: {message}.\n{in_context(change.after, line)}",
        claim=f"{change.path} can be read",
        expected="no error",
        found=message,
    )


def undefined_names(change: Change) -> Iterator[Reason]:
    """Yield names that nothing defines, and that the base did not have so."""
    known = {(kind, name) for kind, name, _, _ in _found(change.before, change.path)}
    for kind, name, line, message in _found(change.after, change.path):
        if (kind, name) not in known:
            known.add((kind, name))
            yield Reason(
                text=f"{change.path}, line {line}: {message}. Define or import it.\n{in_context(change.after, line)}",
                claim="all names are defined",
                expected=f"a definition or an import of {name}",
                found=message,
            )


def in_context(text: str, line: int) -> str:
    """Return a line and those around it, with their numbers."""
    lines = lines_of(text)
    first, last = max(line - _AROUND, 1), min(line + _AROUND, len(lines))
    return "\n".join(f"{'>' if n == line else ' '}{n:>5}  {bare(lines[n - 1])}" for n in range(first, last + 1))


def _unreadable(path: str, text: str) -> tuple[int, str] | None:
    """Return the line and the message of what keeps a file from being read."""
    try:
        if path.endswith((".py", ".pyi")):
            tree = parsed(text, path)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(tree, path, "exec")  # finds what the parser lets pass: return outside a function, and such
        elif path.endswith((".json", ".ipynb")):
            json.loads(text)
        elif path.endswith(".toml"):
            tomllib.loads(text)
    except SyntaxError as error:
        return error.lineno or 1, str(error.msg)
    except json.JSONDecodeError as error:
        return error.lineno, error.msg
    except (ValueError, RecursionError, MemoryError) as error:
        return 1, str(error) or type(error).__name__
    return None


def _found(text: str, path: str) -> list[tuple[str, str, int, str]]:
    from pyflakes.checker import Checker

    try:
        tree = parsed(text, path)
    except SyntaxError:
        return []
    try:
        messages = Checker(tree, filename=path).messages
    except RecursionError:  # the rules say so
        return []
    found = []
    for message in messages:
        kind = type(message).__name__
        if kind in FATAL:
            told = str(message.message % message.message_args)
            found.append((kind, str(message.message_args[0]), int(message.lineno), told))
    return sorted(found, key=lambda one: one[2])
