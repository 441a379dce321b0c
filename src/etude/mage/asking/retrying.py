"""Whether and when a question is asked again: one policy for all backends, and a function of what failed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from etude.core.errors import BackendError

NEVER: Final = frozenset((400, 401, 402, 403, 404, 413, 422))
"""Answers of a service that do not change by asking again."""

ONCE: Final = frozenset(("timeout",))
"""What may be asked again once only: each try is as long as the time limit, and may have to be paid."""


@dataclass(frozen=True)
class Patience:
    """How long and how often.

    Attributes:
        attempts: So often a question is asked at most.
        first_s: The wait before the second attempt, in seconds; each further one is twice as long.
        longest_s: No wait is longer, whoever asks for it: a service that wants more is given up.
        total_s: Nor are all waits of a question together.
    """

    attempts: int = 5
    first_s: float = 1.0
    longest_s: float = 120.0
    total_s: float = 300.0


def next_wait(
    error: BackendError,
    attempt: int,
    *,
    waited_s: float,
    draw: Callable[[], float],
    patience: Patience = Patience(),
) -> float | None:
    """Return for how long to wait before the question is asked again; None if it should not be.

    Connection errors, 408, 409, 5xx, 529 and a 429 that passes are asked again. What is wrong with the question, the
    key or the account is not: a spend limit that is reached stays so, however often it is asked.

    Args:
        error: What failed.
        attempt: Which attempt that was, from 1.
        waited_s: For how long this question has waited already.
        draw: Gives a number from 0 up to 1: half of a wait is left to it, so that not all come back together.
        patience: The limits.
    """
    if not error.may_retry or error.status in NEVER or error.code == "spend limit":
        return None
    if attempt >= (2 if error.code in ONCE else patience.attempts):
        return None
    asked_s = error.after_s if error.after_s is not None else 0.0
    if not math.isfinite(asked_s) or asked_s > patience.longest_s:
        return None
    backoff_s = min(patience.first_s * 2.0 ** (attempt - 1), patience.longest_s)
    wait_s = max(asked_s, backoff_s * (0.5 + draw() / 2))
    return wait_s if waited_s + wait_s <= patience.total_s else None


def told_of_limit(error: BackendError, *, done: int, waiting: int) -> str:
    """Return what a person is told when the service lets them spend no more.

    Args:
        error: What the service said; its code is ``spend limit``.
        done: How many variants are done.
        waiting: How many wait.
    """
    variants = "variant" if done == 1 else "variants"
    wait = "waits" if waiting == 1 else "wait"
    return f"{error} Not retried. {done} {variants} done, {waiting} {wait}; `resume` continues."
