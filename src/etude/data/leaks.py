"""Whether rows that a training is judged by are known already to the weights that it begins with.

Rows that the training itself trains on are left aside: a data set with duplicates has such rows in any split, and the
weights tell nothing of them that the training does not see anyway.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from etude.data.seen import Rows, Seen
from etude.data.sketch import Sketch

if TYPE_CHECKING:
    from etude.data.hashes import Hashes

MOST: Final = 0.01
"""The share of rows above which weights are refused."""

DOUBT: Final = 0.01
"""Where a sample tells the share, the chance of refusing weights that have seen just ``MOST``, at most."""


class Finding(NamedTuple):
    """What was found.

    Attributes:
        refusal: Why the weights cannot be used; empty if they can.
        notes: What should be told all the same.
    """

    refusal: str = ""
    notes: tuple[str, ...] = ()


class Overlap(NamedTuple):
    """How many rows of a part are known, of those that could be looked for.

    Attributes:
        known: So many are.
        of: Of so many.
        rows: How many there are in the part.
    """

    known: int
    of: int
    rows: int

    @property
    def share(self) -> float:
        """Which share that is."""
        return self.known / self.of

    @property
    def is_leak(self) -> bool:
        """Whether the share is above ``MOST``: of a sample, beyond doubt."""
        if self.of == self.rows:
            return self.share > MOST
        return self.share > MOST and tail(self.known, self.of, MOST) < DOUBT


def overlap(part: Hashes, seen: Sketch, *, own: Hashes) -> Overlap:
    """Return how many rows of a part were seen.

    Args:
        part: The rows of the part, ascending.
        seen: What was seen.
        own: Rows that count for nothing, ascending.
    """
    import numpy as np

    looked = part[part <= np.uint64(seen.upto)]
    known = np.isin(looked, np.array(seen.least, dtype=np.uint64)) & ~np.isin(looked, own)
    return Overlap(int(known.sum()), len(looked), len(part))


def tail(known: int, of: int, share: float) -> float:
    """Return the probability of so many or more successes in ``of`` draws, each with probability ``share``.

    Example:
        >>> round(tail(2, 2, 0.5), 3), round(tail(1, 2, 0.5), 3)
        (0.25, 0.75)
    """

    def log_choose(k: int) -> float:
        return math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1)

    less = sum(math.exp(log_choose(k) + k * math.log(share) + (of - k) * math.log1p(-share)) for k in range(known))
    return max(0.0, 1.0 - less)


def judge(rows: Rows, seen: Seen, *, name: str) -> Finding:
    """Say whether a training on data may begin with weights.

    Args:
        rows: Of the parts of the data; the two that are to be joined, joined.
        seen: What the weights have seen.
        name: What they are called.
    """
    if not rows.named:
        return Finding(notes=(cannot_tell(name, "data() gives no etude.Data, so nothing tells what it is judged by"),))
    if rows.parts.keys() <= {"train"}:
        return Finding()
    notes = [cannot_tell(name, f"where they are from, {why}") for why in seen.unknown]
    both = seen.trained | seen.chosen if seen.trained and seen.chosen else seen.trained or seen.chosen
    known = {"valid": seen.trained, "test": both}
    own: list[Hashes] = []
    for part, there in rows.parts.items():
        if isinstance(there, str):
            notes += [cannot_tell(name, f"here, {there}")] if part != "train" else []
            continue
        sketch = known.get(part)
        told = _told(part, overlap(there, sketch, own=_together(own)), name) if sketch is not None else Finding()
        if told.refusal:
            return told
        notes += told.notes
        own.append(there)
    return Finding(notes=tuple(notes))


def cannot_tell(name: str, why: str) -> str:
    """Return the note that nobody knows."""
    return f"Whether {name} saw rows that this training validates or tests on cannot be told: {why}."


def _told(part: str, overlap: Overlap, name: str) -> Finding:
    if not overlap.of:
        if not overlap.rows:
            return Finding()
        return Finding(notes=(cannot_tell(name, f"the {overlap.rows} rows of {part} are too few beside those it saw"),))
    if not overlap.known:
        return Finding()
    percent = 100 * overlap.share
    share = f"{'' if overlap.of == overlap.rows else 'About '}{percent:.{0 if percent >= 10 else 1}f} %"  # noqa: PLR2004
    did = "to train" if part == "valid" else "to train or to choose"
    fact = f"{share} of the {overlap.rows:,} different rows of {part} were used {did} {name}, or what it grew from"
    if not overlap.is_leak:
        return Finding(notes=(f"{fact}; up to {100 * MOST:g} % is let pass.",))
    return Finding(
        f"{fact}: what is measured on them would be too good. Give this training the split that those had: the seed of "
        "that trial, if the split hangs on the seed, or better one that does not. Or begin with weights='random'."
    )


def _together(parts: list[Hashes]) -> Hashes:
    import numpy as np

    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)
