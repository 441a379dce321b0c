"""Made-up profiles: workloads with rates of their own, and runs of them with noise."""

import numpy as np

from etude.system.entries import Entry, Hardware, Probed
from etude.system.knobs import Setting

RATES = [f"rate {n}" for n in range(12)]
HERE = Hardware("a processor", 8, ("a GPU",))


def workloads(seed: int, count: int) -> list[dict[str, float]]:
    """Return the true rates of workloads, which differ in half of their rates by factors of two and more."""
    draws = np.random.default_rng(seed)
    common = draws.uniform(-6, 14, len(RATES))
    made = []
    for _ in range(count):
        own = draws.choice([-1, 1], len(RATES)) * draws.uniform(0.7, 2.5, len(RATES))
        own[draws.permutation(len(RATES))[: len(RATES) // 2]] = 0
        made.append(dict(zip(RATES, np.exp(common + own).tolist(), strict=True)))
    return made


def run_of(workload: dict[str, float], draws: np.random.Generator, noise: float = 0.05) -> dict[str, float]:
    """Return the rates of a run; the first rate varies by itself."""
    spread = np.full(len(workload), noise)
    spread[0] = 1.0
    factors = np.exp(spread * draws.normal(size=len(workload)))
    return {name: value * factor for (name, value), factor in zip(workload.items(), factors.tolist(), strict=True)}


def entry(
    rates: dict[str, float],
    workload: str = "ab" * 8,
    *,
    best: Setting | None = None,
    costs: tuple[Probed, ...] = (),
    hardware: Hardware = HERE,
    at_s: float = 1e9,
    objective: str = "time",
) -> Entry:
    return Entry(hardware, workload, objective, rates, "process", 2.5, best or {}, costs, at_s)
