"""What the tests of exports share: a study in which everything happens that can happen to a trial."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import etude
from etude.results.search import Search
from etude.testing.written import Written, write_study

SPACE: dict[str, Any] = {
    "parameters": [
        ["lr", {"kind": "loguniform", "low": 0.001, "high": 1.0}],
        ["layers", {"kind": "integers", "low": 1, "high": 4, "log": False, "step": 1}],
        [
            "optimizer",
            {
                "kind": "choice",
                "values": ["sgd", "adam"],
                "branches": [
                    {"parameters": [["momentum", {"kind": "uniform", "low": 0.0, "high": 0.75, "step": 0.25}]]},
                    {"parameters": []},
                ],
            },
        ],
        ["shape", {"kind": "choice", "values": [{"tuple": [8, 8]}, None]}],
        ["fixed", {"kind": "choice", "values": ["so"]}],
    ]
}
ADAM: dict[str, Any] = {"optimizer": "adam", "shape": None, "fixed": "so"}
SGD: dict[str, Any] = {"optimizer": "sgd", "shape": (8, 8), "fixed": "so"}

TRIALS = [
    Written({"lr": 0.1, "layers": 2, **SGD, "momentum": 0.25}, value=0.75, curve=[0.25, 0.5], metrics={"loss": 1.5}),
    Written({"lr": 0.01, "layers": 1, **ADAM}, value=0.875, curve=[0.5, 0.875], seed=3),
    Written({"lr": 0.5, "layers": 4, **ADAM}, curve=[0.125], state="stopped", reason="worse than the median"),
    Written({"lr": 1.0, "layers": 4, **ADAM}, curve=[math.inf, math.nan], state="failed", reason="ValueError: no"),
    Written({"lr": 0.3, "layers": 3, **ADAM}, state="invalid", reason="heads must divide width"),
    Written({"lr": 0.2, "layers": 3, **ADAM}, value=math.nan, curve=[0.5]),
    Written({"lr": 0.2, "layers": 1, **ADAM}, curve=[0.25, 0.375], state="running"),
    Written({"lr": 0.4, "layers": 1, **ADAM}, state="queued"),
]


def written(folder: Path, trials: list[Written] = TRIALS, **more: Any) -> Search:
    """Write a study, and open it."""
    return etude.open(write_study(folder, trials, **{"question": {"space": SPACE}, "complete": False, **more}))


@contextlib.contextmanager
def noted() -> Iterator[list[str]]:
    """Collect the warnings of an export."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    found += [str(one.message) for one in caught]
