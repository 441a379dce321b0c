"""Studies of any size to report on, written down without being run."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from etude.testing.written import Written, write_study

SPACE: Final = {
    "parameters": [
        ["lr", {"kind": "loguniform", "low": 1e-4, "high": 1.0}],
        ["decay", {"kind": "loguniform", "low": 1e-6, "high": 1e-2}],
        ["dropout", {"kind": "uniform", "low": 0.0, "high": 0.6, "step": None}],
        ["momentum", {"kind": "uniform", "low": 0.0, "high": 1.0, "step": None}],
        ["layers", {"kind": "integers", "low": 1, "high": 12, "log": False, "step": 1}],
        ["width", {"kind": "choice", "values": [16, 32, 64, 128]}],
        ["act", {"kind": "choice", "values": ["relu", "tanh", "gelu"]}],
        ["norm", {"kind": "choice", "values": [True, False]}],
    ]
}
REPORTS: Final = 20


def study(folder: Path, trials: int) -> Path:
    """Write a search of eight parameters: 20 reports a trial, one trial in six was stopped, one in thirty failed."""
    question = {"space": SPACE, "sampler": {"name": "tpe", "startup": 10}}
    return write_study(folder, list(_trials(trials)), question=question, workers=16)


def _trials(n: int) -> Iterator[Written]:
    rng = random.Random(1)
    for _ in range(n):
        lr = 10 ** rng.uniform(-4, 0)
        params = {
            "lr": lr,
            "decay": 10 ** rng.uniform(-6, -2),
            "dropout": rng.uniform(0, 0.6),
            "momentum": rng.random(),
            "layers": rng.randint(1, 12),
            "width": rng.choice([16, 32, 64, 128]),
            "act": rng.choice(["relu", "tanh", "gelu"]),
            "norm": rng.random() < 0.5,
        }
        value = 0.9 - 0.05 * abs(math.log10(lr) + 2) + rng.gauss(0, 0.01)
        drawn = rng.random()
        state = "failed" if drawn < 1 / 30 else "stopped" if drawn < 1 / 5 else "finished"
        steps = rng.randint(2, REPORTS // 2) if state == "stopped" else REPORTS
        curve = [value * (1 - math.exp(-step / 5)) + rng.gauss(0, 0.005) for step in range(1, steps + 1)]
        reason = "RuntimeError: out of memory" if state == "failed" else ""
        yield Written(params, value, curve=curve, state=state, reason=reason, took_s=rng.uniform(20, 60))
