"""What somebody may have meant who wrote a name that is not known: the one place that all messages ask."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

CUTOFF: Final = 0.62
"""How much two names have in common, of 1, so that one may be meant by the other. ``bayes`` does not mean ``cmaes``."""


def nearest(name: str, known: Iterable[str], *, n: int = 1) -> list[str]:
    """Return which names may be meant by one that is not known, the likeliest first, ``n`` at most.

    What differs in capitals, hyphens and underscores alone comes before what is spelled differently.

    Example:
        >>> nearest("TPE", ["random", "tpe"])
        ['tpe']
        >>> nearest("learning-rate", ["lr", "learning_rate"])
        ['learning_rate']
        >>> nearest("bayes", ["random", "cmaes"])
        []
    """
    there = list(dict.fromkeys(one for one in known if isinstance(one, str)))
    same = [one for one in there if _plain(one) == _plain(name)]
    return list(dict.fromkeys([*same, *difflib.get_close_matches(name, there, n=n, cutoff=CUTOFF)]))[:n]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question after the nearest name, with a space behind it; nothing if no name is near.

    Example:
        >>> did_you_mean("lrr", ["lr", "width"])
        "Did you mean 'lr'? "
    """
    near = nearest(name, known)
    return f"Did you mean {near[0]!r}? " if near else ""


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
