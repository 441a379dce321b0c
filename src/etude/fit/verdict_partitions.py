"""Whether a partition does anything: its runs against runs without one, and against random subsets, seed by seed.

Each partition makes a claim against each of the two, and all claims of one number are corrected together. A partition
is what its weaker claim is: to have won it has to be better than both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from statistics import fmean, median
from typing import Any, Final

from etude.analyse.chance import Best, best_of
from etude.analyse.corrections import holm
from etude.analyse.flips import EXACT, least_flip_p
from etude.analyse.paired import Paired, corrected, deviation, paired, same, smallest_seen, told
from etude.core.errors import ConfigError
from etude.core.metrics import Mode
from etude.core.text import count

REFERENCES: Final = 2
"""How many arms all others are compared with: they come first."""


LEVEL: Final = 0.05
"""How often one of all claims may be made of nothing, unless it is said otherwise."""


class Verdict(Enum):
    """What can be said of a partition, from the weakest to the strongest."""

    LOST = "lost"
    UNKNOWN = "unknown"
    SAME = "the same"
    WON = "won"


@dataclass(frozen=True)
class Arm:
    """The runs with one partition.

    Attributes:
        name: What it is called.
        values: The metric that its runs came to, seed by seed.
        accuracy: Accuracy on untouched data, seed by seed; empty if it is not known of all runs.
        worst: The accuracy of the worst class there.
        imbalance: How far the classes of a rank were from those of the data, at worst (``importance.balance``); NaN if
            that is not known.
        repartitions: How often examples were assigned, the mean over its runs.
        moved_b: Bytes that ranks had to fetch, the mean over its runs; NaN if that is not known.
    """

    name: str
    values: tuple[float, ...]
    accuracy: tuple[float, ...] = ()
    worst: tuple[float, ...] = ()
    imbalance: float = math.nan
    repartitions: float = 0.0
    moved_b: float = 0.0


@dataclass(frozen=True)
class Claim:
    """A partition against a reference.

    Attributes:
        arm: The partition.
        against: The reference.
        pairs: How far it is from that.
        p_same: Of the claim that it differs by less than the margin, corrected for all claims; NaN without a margin.
        seen: The smallest true difference that would be found four times in five, corrected for all claims; NaN if
            runs came to no number.
        verdict: What it comes to.
    """

    arm: str
    against: str
    pairs: Paired
    p_same: float
    seen: float
    verdict: Verdict


@dataclass(frozen=True)
class PartitionComparison:
    """What came of several partitions: print it.

    Attributes:
        metric: What was measured; as the runs returned it, or reported it last.
        mode: Whether more of it is better.
        ranks: How many trained each run.
        arms: The runs without a partition, those with random subsets, and those with each partition.
        claims: Each partition against each of these two, by the metric.
        untouched: The same by the accuracy on untouched data, corrected by itself; empty where that is not known, or is
            the metric.
        worst: The same by the accuracy of the worst class there, corrected by itself; empty where that is not known.
        verdicts: What each partition comes to.
        best: How far the best partition is ahead of none, and how far chance would bring it; None if runs came to no
            number.
        margin: A difference in the metric that would not matter; None if that was not said.
        level: Of all claims together: how often one of them would be made of nothing.
        notes: What else is to be known.
        fit: The study that ran them.
    """

    metric: str
    mode: Mode
    ranks: int
    arms: tuple[Arm, ...]
    claims: tuple[Claim, ...]
    untouched: tuple[Claim, ...]
    worst: tuple[Claim, ...]
    verdicts: Mapping[str, Verdict]
    best: Best | None
    margin: float | None = None
    level: float = LEVEL
    notes: tuple[str, ...] = ()
    fit: Any = field(default=None, repr=False)

    @property
    def won(self) -> tuple[str, ...]:
        """The partitions that are better than both references."""
        return tuple(name for name, verdict in self.verdicts.items() if verdict is Verdict.WON)

    def __str__(self) -> str:
        """Return it as lines of text; the first says whether anything won."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        none, subsets = (arm.name for arm in self.arms[:REFERENCES])
        seeds = f"{self.metric}, {count(len(self.arms[0].values), 'seed')}, {count(self.ranks, 'rank')}"
        seeds += f", level {self.level:g}" if self.level != LEVEL else ""
        if self.won:
            yield f"{' and '.join(self.won)} won: better than {none} and than {subsets} ({seeds})."
        else:
            what = "the partition is not" if len(self.verdicts) == 1 else f"none of {len(self.verdicts)} partitions is"
            yield f"Nothing won: {what} better than both {none} and {subsets} ({seeds})."
        yield f"Mean {self.metric}:"
        yield from self._table(self.claims, [arm.values for arm in self.arms])
        seen = [claim.seen for claim in self.claims if math.isfinite(claim.seen)]
        if seen:
            yield (
                f"A true difference of {median(seen):.3g} would have been found four times in five; smaller ones may "
                "have been missed."
            )
        if self.best is not None and len(self.verdicts) > 1:
            yield (
                f"The best of {len(self.verdicts)} partitions is ahead of {none} by {self.best.gain:.3g}; the best of "
                f"equal ones would be by {self.best.by_chance:.3g} (p = {self.best.p:.3g})."
            )
        if self.untouched:
            yield "Mean accuracy on untouched data:"
            yield from self._table(self.untouched, [arm.accuracy for arm in self.arms])
        if self.worst:
            yield "Mean accuracy of the worst class:"
            yield from self._table(self.worst, [arm.worst for arm in self.arms])
        yield from self._beside()
        yield from self.notes

    def _table(self, claims: Sequence[Claim], values: Sequence[Sequence[float]]) -> Iterator[str]:
        found = verdicts(claims)
        for arm, mine in zip(self.arms, values, strict=True):
            yield f"  {fmean(mine):.4g}  {arm.name}" + (f": {found[arm.name].value}" if arm.name in found else "")
            for claim in claims:
                if claim.arm == arm.name:
                    within = f", {claim.p_same:.3g} for the same" if math.isfinite(claim.p_same) else ""
                    yield f"    {told(claim.pairs)}{within}, against {claim.against}: {claim.verdict.value}"

    def _beside(self) -> Iterator[str]:
        """Yield what stands beside the mean, a line for each arm."""
        yield "On untouched data, and what it took:"
        for arm in self.arms:
            known = f"accuracy {fmean(arm.accuracy):.4g}, worst class {fmean(arm.worst):.4g}" if arm.accuracy else ""
            classes = f"classes of a rank off by {arm.imbalance:.1%}" if math.isfinite(arm.imbalance) else ""
            assigned = f"{arm.repartitions:g} assignment{'s' * (arm.repartitions != 1)}"
            bulk = f", {arm.moved_b / 2**20:.3g} MB moved" if math.isfinite(arm.moved_b) else ""
            moved = assigned + bulk if arm.repartitions else ""
            yield f"  {arm.name}: {'; '.join(part for part in (known, classes, moved) if part) or 'not known'}"


