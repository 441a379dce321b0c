"""How much of a model may be drawn anew."""

from __future__ import annotations

from typing import Final

MOST_REBUILT: Final = 0.2
"""No more than this share of what is left may be drawn anew: more would not leave arms that can be compared."""
DEAR: Final = f"more than {100 * MOST_REBUILT:.0f} % of what is left would have to be rebuilt"
"""What is said of a repair that draws more."""


def is_dear(drawn: int, left: int) -> bool:
    """Say whether too much is drawn anew, of so many parameters that are left.

    Example:
        >>> is_dear(20, 100), is_dear(21, 100)
        (False, True)
    """
    return drawn > MOST_REBUILT * max(left, 1)
