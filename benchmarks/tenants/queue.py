"""Jobs that arrive at a machine, and when each of them ends, by the ledger's rule."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from etude.system.budget import Amount, Want, let_in
from etude.system.tenants import Response

MACHINE: Final = Amount(cores=2)
WHOLE: Final = Want(MACHINE, MACHINE)
"""A job takes the whole machine, so jobs run first in, first out."""


def arrivals(n: int, *, mean_s: float, draw: random.Random) -> list[float]:
    """Return when jobs arrive whose times between arrivals are exponential."""
    now_s, found = 0.0, []
    for _ in range(n):
        now_s += draw.expovariate(1 / mean_s)
        found.append(now_s)
    return found


def serve(arrive_s: Sequence[float], lasts_s: Callable[[int], float], want: Want = WHOLE) -> list[Response]:
    """Return how long each job took from when it arrived to when it ended.

    Args:
        arrive_s: When each arrives, in order.
        lasts_s: How long a job takes, asked when it begins.
        want: What each of them wants of the machine.
    """
    there: list[int] = []  # in the order in which they came
    ends: dict[int, float] = {}
    began: dict[int, float] = {}
    found: list[Response] = []
    coming = list(range(len(arrive_s)))
    while coming or there:
        next_end_s, leaving = min(((at, nth) for nth, at in ends.items()), default=(float("inf"), -1))
        if coming and arrive_s[coming[0]] < next_end_s:
            now_s = arrive_s[coming[0]]
            there.append(coming.pop(0))
        else:
            now_s = next_end_s
            there.remove(leaving)
            del ends[leaving]
            found.append(Response(str(leaving), arrive_s[leaving], began[leaving], now_s))
        for nth in there[: let_in(MACHINE, [want] * len(there))]:
            if nth not in began:
                began[nth], ends[nth] = now_s, now_s + lasts_s(nth)
    return found
