"""What parameters begin with: others where what goes has shifted the generator, and yet drawn in the same way."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from etude.mage.facts import ParameterFacts
from etude.mage.judge.comparing import listed, shown, under
from etude.mage.judge.findings import Finding, fails, for_a_person
from etude.mage.judge.licence import Licence
from etude.mage.judge.tables import Pair

FAR: Final = 8.0
"""So many standard errors apart, two samples of one distribution lie never, though its tails be heavy."""
FEWEST: Final = 2
"""One number does not tell whether it was drawn."""
LOOKED_AT: Final = 100_000
"""Of a larger tensor the probe looks at about half as many numbers, or more."""


def beginning(pair: Pair, licence: Licence) -> Iterator[Finding]:
    """Yield what does not begin as in the baseline, beside what a claim is about."""
    constant, others = [], []
    for name, before in pair.base.parameters.items():
        after = pair.variant.parameters.get(name)
        if after is None or any(under(path, name) for path in licence.modules) or _same(before, after):
            continue
        if _is_drawn(before) and not _is_drawn(after):
            constant.append(name)
        elif before.shape == after.shape and _are_apart(before, after):
            others.append(name)
    if constant:
        value = pair.variant.parameters[constant[0]].begins
        yield (for_a_person if licence.settings else fails)(
            f"{listed(constant)} {_begins(constant)} with {value[0]:.4g} everywhere, and with numbers that were drawn "  # type: ignore[index]
            "in the baseline: no claim says so.",
            claim="all that stays begins as it did",
            expected="numbers that were drawn",
            found=f"{value[0]:.4g} everywhere",  # type: ignore[index]
        )
    if others:
        one, other = (model.parameters[others[0]].begins for model in (pair.base, pair.variant))
        yield for_a_person(
            f"{listed(others)} {_begins(others)} with numbers that were drawn in another way than in the baseline "
            f"(`{others[0]}` has mean {other[0]:.4g} and deviation {other[1]:.4g}, {one[0]:.4g} and {one[1]:.4g} in "  # type: ignore[index]
            "the baseline). It may follow from the number of layers, or be another first state.",
            claim="all that stays begins as it did",
            expected=shown(one),
            found=shown(other),
        )


def _begins(names: list[str]) -> str:
    return "begins" if len(names) == 1 else "begin"


def _same(one: ParameterFacts, other: ParameterFacts) -> bool:
    """Say whether two begin alike, or nobody could tell."""
    return one.begins is None or other.begins is None or bool(one.digest and one.digest == other.digest)


def _is_drawn(row: ParameterFacts) -> bool:
    return row.begins is not None and row.begins[1] > 0


def _are_apart(before: ParameterFacts, after: ParameterFacts) -> bool:
    assert before.begins is not None
    assert after.begins is not None
    (one, spread), (other, its_spread) = before.begins, after.begins
    size = math.prod(before.shape)
    if size < FEWEST:
        return False
    if not spread:
        return bool(its_spread) or one != other
    number = size if size <= LOOKED_AT else LOOKED_AT // 2
    error = FAR / math.sqrt(number)
    return abs(math.log(its_spread / spread)) > error or abs(other - one) > error * math.hypot(spread, its_spread)
