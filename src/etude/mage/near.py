"""How like one name is to another: for spelling mistakes, which are told and never mended silently."""

from __future__ import annotations

from collections.abc import Iterable


def distance(one: str, other: str) -> int:
    """Return how many letters must be added, left out, exchanged or swapped with their neighbour.

    Source:
        Damerau 1964, "A technique for computer detection and correction of spelling errors", doi:10.1145/363958.363994;
        no letter is touched twice.

    Example:
        >>> distance("ABLATABLE_CONPONENT", "ABLATABLE_COMPONENT"), distance("form", "from")
        (1, 1)
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        last, before, row = before, row, [i]
        for j, opposite in enumerate(other, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != opposite))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == opposite:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


def nearest(name: str, known: Iterable[str], *, most: int = 3) -> tuple[str, ...]:
    """Return those that are most like a name: the nearest one, and others only if they are as near.

    Args:
        name: The name, as it was written.
        known: Those that there are.
        most: So many at most.

    Returns:
        Names, in their order; none if even the nearest shares less than half of its letters.

    Example:
        >>> nearest("con2", ["conv1", "conv2", "fc1"])
        ('conv2',)
    """
    apart = {other: distance(name.lower(), other.lower()) for other in known}
    least = min(apart.values(), default=0)
    if not apart or least > max(len(name) // 2, 1):
        return ()
    return tuple([other for other, cost in apart.items() if cost == least][:most])


def listed(names: Iterable[str], *, most: int = 6) -> str:
    """Return names for a sentence, in backticks; of many the first ones and how many more there are."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"`{name}`" for name in names[:most]) + more
