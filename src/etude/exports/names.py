"""Names as a target takes them: what it does not allow is changed, no two become one, and every change is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

SHOWN: Final = 5
"""Names in a note; the target has all of them."""


def fitted(names: Iterable[str], fit: Callable[[str], str]) -> dict[str, str]:
    """Return what each name is called at a target: itself where it can be, else what ``fit`` makes of it, once.

    Args:
        names: All names of one kind.
        fit: Returns a name that the target takes; the same if it takes that one.

    Example:
        >>> fitted(["a@b", "a_b", "a#b"], lambda name: name.replace("@", "_").replace("#", "_"))
        {'a@b': 'a_b.2', 'a_b': 'a_b', 'a#b': 'a_b.3'}
    """
    given = list(dict.fromkeys(names))
    taken = {name for name in given if fit(name) == name}
    found: dict[str, str] = {}
    for name in given:
        made = fit(name)
        if made != name:
            made = next(one for one in _numbered(made, fit) if one not in taken)
            taken.add(made)
        found[name] = made
    return found


def _numbered(name: str, fit: Callable[[str], str]) -> Iterator[str]:
    """Yield a name, and others like it that the target takes as well."""
    yield name
    number = 2
    while True:
        whole, cut = f"{name}.{number}", name
        while fit(whole) != whole:  # it is as long as can be
            cut = cut[:-1]
            whole = f"{cut}.{number}"
        yield whole
        number += 1


def renamed(found: Mapping[str, str], what: str, *, target: str) -> list[str]:
    """Return what is to be told of names that changed: a sentence, or none.

    Example:
        >>> renamed({"a@b": "a_b", "c": "c"}, "metric", target="MLflow")
        ["MLflow does not take the name of every metric, so there it is: 'a@b' as 'a_b'."]
    """
    changed = [f"{name!r} as {made!r}" for name, made in found.items() if made != name]
    if not changed:
        return []
    more = f", and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    it_is = "it is" if len(changed) == 1 else "they are"
    return [f"{target} does not take the name of every {what}, so there {it_is}: {', '.join(changed[:SHOWN])}{more}."]
