"""Whether arms that were trained with the same seed are pairs: they begin with the same weights, and see the same data.

It goes by fingerprints that were taken where the arms ran.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from etude.core.text import count

NO_SEEDS = (
    "The base begins with the same weights and batches under the seeds {seeds}, and comes to the same value, so its "
    "seeds are none: the functions seed generators themselves. Let them draw from Étude's streams, or pass seed=seed, "
    "which every function may ask for; else each arm would be one run, counted many times."
)

NOTHING_VARIES = (
    "Nothing varies with the seed: {arms} came to the same value under {seeds} seeds, each to its own, so that each "
    "would be one run, counted many times. If nothing is drawn at random, let something be: pass seed=seed on to the "
    "model (random_state=seed), or let the data function draw other rows for each seed (a bootstrap), or take the "
    "folds of a cross-validation, folds=5, seeds=1. If something is, the metric is too coarse to show it: take "
    "another one, such as the loss."
)

ALIKE: Final = 4
"""So many trials that repeat an earlier one of their arm, and none that differs, are no chance: of a metric on few
examples two runs in a row are the same now and then."""


class Pairing(NamedTuple):
    """How an arm's trial compares with that of the base.

    Attributes:
        shared: How many parameters both have.
        unlike: Those of them that began with other values.
        batches: Whether their first batches were the same; None if nobody knows.
    """

    shared: int
    unlike: tuple[str, ...]
    batches: bool | None

    @property
    def is_pair(self) -> bool:
        """Whether nothing differs that could be the same."""
        return not self.unlike and self.batches is not False

    @property
    def is_known(self) -> bool:
        """Whether there was anything to compare."""
        return self.shared > 0 or self.batches is not None

    def __str__(self) -> str:
        if not self.is_known:
            return "not known whether paired: nothing was seen of how both began"
        if self.is_pair:
            alike = f"{count(self.shared, 'parameter')} in common begin alike"
            return f"paired: {alike if self.shared else 'the first data is the same'}"
        parts = []
        if self.unlike:
            more = f" and {len(self.unlike) - 3} more" if len(self.unlike) > 3 else ""  # noqa: PLR2004
            parts.append(f"{', '.join(self.unlike[:3])}{more} begin with other values")
        if self.batches is False:
            parts.append("the first batches are other ones")
        return f"not paired: {'; '.join(parts)}"


def compare(base: Mapping[str, Any], arm: Mapping[str, Any], *, data_differ: bool = False) -> Pairing:
    """Compare the fingerprints of an arm with those of the base.

    Args:
        base: Those of the base.
        arm: Those of the arm.
        data_differ: Whether the arm has other features, so that batches cannot be the same in all. Then they are
            the same if something in them is, such as the labels; if nothing is, nobody knows.
    """
    here, there = base.get("weights", {}), arm.get("weights", {})
    shared = [name for name in here if name in there]
    unlike = tuple(name for name in shared if here[name] != there[name])
    return Pairing(len(shared), unlike, _same_batches(base, arm, data_differ=data_differ))


def _same_batches(base: Mapping[str, Any], arm: Mapping[str, Any], *, data_differ: bool) -> bool | None:
    of = "batches" if "batches" in base else "data"  # the data itself, where no loader gives batches
    if of not in base or of not in arm:
        return None
    if not data_differ:
        return bool(base[of] == arm[of])
    here, there = base.get("tensors", {}), arm.get("tensors", {})
    return True if any(there.get(where) == print_ for where, print_ in here.items()) else None


def paired_all(pairs: Collection[Pairing]) -> bool | None:
    """Say of several pairs whether all are; None if that is not known of one, and none is known to be no pair."""
    if not all(one.is_pair for one in pairs):
        return False
    return True if pairs and all(one.is_known for one in pairs) else None


def are_seeds_none(prints: Sequence[Mapping[str, Any]], values: Sequence[float]) -> bool:
    """Say whether trials of the base under several seeds were all the same run, by how they began and how they ended.

    Data alone says nothing of seeds: it may well be the same under all of them.
    """
    several = len(prints) > 1 and all(one.get("weights") or "batches" in one for one in prints)
    return several and all(one == prints[0] for one in prints) and is_constant(values)


def varies_nowhere(runs: Collection[Sequence[float]]) -> bool:
    """Say whether seeds make no difference at all, by the values of each arm under several of them."""
    return sum(len(values) - 1 for values in runs if values) >= ALIKE and all(map(is_constant, runs))


def is_constant(values: Sequence[float]) -> bool:
    """Say whether all values are the same; of none that is true as well."""
    return all(value == values[0] for value in values)
