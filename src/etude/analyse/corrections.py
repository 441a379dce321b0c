"""P-values for several claims that are made together."""

from __future__ import annotations

from collections.abc import Sequence


def holm(ps: Sequence[float]) -> list[float]:
    """Return p-values for all claims at once: the least one times their number, and so on.

    It holds however the claims depend on each other.

    Source:
        Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".
    """
    order = sorted(range(len(ps)), key=ps.__getitem__)
    found, most = [0.0] * len(ps), 0.0
    for rank, place in enumerate(order):
        most = max(most, min(1.0, (len(ps) - rank) * ps[place]))
        found[place] = most
    return found
