"""Whether a rank has classes in other shares than the data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def imbalance(parts: Sequence[npt.ArrayLike], labels: npt.ArrayLike) -> float:
    """Return how far the classes of a rank are from those of all examples, of the rank where they are farthest.

    It is the total variation distance of their shares: 0 if they are the same, 0.5 if half of a rank's examples would
    have to be of other classes.

    Args:
        parts: The ids of each rank's examples.
        labels: The class of each example, by its id.

    Example:
        >>> imbalance([[0, 1], [2, 3]], [0, 0, 1, 1])
        0.5
        >>> imbalance([[0, 2], [1, 3]], [0, 0, 1, 1])
        0.0
    """
    classes, of = np.unique(np.asarray(labels), return_inverse=True)
    shares = np.bincount(of, minlength=len(classes)) / len(of)
    worst = 0.0
    for part in parts:
        ids = np.asarray(part, dtype=np.int64)
        if len(ids):
            own = np.bincount(of[ids], minlength=len(classes)) / len(ids)
            worst = max(worst, float(np.abs(own - shares).sum() / 2))
    return worst
