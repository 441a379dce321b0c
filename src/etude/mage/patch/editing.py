"""Changes at places of a file, as search blocks whose text occurs exactly once: what surrounds them is taken along."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from etude.mage.patch.blocks import Search


@dataclass(frozen=True, order=True)
class Edit:
    """A place, and what is put there.

    Attributes:
        start: Where it begins, in characters.
        end: Where it ends.
        text: What comes instead.
    """

    start: int
    end: int
    text: str


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with changes; they must not overlap."""
    for one in sorted(edits, reverse=True):
        text = text[: one.start] + one.text + text[one.end :]
    return text


def searches(file: str, text: str, edits: Iterable[Edit]) -> tuple[Search, ...] | None:
    """Return changes of a file as blocks; None if they overlap, change nothing, or nothing of it is found only once.

    Args:
        file: The file.
        text: Its text.
        edits: The changes.
    """
    ordered = sorted(edits)
    if any(one.end > other.start for one, other in pairwise(ordered)):
        return None
    starts = [0, *(found.end() for found in re.finditer(r"\r\n|\n|\r", text))]
    spans: list[tuple[int, int, list[Edit]]] = []
    for edit in ordered:
        first, last = _around(text, starts, edit)
        if first < 0:
            return None
        if spans and first < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]), [*spans[-1][2], edit])
        else:
            spans.append((first, last, [edit]))
    found = []
    for first, last, inside in spans:
        moved = [Edit(one.start - first, one.end - first, one.text) for one in inside]
        new = edited(text[first:last], moved)
        if new != text[first:last]:
            found.append(Search(file=file, search=text[first:last], text=new))
    return tuple(found) or None


def _around(text: str, starts: list[int], edit: Edit) -> tuple[int, int]:
    """Return the fewest whole lines around a change that occur only once; -1 if there are none."""
    first = max(n for n, start in enumerate(starts) if start <= edit.start)
    last = max(n for n, start in enumerate(starts) if start <= max(edit.start, edit.end - 1))
    while True:
        begin = starts[first]
        end = starts[last + 1] if last + 1 < len(starts) else len(text)
        if text[begin:end].strip() and occurrences(text, text[begin:end]) == 1:
            return begin, end
        if first == 0 and last + 1 >= len(starts):
            return -1, -1
        first, last = max(first - 1, 0), min(last + 1, len(starts) - 1)


def occurrences(text: str, part: str) -> int:
    """Return how often a part is in a text, overlapping ones counted, too."""
    found, at = 0, text.find(part)
    while at >= 0:
        found += 1
        at = text.find(part, at + 1)
    return found
