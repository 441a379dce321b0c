"""Verdicts: what can be said of each component, and what cannot.

Each arm is compared with the base. Two claims are tested: that they differ, and, if it was said how much matters, that
they do not. Each family of claims is corrected by itself, by Holm.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, overload

import numpy as np

from etude.analyse.arms import Beside, beside, check_margin, read_arms
from etude.analyse.better import NOTHING, better
from etude.analyse.corrections import holm
from etude.analyse.power import check_level, least_corrected, least_seeds, seeds_for, seeds_for_same
from etude.analyse.table import as_html, as_text
from etude.analyse.tests import CorrectedT, SignedRanks, SignFlips, Test, WelchDealt, interval, same_p
from etude.analyse.verdict import Verdict, Word
from etude.core.errors import ConfigError
from etude.core.numbers import whole
from etude.core.text import brief, count

ASKED: Final[Mapping[str, Test]] = {"sign flips": SignFlips(), "signed ranks": SignedRanks(), "t": CorrectedT()}
"""Tests of pairs that may be asked for."""

NOT_KNOWN: Final = (
    "not known whether these are pairs: tested as pairs by their seeds, which is right for independent runs, too, and "
    "finds less among these"
)


class Verdicts(Sequence[Verdict]):
    """Verdicts on all components: a list, found by place or by name, that prints as a table.

    Attributes:
        base: What the arms are compared with.
        level: How often one claim or more of a family may be wrong.
        margin: How much matters, in the metric's unit; None if that was not said.
        says: What is to be said of all of them, first of all what should be read first.
    """

    def __init__(
        self, found: Sequence[Verdict], *, base: str, level: float, margin: float | None, says: Sequence[str]
    ) -> None:
        self._found = tuple(found)
        self.base, self.level, self.margin, self.says = base, level, margin, tuple(says)

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, key: int | str) -> Verdict: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Verdict]: ...
    def __getitem__(self, key: int | str | slice) -> Verdict | Sequence[Verdict]:
        if not isinstance(key, str):
            return self._found[key]
        for one in self._found:
            if one.component == key:
                return one
        raise KeyError(f"{key!r} has no verdict. These have: {', '.join(repr(one.component) for one in self._found)}.")

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self._found)

    def of(self, verdict: str) -> list[str]:
        """Return the components with a verdict.

        Args:
            verdict: ``"matters"``, ``"does not matter"``, ``"hurts"`` or ``"undecided"``.
        """
        return [one.component for one in self._found if one.verdict == verdict]

    def __str__(self) -> str:
        return as_text(self._found, base=self.base, level=self.level, margin=self.margin, says=self.says)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self._found, base=self.base, level=self.level, margin=self.margin, says=self.says)


def verdicts(
    arms: Mapping[str, Any],
    *,
    base: str | None = None,
    mode: Literal["max", "min"] = "max",
    paired: bool | Mapping[str, bool | None] = True,
    margin: float | None = None,
    level: float = 0.05,
    test: Literal["sign flips", "signed ranks", "t"] | None = None,
    folds: int | None = None,
    says: Sequence[str] = (),
) -> Verdicts:
    """Say of each arm whether it differs from the base, on plain numbers; docs/verdicts.md has the rule.

    Args:
        arms: Name -> the metric of each run: a list, or a mapping of seeds to values. NaN and None stand for runs that
            came to no number.
        base: The arm that the others are compared with; the first one if left out.
        mode: ``"max"`` if larger is better, ``"min"`` if smaller is.
        paired: Whether runs with the same seed, or in the same place of their lists, are pairs; for each arm, if some
            are not. None says that it is not known: they are tested as pairs, which holds for independent runs too.
        margin: How small a difference does not matter, in the metric's unit, fixed before the runs are seen. Without it
            nothing can be found not to matter.
        level: How often one claim or more may be wrong, of all claims together.
        test: The test of pairs, if it is to be another one than the rule's; to be chosen before the runs are seen.
        folds: Of runs that are the folds of a cross-validation, repeated or not: how many folds. Their training parts
            overlap, which the test allows for.
        says: What is to be said first.

    Returns:
        The verdicts: print them.

    Raises:
        ConfigError: The arms cannot be read, or scipy is missing.

    Example:
        >>> found = verdicts({"base": [3, 5, 4, 6, 5, 4, 5], "conv2": [1, 2, 2, 3, 1, 2, 1]})
        >>> found["conv2"].verdict, found["conv2"].p
        (<Word.MATTERS: 'matters'>, 0.015625)
    """
    check_level(level)
    name, runs = read_arms(arms, base)
    if mode not in ("max", "min"):
        raise ConfigError(f"mode={brief(mode)} is no direction. Pass 'max' if larger is better, 'min' if smaller is.")
    check_margin(margin)
    of_pairs = _test(test, folds)
    sign = 1.0 if mode == "max" else -1.0
    others = [arm for arm in runs if arm != name]
    pairs = {arm: paired if isinstance(paired, bool) else paired.get(arm, True) for arm in others}
    sides = {arm: beside(runs[name], runs[arm], sign=sign, paired=pairs[arm] is not False) for arm in others}
    raw = [_compare(arm, side, of_pairs, margin=margin, level=level) for arm, side in sides.items()]
    corrected = holm([one.p for one in raw])
    same = holm([one.p_same for one in raw]) if margin is not None else [math.nan] * len(raw)
    found = [
        _judge(dataclasses.replace(one, p_corrected=p, p_same_corrected=q), sides[one.component], level=level)
        for one, p, q in zip(raw, corrected, same, strict=True)
    ]
    found = [
        one if pairs[one.component] is not None else dataclasses.replace(one, says=(*one.says, NOT_KNOWN))
        for one in found
    ]
    tests = {arm: of_pairs if side.paired else WelchDealt() for arm, side in sides.items()}
    told = [
        _told(one, sides[one.component], tests[one.component], claims=len(found), margin=margin, level=level)
        for one in found
    ]
    return Verdicts(
        told, base=name, level=level, margin=margin, says=[*says, *_first_of_all(name, told, tests, level=level)]
    )


def _test(asked: str | None, folds: int | None) -> Test:
    if asked is not None and asked not in ASKED:
        raise ConfigError(
            f"test={brief(asked)} is not known. Pass one of {', '.join(map(repr, ASKED))}, or leave it out."
        )
    if folds is None:
        return ASKED[asked] if asked is not None else SignFlips()
    if asked not in (None, "t"):
        raise ConfigError(
            f"test={asked!r} takes runs for independent, and with folds={folds} their training parts overlap. "
            "Leave test= out, for the corrected t-test."
        )
    return CorrectedT(1 / (whole("folds", folds, 2, "one fold is no cross-validation") - 1))


def _compare(arm: str, side: Beside, of_pairs: Test, *, margin: float | None, level: float) -> Verdict:
    """Return what is found of an arm by itself."""
    test: Test = of_pairs if side.paired else WelchDealt()
    base, other = np.array(side.base), np.array(side.arm)
    known = min(len(base), len(other)) > 0
    effect = float(base.mean() - other.mean()) if known else math.nan
    enough = side.n > 1
    low, high = interval(test, base, other, level=level) if enough else (-math.inf, math.inf)
    same = math.nan if margin is None else same_p(test, base, other, margin=margin) if enough else 1.0
    return Verdict(
        component=arm,
        effect=effect,
        low=low,
        high=high,
        p=test.p(base, other) if enough else 1.0,
        p_corrected=1.0,
        better=better(base, other, paired=side.paired, level=level) if known else NOTHING,
        standardised=_standardised(base, other, paired=side.paired) if enough else math.nan,
        test=test.name,
        verdict=Word.UNDECIDED,
        seeds_needed=None,
        n=side.n,
        missing=side.missing,
        p_same=same,
        says=side.says,
    )


def _standardised(base: Any, arm: Any, *, paired: bool) -> float:
    off = float(base.mean() - arm.mean())
    spread = float((base - arm).std(ddof=1)) if paired else math.sqrt((base.var(ddof=1) + arm.var(ddof=1)) / 2)
    if spread <= 1e-12 * max(1.0, abs(off)):  # rounding
        return math.copysign(math.inf, off) if off else 0.0
    return off / spread


def _judge(one: Verdict, side: Beside, *, level: float) -> Verdict:
    """Return it with its verdict: what is surely smaller than what matters does not matter, however sure it is.

    Runs that do not vary at all decide nothing, whatever a test makes of their number.
    """
    if not side.varies:
        return one
    if one.p_same_corrected <= level:
        return dataclasses.replace(one, verdict=Word.SAME)
    if one.p_corrected <= level:
        return dataclasses.replace(one, verdict=Word.MATTERS if one.effect > 0 else Word.HURTS)
    return one


def _told(one: Verdict, side: Beside, test: Test, *, claims: int, margin: float | None, level: float) -> Verdict:
    """Return it with the seeds that would decide it, and with what is to be said."""
    says = list(one.says)
    if one.n == 0:
        says.append("no run of one of the two arms came to a number: nothing can be said")
    elif one.n == 1:
        says.append("one run says nothing of how much runs differ: no test and no interval")
    elif not side.varies:
        same = "all runs are those of the base: what is taken away may not be in use, or " if one.effect == 0 else ""
        says.append(f"{same or 'no run differs from others of its arm: '}the seeds are none, so this is one run")
    elif one.standardised in (math.inf, -math.inf, 0.0) and one.effect == 0:
        says.append("all runs are those of the base: what is taken away may not be in use, or the seeds are none")
    elif math.isinf(one.standardised):
        says.append("the difference is the same with every seed: the seeds may be none")
    if one.n > 1 and math.isinf(one.low):
        says.append(f"{count(one.n, 'run')} are too few for an interval at {1 - level:.0%}")
    is_open = one.verdict is Word.UNDECIDED and (side.varies or one.n < 2)  # noqa: PLR2004
    needed = _needed(one, test, claims=claims, margin=margin, level=level) if is_open else None
    if is_open and needed is None and one.n > 1:
        wide = margin is not None and abs(one.effect) < margin
        if margin is None:
            says.append(
                "no number of seeds shows that there is no effect: say with margin= how small a one does not matter"
            )
        elif not wide:
            says.append("the effect is about as large as the margin")
    return dataclasses.replace(one, seeds_needed=needed, says=tuple(says))


def _needed(one: Verdict, test: Test, *, claims: int, margin: float | None, level: float) -> int | None:
    if one.n < 2:  # noqa: PLR2004
        return least_seeds(claims=claims, level=level, test=test)
    if not math.isfinite(one.standardised) or one.standardised == 0:
        spread = None
        ways: list[int | None] = [least_seeds(claims=claims, level=level, test=test)] if one.effect else []
    else:
        spread = abs(one.effect / one.standardised)
        ways = [seeds_for(effect=one.standardised, claims=claims, level=level, test=test)]
    if margin is not None and spread:
        effect, reach = one.effect / spread, margin / spread
        ways.append(seeds_for_same(effect=effect, margin=reach, claims=claims, level=level, test=test))
    possible = [max(n, one.n + 1) for n in ways if n is not None]
    return min(possible, default=None)


def _first_of_all(base: str, found: Sequence[Verdict], tests: Mapping[str, Test], *, level: float) -> list[str]:
    """Return what stands above the table: above all, that nothing could be found."""
    if not found:
        return [f"There is no arm beside {base!r}: nothing to compare it with."]
    claims, says = len(found), []
    least = {one.component: least_corrected(one.n, claims=claims, test=tests[one.component]) for one in found}
    if all(p > level for p in least.values()):
        test = next(iter(tests.values()))
        needed = least_seeds(claims=claims, level=level, test=test)
        runs = max(one.n for one in found)
        says.append(
            f"Nothing can be decided: with {count(runs, 'pair' if test.pairs else 'run')} no p-value can be below "
            f"{min(least.values()):.3g}, corrected for {count(claims, 'component')}, and the level is {level:g}. "
            f"It takes {needed} seeds or more."
        )
    return says
