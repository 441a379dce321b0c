"""What parameters begin with: others where what goes has shifted the generator, and yet drawn in the same way."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from etude.mage.facts import ParameterFacts
from etude.mage.judge.comparing import listed, shown
from etude.mage.judge.findings import Finding, fails, for_a_person
from etude.mage.judge.licence import Licence
from etude.mage.judge.tables import Pair

CLAIM: Final = "all that stays begins as it did"
Moments = tuple[float, float]
"""Mean and standard deviation."""
FAR: Final = 8.0
"""So many standard errors apart, two samples of one distribution lie never, though its tails be heavy."""
FEW: Final = 64
"""Of fewer numbers, mean and deviation lie farther apart by chance than standard errors say."""
RARE: Final = 1e-9
"""So seldom two samples of a normal distribution lie as far apart as those that are told, however few their numbers."""
LOOKED_AT: Final = 100_000
"""Of a larger tensor the probe looks at about half as many numbers, or more."""


def beginning(pair: Pair, licence: Licence, *, repeats: bool = True) -> Iterator[Finding]:
    """Yield what does not begin as in the baseline, beside what a claim is about.

    Args:
        pair: The model.
        licence: What may differ.
        repeats: Whether the baseline begins with the same numbers each time.
    """
    if repeats and not licence.draws:
        yield from _drawn_anew(pair, licence)
    constant: dict[str, Moments] = {}
    others: dict[str, tuple[Moments, Moments]] = {}
    for name, row in pair.base.parameters.items():
        there = pair.variant.parameters.get(name)
        if there is None or licence.is_about(name) or (row.digest and row.digest == there.digest):
            continue
        before, after = row.begins, there.begins
        if before is None or after is None:
            continue
        if before[1] and not after[1]:
            constant[name] = after
        elif row.shape == there.shape and _are_apart(before, after, math.prod(row.shape)):
            others[name] = before, after
    if constant:
        value = f"{next(iter(constant.values()))[0]:.4g} everywhere"
        yield _weigh(licence)(
            f"{listed(constant)} {_begins(constant)} with {value}, and with numbers that were drawn in the baseline: "
            "no claim says so.",
            claim=CLAIM,
            expected="numbers that were drawn",
            found=value,
        )
    if others:
        first, (one, other) = next(iter(others.items()))
        yield for_a_person(
            f"{listed(others)} {_begins(others)} with numbers that were drawn in another way than in the baseline "
            f"(`{first}` has mean {other[0]:.4g} and deviation {other[1]:.4g}, {one[0]:.4g} and {one[1]:.4g} in the "
            "baseline). It may follow from the number of layers, or be another first state.",
            claim=CLAIM,
            expected=shown(one),
            found=shown(other),
        )


def _drawn_anew(pair: Pair, licence: Licence) -> Iterator[Finding]:
    """Yield what begins with other numbers, though no claim says that something goes that draws any before it is made.

    A function that is not called any more may have drawn some, or not.
    """
    anew = [
        name
        for name, row in pair.base.parameters.items()
        if not licence.is_about(name) and _are_known_and_others(row, pair.variant.parameters.get(name))
    ]
    if anew:
        may_draw = licence.may_reach_the_start
        why = "" if may_draw else ", and no claim says that something goes that draws any before"
        cause = "follow from what is not called any more, " if may_draw else ""
        yield for_a_person(
            f"{listed(anew)} {_begins(anew)} with other numbers than in the baseline{why}: it may {cause}be made "
            "before the seed is set, or be another first state.",
            claim=CLAIM,
            expected="the same numbers with the same seed",
            found="other numbers",
        )


def beginning_with_another_seed(seeds: Sequence[tuple[Pair, Pair]], licence: Licence) -> Iterator[Finding]:
    """Yield what begins alike with two seeds, and did not in the baseline: it is made before the seed is set.

    Or it follows from the claim: without the setting, or the function, that drew it anew it begins as it was loaded.

    Args:
        seeds: Each model with the first seed and with the other one.
        licence: What may differ.
    """
    fixed = [
        name
        for one, other in seeds
        for name, row in one.variant.parameters.items()
        if not licence.is_about(name)
        and _are_known_and_alike(row, other.variant.parameters.get(name))
        and _are_known_and_others(one.base.parameters.get(name), other.base.parameters.get(name))
        and (row.begins is None or row.begins[1])  # of a constant it was said that it is one
    ]
    if fixed:
        it = "it" if len(fixed) == 1 else "them"
        yield _weigh(licence)(
            f"{listed(fixed)} {_begins(fixed)} alike with both seeds, and otherwise in the baseline: the seed does not "
            f"reach {it} any more.",
            claim=CLAIM,
            expected="other numbers with another seed",
            found="the same numbers",
        )


def set_by_hand(seeds: Sequence[tuple[Pair, Pair]], licence: Licence) -> Iterator[Finding]:
    """Yield what begins with other values, though no seed changes those of the baseline.

    They are set or loaded, and no layer that goes can have shifted them, whatever it draws; or they are drawn with a
    seed of their own, and only a person can tell. Where nothing that goes draws, it is told already.

    Args:
        seeds: Each model with the first seed and with the other one.
        licence: What may differ.
    """
    if not licence.draws:
        return
    others: dict[str, tuple[ParameterFacts, ParameterFacts]] = {}
    for one, other in seeds:
        for name, row in one.base.parameters.items():
            now = one.variant.parameters.get(name)
            if now is None or licence.is_about(name) or now.shape != row.shape:
                continue
            if _are_known_and_alike(row, other.base.parameters.get(name)) and _are_known_and_others(row, now):
                others[name] = row, now
    if others:
        row, now = next(iter(others.values()))
        yield for_a_person(
            f"{listed(others)} {_begins(others)} with other values than in the baseline, where no seed changes them: "
            "they are set, loaded, or drawn with a seed of their own, and no claim says that they change.",
            claim=CLAIM,
            expected=shown(row.begins or row.digest),
            found=shown(now.begins or now.digest),
        )


def _weigh(licence: Licence) -> Callable[..., Finding]:
    """Return what a first state comes to that no seed reaches: it may follow from the claim, or be hidden behind it."""
    return for_a_person if licence.settings or licence.may_reach_the_start else fails


def _are_known_and_alike(one: ParameterFacts | None, other: ParameterFacts | None) -> bool:
    return one is not None and other is not None and bool(one.digest) and one.digest == other.digest


def _are_known_and_others(one: ParameterFacts | None, other: ParameterFacts | None) -> bool:
    return one is not None and other is not None and "" not in (one.digest, other.digest) and one.digest != other.digest


def _begins(names: Collection[str]) -> str:
    return "begins" if len(names) == 1 else "begin"


def _are_apart(before: Moments, after: Moments, size: int) -> bool:
    (one, spread), (other, its_spread) = before, after
    if not spread:
        return size > 1 and (bool(its_spread) or one != other)  # one number is its own mean, drawn or not
    number = size if size <= LOOKED_AT else LOOKED_AT // 2
    error = FAR / math.sqrt(number)
    wider, farther = abs(math.log(its_spread / spread)), abs(other - one) / math.hypot(spread, its_spread)
    if number >= FEW:
        return wider > error or farther > error
    return (wider > error and _of_deviations(math.exp(wider), number) < RARE) or (
        farther > error and _of_means(farther * math.sqrt(number - 1), number) < RARE
    )


def _of_means(t: float, number: int) -> float:
    """Return, from above, how often the means of two samples of so many numbers lie ``t`` errors apart or farther.

    By Student's t of ``2 (number - 1)`` degrees of freedom, whose tail is bounded as Mills bounds that of the normal.
    """
    free = 2 * (number - 1)
    density = math.exp(math.lgamma((free + 1) / 2) - math.lgamma(free / 2)) / math.sqrt(free * math.pi)
    return 2 * density * free / ((free - 1) * t) * math.pow(1 + t * t / free, -(free - 1) / 2)


def _of_deviations(ratio: float, number: int) -> float:
    """Return, from above, how often the deviations of two samples of so many numbers have that ratio, or a larger one.

    By F, that is by the incomplete beta function, whose integrand is largest at one end.
    """
    half = (number - 1) / 2
    share = 1 / (1 + ratio * ratio)
    beta = math.exp(2 * math.lgamma(half) - math.lgamma(2 * half))
    return 2 * math.pow(share, half) / (half * beta) * max(1.0, math.pow(1 - share, half - 1))
