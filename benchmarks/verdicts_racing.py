"""How many runs it takes to decide, where seeds are added until it is decided, beside a fixed number of seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.simulated_runs import runs

STUDIES: Final = 300
EFFECTS: Final[Mapping[str, Sequence[float]]] = {
    "20 planned": [1.0] * 20,
    "14 null, 3 planned, 3 threefold": [0.0] * 14 + [1.0] * 3 + [3.0] * 3,
    "20 null": [0.0] * 20,
}


def cells(small: bool) -> Sequence[Cell]:
    return [
        Cell(f"étude {name}", {"effects": name, "studies": 3 if small else STUDIES}, limit_s=3600.0) for name in EFFECTS
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    from etude.analyse.corrections import holm
    from etude.analyse.flips import flip_p
    from etude.analyse.power import seeds_for
    from etude.analyse.race_rules import rules_for

    effects = np.array(EFFECTS[args["effects"]])
    n, real = seeds_for(effect=1.0, claims=len(effects)) or 0, effects > 0
    most = rules_for(len(effects)).most
    rng, spent, fixed_hits, hits, step_up = np.random.default_rng(0), [], [], [], []
    for _ in range(args["studies"]):
        base, arms = runs(rng, "normal", effects=effects, seeds=most)
        ps = [flip_p(base[:n] - arm[:n]) for arm in arms]
        race = race_through(base, arms, rules_for(len(arms)))
        spent.append(sum(race.pairs) + max(race.pairs))
        fixed_hits.append((np.array(holm(ps)) <= 0.05)[real].mean() if real.any() else 0.0)
        step_up.append(hochberg(ps)[real].mean() if real.any() else 0.0)
        hits.append(race.found[real].mean() if real.any() else 0.0)
    fixed = n * (1 + len(effects))
    found = {"runs": float(np.mean(spent)), "fixed_runs": fixed, "fewer_percent": 100 * (1 - np.mean(spent) / fixed)}
    if real.any():
        found |= {
            "power_percent": 100 * float(np.mean(hits)),
            "fixed_percent": 100 * float(np.mean(fixed_hits)),
            "step_up_percent": 100 * float(np.mean(step_up)),
            "of_its_power_percent": 100 * float(np.mean(hits) / max(1e-9, np.mean(fixed_hits))),
        }
    return found


def race_through(base: Any, arms: Any, rules: Any) -> Any:
    """Return how a race ends: a seed more for what is open, until nothing is."""
    from etude.analyse.race_rules import FIRST
    from etude.analyse.racing import Race

    if len(base) < rules.most:
        raise ValueError(f"{len(base)} seeds are fewer than the race may take")
    race, off = Race(rules), base - arms
    for n in range(FIRST, rules.most + 1):
        if not race.look(list(off[:, :n])).open:
            break
    return race.standing


def hochberg(ps: Sequence[float], level: float = 0.05) -> Any:
    """Return which of several claims Hochberg's rule finds."""
    found, m = np.array(ps), len(ps)
    for nth, p in sorted(enumerate(np.sort(found)), reverse=True):
        if p <= level / (m - nth):
            return found <= p
    return np.zeros(m, dtype=bool)


BENCHMARK = Benchmark(
    name="verdicts_racing",
    cells=cells,
    work=work,
    quantities=(
        Quantity("runs", "", 1),
        Quantity("fixed_runs", "", 0),
        Quantity("fewer_percent", "%", 1),
        Quantity("power_percent", "%", 1),
        Quantity("fixed_percent", "%", 1),
        Quantity("step_up_percent", "%", 1),
        Quantity("of_its_power_percent", "%", 1),
    ),
    targets=tuple(
        target
        for name, fewer in (("20 planned", 30), ("14 null, 3 planned, 3 threefold", 50))
        for target in (
            Target(f"fewer runs than with a fixed n: {name}", f"étude {name}: fewer_percent", fewer, "%"),
            Target(f"of the power with a fixed n: {name}", f"étude {name}: of_its_power_percent", 95, "%"),
        )
    ),
    note=(
        "Studies of 20 components with normal noise. fixed: the seeds that are planned for one planned effect, all\n"
        "components with all of them, sign flips and Holm; step_up: the same with Hochberg's rule, as in the race.\n"
        "runs: of all arms together, the base with them. The error of the race is in verdicts_null. One run is enough."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
