"""How often a race says wrongly that a component does not matter, what it finds, and how many runs that takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.simulated_runs import own_variance, runs
from benchmarks.verdicts_racing import race_through

STUDIES: Final = 300
MARGIN: Final = 1.0
"""In standard deviations of the difference of a pair, as effects are."""

AT_IT: Final = [MARGIN] * 4
NONE: Final = [0.0] * 4
MIXED: Final = [0.0] * 3 + [1.0] * 2 + [3.0]
CASES: Final[Mapping[str, tuple[Sequence[float], str, bool]]] = {
    **{f"4 at the margin, {noise}": (AT_IT, noise, True) for noise in ("normal", "heavy-tailed", "bimodal")},
    "4 null": (NONE, "normal", True),
    "3 null, 2 planned, 1 threefold": (MIXED, "normal", True),
    "3 null, 2 planned, 1 threefold, no margin": (MIXED, "normal", False),
}


def cells(small: bool) -> Sequence[Cell]:
    cases, studies = (list(CASES)[:2], 3) if small else (list(CASES), STUDIES)
    return [Cell(f"étude {name}", {"case": name, "studies": studies}, limit_s=3600.0) for name in cases]


def work(args: Mapping[str, Any], place: Path) -> Result:
    from scipy import stats

    from etude.analyse.race_rules import rules_for
    from etude.analyse.racing import Stand

    effects, noise, asked = CASES[args["case"]]
    margin = MARGIN * math.sqrt(2 * own_variance(noise)) if asked else None
    rules, rng, n = rules_for(len(effects), margin=margin), np.random.default_rng(0), args["studies"]
    small, real = np.array(effects) < MARGIN, np.array(effects) > 0
    wrong, spent = 0, []
    within, found = [], []
    for _ in range(n):
        race = race_through(*runs(rng, noise, effects=np.array(effects), seeds=rules.most), rules)
        so = np.array([stand is Stand.WITHIN for stand in race.stands])
        wrong += bool(so[~small].any())
        spent.append(sum(race.pairs) + max(race.pairs))
        within.append(so[small].mean() if small.any() else 0.0)
        found.append(race.found[real].mean() if real.any() else 0.0)
    told = {"runs": float(np.mean(spent)), "most_runs": rules.most * (1 + len(effects))}
    if not small.all() and asked:
        told |= {
            "wrong_percent": 100 * wrong / n,
            "limit_percent": 100 * float(stats.beta.ppf(0.95, wrong + 1, n - wrong)),
        }
    if small.any() and asked:
        told |= {"within_percent": 100 * float(np.mean(within))}
    if (np.array(effects) > MARGIN).any() or (real.any() and not asked):
        told |= {"found_percent": 100 * float(np.mean(found))}
    return told


BENCHMARK = Benchmark(
    name="verdicts_margin",
    cells=cells,
    work=work,
    quantities=(
        Quantity("wrong_percent", "%", 1),
        Quantity("limit_percent", "%", 1),
        Quantity("within_percent", "%", 1),
        Quantity("found_percent", "%", 1),
        Quantity("runs", "", 1),
        Quantity("most_runs", "", 0),
    ),
    targets=tuple(
        Target(f"wrongly within the margin: {name}", f"étude {name}: limit_percent", 6.6, "%", at_least=False)
        for name, (effects, _, _) in CASES.items()
        if effects is AT_IT
    ),
    note=(
        "A margin of one deviation of a pair's difference. wrong: studies in which something is found to be within it\n"
        "that is not, at the worst place, effects as large as the margin; limit: the upper 95 % limit of that. within\n"
        "and found: how many of those without an effect are found to be within it, and of the others to matter. runs:\n"
        "of all arms together, the base with them. One run is enough."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
