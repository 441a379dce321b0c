"""Adding seeds until it is decided: after each seed every component that is open is looked at, and may be settled.

Looking again and again at growing data finds more than there is, unless each look is paid for. Here a look may spend a
share of the level, more of it the more pairs there are, and what it spends is counted exactly: differences of pairs are
given all signs that a fixed list of ways to swap pairs gives them, the one that was found among them, and at each look
so many ways are ruled out as the level has room for, those with the largest sums. What was found is one of the ways,
and if nothing matters no likelier to be ruled out than the others. So the error is that of the level, whatever the
noise, as with the sign-flip test at a single look, if only differences lie as far above zero as below.

Over components it is Hochberg's step-up rule on what was ruled out at which level. It asks that p-values of components
without an effect depend on each other in a positive way, as they do if all are compared with one base.

With a margin, it is also found where an effect is surely within it: two hypotheses, that the effect is above the margin
and that it is below its negative, are each tested in the same way, one-sidedly, on differences from which the margin
is taken; both have to be ruled out. These claims have the level once more, and the step-up rule, among themselves, as
without a race. Nothing is given up then: who hardly has an effect may still be found to be within the margin.

A component is given up when it is unlikely to have an effect of the size that the race was planned for: by Bayes' rule,
with normal noise, where how many of the components have one is estimated from all of them together. That costs power,
and no error, whatever the noise.

Everything is a function of the differences of pairs so far: a study that is resumed decides as it did.

Source:
    For spending, Lan and DeMets 1983, "Discrete sequential boundaries for clinical trials", Biometrika 70; for the
    permutations, after Mehta et al. 1994, "Exact permutational tests for group sequential clinical trials", Biometrics
    50; for the step-up, Hochberg 1988, "A sharper Bonferroni procedure for multiple tests of significance", Biometrika
    75.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from etude.analyse.flips import ROUNDING, signs
from etude.analyse.libraries import scipy_stats
from etude.analyse.power import seeds_for
from etude.core.errors import ConfigError
from etude.core.text import brief

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

WAYS: Final = 4_000
"""So many ways to swap pairs are looked at, the one that was found among them."""

FIRST: Final = 4
"""Pairs before the first look."""

UNPAID: Final = 5
"""Up to so many pairs no look may spend anything: nothing could be found."""

PRIOR: Final = 4.0
"""So many components' worth it weighs, beforehand, that half of them have an effect."""

ROUNDS: Final = 20
"""In so many rounds the share of components with an effect is found."""

MUCH: Final = 1e6
"""No effect is taken to be likelier, or less likely, than by that factor."""

ROOM: Final = 1.15
"""By default a race has so many times the seeds that it takes without one."""


class Stand(StrEnum):
    """Where a component stands."""

    OPEN = "open"
    FOUND = "found"
    WITHIN = "within the margin"
    GIVEN_UP = "given up"
    AT_CAP = "at the cap"


@dataclass(frozen=True)
class Rules:
    """What a race goes by, all of it fixed before it begins.

    Attributes:
        components: How many take part.
        most: With how many seeds it ends.
        effect: The effect worth finding, in standard deviations of the difference of a pair.
        level: How often one component or more may be found that has no effect.
        doubt: A component is given up if it has an effect of that size with no larger probability.
        margin: How small an effect is none, in the unit of the differences; None if nothing is to be found to be so
            small, and then components may be given up.
    """

    components: int
    most: int
    effect: float = 1.0
    level: float = 0.05
    doubt: float = 0.14
    margin: float | None = field(default=None, repr=False)  # so that a race without one is called as it always was

    def spent(self, pairs: int) -> float:
        """Return which share of the level may be spent by a number of pairs."""
        return min(1.0, max(0.0, (pairs - UNPAID) / (self.most - UNPAID)))


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


def rules_for(
    components: int,
    *,
    most: int | None = None,
    effect: float = 1.0,
    level: float = 0.05,
    margin: float | None = None,
) -> Rules:
    """Return the rules of a race.

    Raises:
        ConfigError: With so few seeds nothing can be found.
    """
    planned = seeds_for(effect=effect, claims=components, level=level)
    if most is None:
        if planned is None:
            raise ConfigError(f"effect={brief(effect)} is found with no number of seeds. Pass most=, or a larger one.")
        most = math.ceil(ROOM * planned)
    least = next(n for n in range(2, 64) if 0.5 ** (n - 1) <= level / components)
    if most < least:
        raise ConfigError(
            f"most={most} seeds can decide nothing for {components} components: the least p-value is "
            f"{min(1.0, components * 0.5 ** (most - 1)):.3g}, corrected, and the level is {level:g}. "
            f"Pass {least} or more."
        )
    if level / components * WAYS < 1:
        raise ConfigError(
            f"{components} components at a level of {level:g} are too many for a race, which tells shares of "
            f"{1 / WAYS:g} apart. Pass a number of seeds."
        )
    return Rules(components, most, effect=effect, level=level, margin=margin)


