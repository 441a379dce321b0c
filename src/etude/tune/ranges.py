"""The arithmetic of ranges: places between two ends, and values that miss them."""

from __future__ import annotations


def between(low: float, high: float, u: float, *, log: bool = False) -> float:
    """Return the number at ``u`` in [0, 1] from ``low`` to ``high``: exact at the ends, never outside."""
    value = low ** (1 - u) * high**u if log else low * (1 - u) + high * u
    return min(max(value, low), high)


def index_at(u: float, size: int) -> int:
    """Return the place of ``u`` in [0, 1) among ``size`` equal parts."""
    return min(int(u * size), size - 1)  # rounding could reach the size itself


def fractions(n: int) -> list[float]:
    """Return ``n`` evenly spread numbers from 0 to 1; a single one lies in the middle."""
    return [i / (n - 1) for i in range(n)] if n > 1 else [0.5]


def spread(low: int, high: int, n: int, *, log: bool = False) -> tuple[int, ...]:
    """Return ``n`` distinct whole numbers from ``low`` to ``high``, or all of them if there are fewer."""
    n = min(n, high - low + 1)
    spread: list[int] = []
    for i, u in enumerate(fractions(n)):
        lowest = spread[-1] + 1 if spread else low
        spread.append(min(max(round(between(low, high, u, log=log)), lowest), high - (n - 1 - i)))
    return tuple(spread)


def outside(value: object, low: float, high: float) -> str | None:
    """Return how ``value`` misses the range from ``low`` to ``high``, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"is a {type(value).__name__}, not a number"
    if low <= value <= high:
        return None
    return f"is below {low}" if value < low else f"is above {high}" if value > high else "is not a number"
