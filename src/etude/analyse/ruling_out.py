"""What a look pays for: ways to swap pairs are ruled out, as many as the level has room for, and never one twice.

Differences of pairs are given all signs that a fixed list of ways gives them, the one that was found among them. At
each look those with the largest sums are ruled out. What was found is one of the ways, and if nothing matters no
likelier to be ruled out than the others, so the error is that of the level, whatever the noise.

Over components it is Hochberg's step-up rule on what was ruled out at which level. It asks that p-values of components
without an effect depend on each other in a positive way, as they do if all are compared with one base.

Source:
    For the permutations, after Mehta et al. 1994, "Exact permutational tests for group sequential clinical trials",
    Biometrics 50; for the step-up, Hochberg 1988, "A sharper Bonferroni procedure for multiple tests of significance",
    Biometrika 75.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from etude.analyse.flips import ROUNDING, signs
from etude.analyse.race_rules import WAYS, Rules

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]


class Hypotheses:
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
