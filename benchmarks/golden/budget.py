"""Which value of a choice comes first with fewer trials, by the mean of its trials and by the best of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

DRAWS: Final = 1_000
SIZES: Final = (10, 20, 40, 80, 160, 320, 640)
BY: Final[tuple[Literal["mean", "best"], ...]] = ("mean", "best")


def first_by(groups: Mapping[str, Sequence[float]], *, by: str) -> str:
    """Return the value that comes first with all trials."""
    return max(groups, key=lambda name: max(groups[name]) if by == "best" else sum(groups[name]) / len(groups[name]))


def held(
    groups: Mapping[str, Sequence[float]], *, by: str, sizes: Sequence[int] = SIZES, seed: int = 0
) -> dict[int, float]:
    """Return how often so many trials, drawn from all of them, put the same value first as all do.

    Args:
        groups: Value -> the scores of its trials, more being better.
        by: "mean" or "best".
        sizes: Numbers of trials; those beyond what there are are left out.
        seed: Of the draws.
    """
    import numpy as np

    names = list(groups)
    of = np.concatenate([np.full(len(groups[name]), nth) for nth, name in enumerate(names)])
    scores = np.concatenate([np.asarray(groups[name], dtype=np.float64) for name in names])
    winner = names.index(first_by(groups, by=by))
    rng = np.random.default_rng(seed)
    found = {}
    for size in (size for size in sizes if size < len(scores)):
        wins = 0
        for _ in range(DRAWS):
            rows = rng.choice(len(scores), size, replace=False)
            wins += _first(of[rows], scores[rows], len(names), by) == winner
        found[size] = wins / DRAWS
    return found


def _first(of: Any, scores: Any, n: int, by: str) -> int:
    """Return which value comes first; one that none of the trials has, never does."""
    import numpy as np

    told = np.full(n, -np.inf)
    if by == "best":
        np.maximum.at(told, of, scores)
        return int(told.argmax())
    many = np.bincount(of, minlength=n)
    sums = np.bincount(of, weights=scores, minlength=n)
    told[many > 0] = sums[many > 0] / many[many > 0]
    return int(told.argmax())


def groups_of(found: Mapping[str, Any], parameter: str) -> dict[str, list[float]]:
    """Return the scores of kept trials by their value of a parameter."""
    groups: dict[str, list[float]] = {}
    for value, score in zip(found["params"][parameter], found["score"], strict=True):
        groups.setdefault(str(value), []).append(score)
    return dict(sorted(groups.items()))
