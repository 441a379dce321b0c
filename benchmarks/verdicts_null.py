"""How often a study in which nothing matters is said to have found something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.simulated_runs import NOISES, runs

COMPONENTS: Final = 20
STUDIES: Final = 1_000
FEW: Final = 5
"""Seeds of the practice that it is compared with."""

LIMIT_S: Final = 3600.0

WAYS: Final = {"pairs": {}, "no pairs": {"paired": False}}


def cells(small: bool) -> Sequence[Cell]:
    studies, noises = (4, list(NOISES)[:1]) if small else (STUDIES, list(NOISES))
    fixed = [
        Cell(f"étude {noise}, {way}", {"noise": noise, "way": way, "studies": studies}, limit_s=LIMIT_S)
        for way in WAYS
        for noise in noises
    ]
    until = [
        Cell(f"étude {noise}, until decided", {"noise": noise, "way": "race", "studies": studies}, limit_s=LIMIT_S)
        for noise in noises
    ]
    return [*fixed, *until, Cell("best of raw means", {"noise": "normal", "way": "raw", "studies": studies})]


def work(args: Mapping[str, Any], place: Path) -> Result:
    from scipy import stats

    rng, n, most = np.random.default_rng(0), args["studies"], seeds(racing=args["way"] == "race")
    said = {"raw": raw_means, "race": raced}.get(args["way"], lambda *runs: judged(args["way"], *runs))
    wrong = 0
    for _ in range(n):
        base, arms = runs(rng, args["noise"], effects=np.zeros(COMPONENTS), seeds=most)
        wrong += bool(said(base, arms))
    limit = stats.beta.ppf(0.95, wrong + 1, n - wrong) if wrong < n else 1.0
    return {"error_percent": 100 * wrong / n, "limit_percent": 100 * limit, "details": {"studies": n, "wrong": wrong}}


def seeds(*, racing: bool) -> int:
    """Return how many seeds are planned for so many components and an effect of one deviation, or are the most."""
    from etude.analyse.power import seeds_for
    from etude.analyse.race_rules import rules_for

    if racing:
        return rules_for(COMPONENTS).most
    return seeds_for(effect=1.0, claims=COMPONENTS) or 0


def judged(way: str, base: Any, arms: Any) -> bool:
    """Say whether anything is found, by the p-values that verdicts go by."""
    from etude.analyse.corrections import holm
    from etude.analyse.flips import flip_p
    from etude.analyse.welch import welch_p

    ps = [flip_p(base - arm) if way == "pairs" else welch_p(base, arm) for arm in arms]
    return min(holm(ps)) <= 0.05


def raced(base: Any, arms: Any) -> bool:
    """Say whether anything is found when seeds are added until it is decided."""
    from benchmarks.verdicts_racing import race_through
    from etude.analyse.race_rules import rules_for

    return bool(race_through(base, arms, rules_for(len(arms))).found.any())


def raw_means(base: Any, arms: Any) -> bool:
    """Say whether the arm that looks worst is further off than an uncorrected t-test over few seeds allows."""
    from scipy import stats

    few = (base - arms)[:, :FEW]
    worst = few[np.abs(few.mean(1)).argmax()]
    return bool(stats.ttest_1samp(worst, 0).pvalue <= 0.05)


BENCHMARK = Benchmark(
    name="verdicts_null",
    cells=cells,
    work=work,
    quantities=(Quantity("error_percent", "%", 1), Quantity("limit_percent", "%", 1)),
    targets=tuple(
        Target(
            f"wrong claims, {noise}, {way}: upper limit",
            f"étude {noise}, {way}: limit_percent",
            6.6,
            "%",
            at_least=False,
        )
        for way in ("pairs", "until decided")
        for noise in NOISES
    ),
    note=(
        "Studies of 20 components of which none matters. error: the share in which one or more is said to matter\n"
        "or to hurt; limit: upper end of its one-sided 95 % interval (Clopper and Pearson). Noise: normal;\n"
        "Student's t with 3 degrees; one run in six far below the others; arms that vary half to three times as\n"
        "much as the base. no pairs: the same runs, tested as unpaired. best of raw means: five seeds, and an\n"
        "uncorrected t-test of the component that looks most important. One run is enough."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