def judge(arms: Sequence[Arm], *, mode: Mode, margin: float | None, level: float) -> list[Claim]:
    """Return what each partition's runs show against each reference.

    Args:
        arms: The two references, and the partitions; as many values for each, in the order of the same seeds.
        mode: Whether more of the metric is better.
        margin: A difference that would not matter; None if that was not said.
        level: Of all claims together.

    Raises:
        ConfigError: scipy is missing.
    """
    pairs = [(arm, reference) for arm in arms[REFERENCES:] for reference in arms[:REFERENCES]]
    found = corrected([paired(arm.values, reference.values) for arm, reference in pairs])
    alike = [math.nan] * len(pairs)
    if margin is not None:
        alike = holm([same(arm.values, reference.values, margin=margin) for arm, reference in pairs])
    claims = []
    for (arm, reference), difference, p_same in zip(pairs, found, alike, strict=True):
        gain = difference.difference if mode == "max" else -difference.difference
        if p_same <= level:  # also if it is certain that there is a difference: it would not matter
            verdict = Verdict.SAME
        elif difference.p_holm <= level:
            verdict = Verdict.WON if gain > 0 else Verdict.LOST
        else:
            verdict = Verdict.UNKNOWN
        spread = deviation(arm.values, reference.values) if math.isfinite(difference.difference) else math.nan
        seen = math.nan
        if math.isfinite(spread) and len(arm.values) > 1:
            seen = smallest_seen(spread, pairs=len(arm.values), level=level / len(pairs))
        claims.append(Claim(arm.name, reference.name, difference, p_same, seen, verdict))
    return claims


def beside(arms: Sequence[Arm], *, level: float) -> tuple[list[Claim], list[Claim]]:
    """Return the claims by the accuracy on untouched data, unless that is the metric, and by that of the worst class.

    Each are corrected by themselves; empty where the accuracy is not known of all.
    """
    if not all(arm.accuracy for arm in arms):
        return [], []
    is_metric = any(
        all(math.isclose(value, scale * share) for a in arms for value, share in zip(a.values, a.accuracy, strict=True))
        for scale in (1.0, 100.0)
    )
    overall = [] if is_metric else [replace(arm, values=arm.accuracy) for arm in arms]
    return (
        judge(overall, mode="max", margin=None, level=level),
        judge([replace(arm, values=arm.worst) for arm in arms], mode="max", margin=None, level=level),
    )


def verdicts(claims: Sequence[Claim]) -> dict[str, Verdict]:
    """Return what each partition comes to: its weakest claim."""
    order = list(Verdict)
    found: dict[str, Verdict] = {}
    for claim in claims:
        found[claim.arm] = min(found.get(claim.arm, Verdict.WON), claim.verdict, key=order.index)
    return found


def lead(arms: Sequence[Arm], *, mode: Mode) -> Best | None:
    """Return how far the best partition is ahead of none, and how far chance would bring it."""
    sign = 1.0 if mode == "max" else -1.0
    rows = [[sign * value for value in arm.values] for arm in (arms[0], *arms[REFERENCES:])]
    return best_of(rows) if all(map(math.isfinite, (value for row in rows for value in row))) else None


def check_seeds(seeds: int, *, partitions: int, level: float) -> None:
    """Refuse so few seeds that whatever comes out, nothing could be called better.

    Raises:
        ConfigError: They are so few, or partitions are too many for any number of seeds.
    """
    claims, least = REFERENCES * partitions, least_flip_p(seeds)
    if claims * least <= level:
        return
    needed = next((n for n in range(2, 64) if claims * least_flip_p(n) <= level), None)
    if needed is None:
        raise ConfigError(
            f"partitions= has {partitions}, so {claims} claims are made at once, and no number of seeds could tell any "
            f"of them from chance at level={level:g}. Pass fewer partitions."
        )
    counted = f" to {EXACT}, with which all ways to swap pairs are counted" if seeds > EXACT else " or more"
    raise ConfigError(
        f"seeds={seeds} can show nothing: {count(partitions, 'partition')} against {REFERENCES} references are "
        f"{claims} claims, and with {count(seeds, 'pair')} no p-value is below {least:.3g}, corrected for all "
        f"{min(1.0, claims * least):.3g}. Pass seeds={needed}{counted}."
    )
