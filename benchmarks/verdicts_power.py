"""How often an effect of the planned size is found with the planned seeds, and where the intervals lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.simulated_runs import NOISES, runs

STUDIES: Final = 4_000
INTERVALS: Final = 1_000
CLAIMS: Final = (1, 10, 20)
SIZES: Final = (8, 12, 20, 28)


def cells(small: bool) -> Sequence[Cell]:
    studies = 10 if small else STUDIES
    power = [Cell(f"étude {n} components", {"claims": n, "studies": studies}) for n in CLAIMS]
    few = [Cell("5 repeats, 1 component", {"claims": 1, "studies": studies, "seeds": 5})]
    few += [Cell("5 repeats, 20 components", {"claims": 20, "studies": studies, "seeds": 5})]
    intervals = [
        Cell(f"étude interval, {noise}, {n} pairs", {"noise": noise, "pairs": n, "studies": 10 if small else INTERVALS})
        for noise in NOISES
        for n in SIZES
    ]
    return [*power, *few, *intervals]


def work(args: Mapping[str, Any], place: Path) -> Result:
    return covered(args) if "pairs" in args else found(args)


def found(args: Mapping[str, Any]) -> Result:
    """Return how often one true effect among none is found."""
    from etude.analyse.corrections import holm
    from etude.analyse.flips import flip_p
    from etude.analyse.power import seeds_for

    rng, claims = np.random.default_rng(0), args["claims"]
    n = args.get("seeds") or seeds_for(effect=1.0, claims=claims) or 0
    effects = np.zeros(claims)
    effects[0] = 1.0
    hits = 0
    for _ in range(args["studies"]):
        base, arms = runs(rng, "normal", effects=effects, seeds=n)
        hits += holm([flip_p(base - arm) for arm in arms])[0] <= 0.05
    return {"power_percent": 100 * hits / args["studies"], "seeds": n}


def covered(args: Mapping[str, Any]) -> Result:
    """Return how often intervals hold the true effect: ours, and the bootstrap's (BCa) beside it."""
    from scipy import stats

    from etude.analyse.tests import SignFlips, interval

    rng, n = np.random.default_rng(0), args["pairs"]
    pairs = [runs(rng, args["noise"], effects=[0.0, 0.0], seeds=n) for _ in range(args["studies"])]
    off = np.array([base - arms[-1] for base, arms in pairs])
    ends = np.array([interval(SignFlips(), base, arms[-1], level=0.05) for base, arms in pairs])
    boot = stats.bootstrap((off,), np.mean, axis=1, n_resamples=1999, rng=rng).confidence_interval
    return {
        "covered_percent": 100 * float(((ends[:, 0] <= 0) & (ends[:, 1] >= 0)).mean()),
        "bca_percent": 100 * float(((boot.low <= 0) & (boot.high >= 0)).mean()),
    }


BENCHMARK = Benchmark(
    name="verdicts_power",
    cells=cells,
    work=work,
    quantities=(
        Quantity("power_percent", "%", 1),
        Quantity("seeds", "", 0),
        Quantity("covered_percent", "%", 1),
        Quantity("bca_percent", "%", 1),
    ),
    targets=tuple(
        Target(
            f"an effect of one deviation among {n} components is found", f"étude {n} components: power_percent", 80, "%"
        )
        for n in CLAIMS
    ),
    note=(
        "power: of studies with one component whose effect is one standard deviation of the difference of a pair,\n"
        "and no effect of the others, with the seeds that were planned. covered: how often the 95 % interval (of\n"
        "the sign-flip test) holds the true effect; bca: how often that of a bootstrap does. One run is enough."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
