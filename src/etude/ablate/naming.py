"""Names among those that there are: exact ones, those that a pattern matches, and the nearest where none does."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from etude.core.errors import ConfigError
from etude.core.near import nearest as names_near
from etude.core.text import few


def chosen(
    names: Sequence[str], pattern: str | None, known: Iterable[str], asked: str, noun: str, hint: str = ""
) -> set[str]:
    """Return which of the known names are meant.

    Args:
        names: Names, or names with ``*`` and ``?`` in them, each of which must match.
        pattern: A regular expression that is searched for, instead of names.
        known: What there is.
        asked: The component as it is spelled, for messages.
        noun: What the names are names of, for messages.
        hint: What else to say where nothing matches, with a space before it.

    Raises:
        ConfigError: A name, or the pattern, matches nothing.
    """
    there = list(dict.fromkeys(known))
    if pattern is not None:
        found = {name for name in there if re.search(pattern, name)}
        if not found:
            raise ConfigError(f"{asked!r} matches no {noun}. There are: {few(there)}.{hint}")
        return found
    chosen: set[str] = set()
    for name in names:
        matched = {name} & set(there) or {one for one in there if is_glob(name) and glob(name).fullmatch(one)}
        if not matched:
            which = "" if len(names) == 1 else f": there is no {name!r}"
            raise ConfigError(f"{asked!r} matches no {noun}{which}. {nearest(name, there)}{hint}")
        chosen |= matched
    return chosen


def is_glob(name: str) -> bool:
    """Say whether a name has ``*`` or ``?`` in it."""
    return "*" in name or "?" in name


def glob(name: str, one: str = ".") -> re.Pattern[str]:
    """Return the regular expression of a name in which ``*`` and ``?`` stand for other characters.

    Args:
        name: The name.
        one: What they stand for, as a regular expression of one character.
    """
    wild = {"*": f"{one}*", "?": one}
    return re.compile("".join(wild.get(letter, re.escape(letter)) for letter in name), re.DOTALL)


def nearest(name: str, known: Collection[str]) -> str:
    """Return what to say of a name that is not known: those that are near, or those that there are."""
    there = list(dict.fromkeys(known))
    last = name.rpartition(".")[2]
    near = [one for one in there if last.lower() in (one.lower(), one.rpartition(".")[2].lower())]
    near += names_near(name, there, n=3)
    tails: dict[str, list[str]] = {}
    for one in there:
        tails.setdefault(one.rpartition(".")[2], []).append(one)
    near += [one for tail in names_near(last, tails, n=3) for one in tails[tail]]
    if near:
        return f"Did you mean {' or '.join(map(repr, list(dict.fromkeys(near))[:3]))}?"
    return f"There are: {few(there)}."
