"""Reading the bounds of a range, and the refusals of what can be none.

``call`` is what the user wrote, such as ``"uniform(1, 0)"``: every message begins with it.
"""

from __future__ import annotations

import sys
from numbers import Integral, Real
from typing import Any, Final

from etude.core.errors import SpaceError
from etude.tune.values import fits_64_bits

LARGEST: Final = sys.float_info.max / 2
"""The largest bound, so that the width of a range is a float as well."""


def number(call: str, name: str, value: Any, *, whole: bool = False, positive: bool = False) -> Any:
    """Return ``value`` as the float, or if ``whole`` the int, that it is."""
    if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
        wanted, other = ("a whole number", "etude.uniform") if whole else ("a number", "etude.choice")
        raise SpaceError(
            f"{call} has {name}={value!r}, a {type(value).__name__}, where {wanted} belongs. "
            f"Pass {wanted}, or use {other}."
        )
    plain: int | float = int(value) if isinstance(value, Integral) else float(value)
    if whole and not fits_64_bits(int(plain)):
        raise SpaceError(
            f"{call} has {name}={value!r}, which does not fit into 64 bits, so no journal could hold what is drawn. "
            f"Pass a {name} from -2**63 to 2**64 - 1, or use etude.uniform or etude.loguniform."
        )
    if not abs(plain) <= LARGEST:  # so written, it catches NaN as well
        raise SpaceError(
            f"{call} has {name}={value!r}, and nothing can be drawn evenly from a range without an end. "
            "Pass a finite number."
        )
    if positive and plain <= 0:
        why = "never leads from low to high" if name == "step" else "has no logarithm"
        raise SpaceError(f"{call} has {name}={value!r}, which {why}. Pass a {name} above 0.")
    return plain if whole else float(plain)


def check_order(call: str, low: float, high: float, *, swapped: object) -> None:
    """Refuse bounds that are equal or reversed; ``swapped`` is the domain with its bounds exchanged."""
    if low == high:
        raise SpaceError(
            f"{call} has equal bounds, so there is nothing to search. "
            f"For a fixed value write the value itself: {low!r}."
        )
    if high < low:
        raise SpaceError(f"{call} has its bounds reversed, so no value lies between them. Write {swapped}.")


def misfit(call: str, low: float, high: float, step: float) -> SpaceError:
    """Return the error for a step that does not lead to ``high``, with the highs that it leads to."""
    below = low + (high - low) // step * step
    fitting = [h if isinstance(h, int) else float(f"{h:.12g}") for h in (below, below + step) if h > low]
    return SpaceError(
        f"{call} has a step that does not fit: no whole number of steps leads from {low} to {high}. "
        f"Pass {' or '.join(f'high={h}' for h in fitting)}, or another step."
    )