class Race:
    """A race as it goes: one look after the other.

    Args:
        rules: What it goes by.
    """

    def __init__(self, rules: Rules) -> None:
        import numpy as np

        m = rules.components
        self.rules = rules
        self._nothing = _Hypotheses(rules, m, lambda row, ways: np.abs(ways @ row))
        self._large: tuple[_Hypotheses, ...] = ()
        if (margin := rules.margin) is not None:
            above = _Hypotheses(rules, m, lambda row, ways: -(ways @ row), shift=-margin)
            self._large = above, _Hypotheses(rules, m, lambda row, ways: ways @ row, shift=margin)
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
            self._likelier[place] = _likelier(row[np.isfinite(row)], self.rules.effect)
        if self._large:  # first: what is surely so small does not matter, however surely it is not zero
            self._settle(np.min([one.deepest for one in self._large], axis=0), Stand.WITHIN)
        self._settle(self._nothing.deepest, Stand.FOUND)
        hopes = self._hopes()
        for place in places:
            if self._stands[place] is Stand.OPEN and pairs >= self.rules.most:
                self._stands[place] = Stand.AT_CAP
            elif self._stands[place] is Stand.OPEN and not self._large and hopes[place] <= self.rules.doubt:
                self._stands[place] = Stand.GIVEN_UP
        return self.standing

    def _settle(self, deepest: Array, stand: Stand) -> None:
        """Settle that of which enough is ruled out, by the step-up rule over all; what was found before stays so."""
        for place, is_found in enumerate(step_up(deepest)):
            if is_found and self._stands[place] not in (Stand.FOUND, Stand.WITHIN):
                self._stands[place] = stand

    def _hopes(self) -> Array:
        """Return for each component how probable an effect as planned is."""
        import numpy as np

        share = 0.5
        for _ in range(ROUNDS):
            odds = share * self._likelier
            hopes = odds / (odds + 1 - share)
            share = (float(hopes.sum()) + PRIOR / 2) / (len(hopes) + PRIOR)
        found: Array = np.asarray(hopes)
        return found


class _Hypotheses:
    """The same hypothesis about each component: which of the ways to swap pairs are ruled out by now, at which level.

    Args:
        rules: What the race goes by.
        components: How many there are.
        speaks: Returns of each way how much it speaks against the hypothesis, from differences and ways.
        shift: What is added to differences, so that they lie as far above zero as below if it just holds.
    """

    def __init__(
        self, rules: Rules, components: int, speaks: Callable[[Array, Array], Array], shift: float = 0.0
    ) -> None:
        import numpy as np

        m = components
        self._rules, self._speaks, self._shift = rules, speaks, shift
        self._levels = rules.level / np.arange(1, m + 1)  # of the step-up: the i-th is the level over i
        self._out = np.zeros((m, m, WAYS), dtype=bool)  # component, level, way: ruled out
        self._count = np.zeros((m, m), dtype=int)
        self.deepest = np.zeros(m, dtype=int)
        """For each component the largest i at whose level what was found is ruled out."""

    def rule_out(self, place: int, differences: Array, pairs: int) -> None:
        """Rule out as many ways as have been paid for by now, at each level."""
        import numpy as np

        row = np.nan_to_num(differences + self._shift, nan=0.0)  # no difference: it has no sign to change
        room = np.floor(self._levels * self._rules.spent(pairs) * WAYS + ROUNDING).astype(int)
        if room[0] <= 0:
            return
        sums = self._speaks(row, _ways(self._rules.most)[:, :pairs])
        near = 2 * int(room[0]) + 1  # those that are ruled out already may be among the largest
        largest = np.argpartition(-sums, min(near, WAYS - 1))[: near + 1]
        largest = largest[np.argsort(-sums[largest], kind="stable")]
        rounding = ROUNDING * np.abs(row).sum()
        for nth in range(len(room)):
            left = int(room[nth] - self._count[place, nth])
            free = largest[~self._out[place, nth, largest]]
            if left <= 0 or len(free) <= left:
                continue
            out = free[:left][sums[free[:left]] > sums[free[left]] + rounding]  # of equal ones all or none
            self._out[place, nth, out] = True
            self._count[place, nth] += len(out)
            if self._out[place, nth, 0]:
                self.deepest[place] = max(self.deepest[place], nth + 1)


def step_up(deepest: Array) -> Array:
    """Return which components are found: all of a level, if there are enough of them (Hochberg)."""
    import numpy as np

    m = len(deepest)
    for nth in range(1, m + 1):
        if (deepest >= nth).sum() >= m - nth + 1:
            return np.asarray(deepest >= nth)
    return np.zeros(m, dtype=bool)


@lru_cache(maxsize=4)
def _ways(most: int) -> Array:
    found = signs(most, WAYS).copy()
    found[0] = 1.0  # what was found
    found.setflags(write=False)
    return found


def _likelier(row: Array, effect: float) -> float:
    """Return how much likelier differences are with an effect of that size, of either sign, than without one."""
    n = len(row)
    if n < FIRST:
        return 1.0
    spread = float(row.std(ddof=1))
    if spread <= 0:
        return MUCH if row.any() else 1 / MUCH
    return float(_likelier_by_t(n, effect)(abs(float(row.mean())) * math.sqrt(n) / spread))


@lru_cache(maxsize=256)
def _likelier_by_t(n: int, effect: float) -> Any:
    """Return what maps the t of so many differences to how much likelier it is with an effect than without."""
    import numpy as np

    stats = scipy_stats()
    ts, away = np.linspace(0, 8, 161), effect * math.sqrt(n)
    with np.errstate(all="ignore"):
        none = stats.t.pdf(ts, n - 1)
        some = (stats.nct.pdf(ts, n - 1, away) + stats.nct.pdf(-ts, n - 1, away)) / 2
        ratios = np.clip(np.nan_to_num(some / none, nan=MUCH), 1 / MUCH, MUCH)
    return lambda t: float(np.interp(t, ts, ratios))


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
