"""Adding seeds until it is decided: after each seed every component that is open is looked at, and may be settled.

Looking again and again at growing data finds more than there is, unless each look is paid for. Here a look may spend a
share of the level, more of it the more pairs there are, and ``ruling_out`` counts exactly what it spends. So the error
is that of the level, whatever the noise, as with the sign-flip test at a single look, if only differences lie as far
above zero as below; over components it is that of the step-up rule.

With a margin, it is also found where an effect is surely within it: two hypotheses, that the effect is above the margin
and that it is below its negative, are each tested in the same way, one-sidedly, on differences from which the margin
is taken; both have to be ruled out. These claims have the level once more, and the step-up rule, among themselves, as
without a race. Nothing is given up then: who hardly has an effect may still be found to be within the margin.

A component is given up when it is unlikely to have an effect of the size that the race was planned for, as ``hopes``
tells.

Everything is a function of the differences of pairs so far: a study that is resumed decides as it did.

Source:
    For spending, Lan and DeMets 1983, "Discrete sequential boundaries for clinical trials", Biometrika 70.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from etude.analyse.hopes import hopes, likelier
from etude.analyse.race_rules import FIRST, Rules
from etude.analyse.ruling_out import Hypotheses, step_up

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]


class Stand(StrEnum):
    """Where a component stands."""

    OPEN = "open"
    FOUND = "found"
    WITHIN = "within the margin"
    GIVEN_UP = "given up"
    AT_CAP = "at the cap"


@dataclass(frozen=True)
class Standing:
    """How a race stands.

    Attributes:
        stands: For each component, where it stands.
        pairs: With how many seeds each was looked at last; it needs one more if it is open.
        looked: The number of pairs of the last look that is complete; 0 before the first.
    """

    stands: tuple[Stand, ...]
    pairs: tuple[int, ...]
    looked: int

    @property
    def found(self) -> Array:
        """Which were found, by place."""
        import numpy as np

        return np.array([stand is Stand.FOUND for stand in self.stands])

    @property
    def open(self) -> tuple[int, ...]:
        """The places of those that are open."""
        return tuple(place for place, stand in enumerate(self.stands) if stand is Stand.OPEN)


class Race:
    """A race as it goes: one look after the other.

    Args:
        rules: What it goes by.
    """

    def __init__(self, rules: Rules) -> None:
        import numpy as np

        m = rules.components
        self.rules = rules
        self._nothing = Hypotheses(rules, m, lambda row, ways: np.abs(ways @ row))
        self._large: tuple[Hypotheses, ...] = ()
        if (margin := rules.margin) is not None:
            above = Hypotheses(rules, m, lambda row, ways: -(ways @ row), shift=-margin)
            self._large = above, Hypotheses(rules, m, lambda row, ways: ways @ row, shift=margin)
        self._stands = [Stand.OPEN] * m
        self._pairs = [0] * m
        self._likelier = np.ones(m)  # how much likelier an effect as planned is than none
        self._looked = 0

    @property
    def standing(self) -> Standing:
        """How it stands."""
        return Standing(tuple(self._stands), tuple(self._pairs), self._looked)

    def look(self, differences: Sequence[Sequence[float] | None]) -> Standing:
        """Look at all components that are open.

        Args:
            differences: For each component its differences of pairs so far, seed by seed, as many for all that are
                open; NaN of pairs that came to no number. Of others nothing is needed.
        """
        import numpy as np

        places = self.standing.open
        rows = [np.asarray(differences[place], dtype=np.float64) for place in places]
        pairs = len(rows[0])
        self._looked = pairs
        for place, row in zip(places, rows, strict=True):
            self._pairs[place] = pairs
            for hypotheses in (self._nothing, *self._large):
                hypotheses.rule_out(place, row, pairs)
            self._likelier[place] = likelier(row[np.isfinite(row)], self.rules.effect)
        if self._large:  # first: what is surely so small does not matter, however surely it is not zero
            self._settle(np.min([one.deepest for one in self._large], axis=0), Stand.WITHIN)
        self._settle(self._nothing.deepest, Stand.FOUND)
        hoped = hopes(self._likelier)
        for place in places:
            if self._stands[place] is Stand.OPEN and pairs >= self.rules.most:
                self._stands[place] = Stand.AT_CAP
            elif self._stands[place] is Stand.OPEN and not self._large and hoped[place] <= self.rules.doubt:
                self._stands[place] = Stand.GIVEN_UP
        return self.standing

    def _settle(self, deepest: Array, stand: Stand) -> None:
        """Settle that of which enough is ruled out, by the step-up rule over all; what was found before stays so."""
        for place, is_found in enumerate(step_up(deepest)):
            if is_found and self._stands[place] not in (Stand.FOUND, Stand.WITHIN):
                self._stands[place] = stand


@dataclass(frozen=True)
class Look:
    """A look at a race.

    Attributes:
        pairs: With how many pairs.
        settled: Name of the component -> where it stands now, of those that were settled by it.
        open: Those that go on.
    """

    pairs: int
    settled: Mapping[str, Stand]
    open: tuple[str, ...]

    def __str__(self) -> str:
        by: dict[Stand, list[str]] = {}
        for name, stand in self.settled.items():
            by.setdefault(stand, []).append(name)
        told = [f"{stand.value} {', '.join(names)}" for stand, names in by.items()]
        told += [f"open {', '.join(self.open)}"] if self.open else []
        return f"after {self.pairs} pairs: {'; '.join(told)}"


def looks_of(rules: Rules, differences: Mapping[str, Sequence[float]]) -> tuple[Standing, list[Look]]:
    """Return how a race stands, and all looks that led there, from what has come so far.

    A plan asks whenever a worker is free, so the last race is kept, and gone on with if all that it saw is the same.

    Args:
        rules: What it goes by.
        differences: For each component its differences of pairs, seed by seed, without a gap; NaN of pairs that came to
            no number. A look is taken when all components that are open have a pair more.
    """
    names = tuple(differences)
    known = _followed.get((rules, names))
    if known is None or not known.saw(differences):
        known = _Followed(rules, names)
    known.go_on(differences)
    _followed.clear()
    _followed[rules, names] = known
    return known.race.standing, list(known.looks)


class _Followed:
    """A race with the looks that led to where it stands, and with what they saw."""

    def __init__(self, rules: Rules, names: tuple[str, ...]) -> None:
        self.race, self.looks = Race(rules), list[Look]()
        self._names, self._seen = names, {name: tuple[float, ...]() for name in names}

    def saw(self, differences: Mapping[str, Sequence[float]]) -> bool:
        import numpy as np

        return all(
            np.array_equal(row, differences[name][: len(row)], equal_nan=True) for name, row in self._seen.items()
        )

    def go_on(self, differences: Mapping[str, Sequence[float]]) -> None:
        for pairs in range(max(FIRST, self.race.standing.looked + 1), self.race.rules.most + 1):
            before = self.race.standing
            going = [self._names[place] for place in before.open]
            if not going or any(len(differences[name]) < pairs for name in going):
                return
            after = self.race.look([differences[name][:pairs] for name in self._names])
            self._seen |= {name: tuple(differences[name][:pairs]) for name in going}
            settled = {self._names[p]: after.stands[p] for p in before.open if after.stands[p] is not Stand.OPEN}
            self.looks.append(Look(pairs, settled, tuple(self._names[p] for p in after.open)))


_followed: Final[dict[tuple[Rules, tuple[str, ...]], _Followed]] = {}
"""The race that was asked about last."""
