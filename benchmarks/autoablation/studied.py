"""What is told of an ablation: each arm's accuracy, and its effect over the base's pairs, with intervals."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import etude
from benchmarks.common import Quantity, Result
from etude.analyse.paired import paired


def told(ablation: etude.Ablation) -> Result:
    """Return what is told of an ablation that has ended.

    Raises:
        RuntimeError: A trial has not finished.
    """
    lost = [trial for trial in ablation.trials if trial.value is None]
    if lost:
        raise RuntimeError(f"{len(lost)} trials have not finished. The first:\n{lost[0].traceback}")
    trials = ablation.trials
    wall_s = max(t.ended_at or 0.0 for t in trials) - min(t.started_at or 0.0 for t in trials)
    return {"arms": arms_of(ablation), "wall_s": wall_s, "trial_s": [trial.duration_s for trial in trials]}


def arms_of(ablation: etude.Ablation) -> list[Result]:
    """Return what is told of each arm, the base first."""
    arms = ablation.arms
    base = arms[0]
    found = []
    for arm in arms:
        pairs = [] if arm is base else list(ablation.pairing(arm.name).values())
        beside = paired([base.values[seed] for seed in arm.values], list(arm.values.values()))
        found.append(
            {
                "name": arm.name,
                "mean": arm.mean,
                "deviation": statistics.stdev(arm.values.values()) if len(arm.values) > 1 else 0.0,
                "values": {str(seed): value for seed, value in arm.values.items()},
                "effect": arm.effect,
                "low": beside.low,
                "high": beside.high,
                "changes": list(arm.changes),
                "parameters": arm.parameters,
                "one_answer": [trial.metrics.get("one_answer") for trial in ablation.of(arm.name)],
                "pairs": len(pairs),
                "paired": all(one.is_pair for one in pairs),
                "same_batches": sum(one.batches is True for one in pairs),
                "shared": max((one.shared for one in pairs), default=0),
                "unlike": sorted({name for one in pairs for name in one.unlike}),
            }
        )
    return found


def rows(found: Result, names: Mapping[str, str]) -> Result:
    """Return a cell's rows for what was found of a study.

    Args:
        found: What ``told`` returned.
        names: The short name of each arm, by its own.
    """
    row: dict[str, Any] = {"study_s": found["wall_s"], "seeds": len(found["arms"][0]["values"])}
    for arm in found["arms"]:
        short = names[arm["name"]]
        row[short] = 100 * arm["mean"]
        if arm["pairs"]:
            row |= {f"{short}_{key}": 100 * arm[key] for key in ("effect", "low", "high")}
    return row


def quantities(names: Sequence[str]) -> tuple[Quantity, ...]:
    """Return what is shown of ``rows``, for the short names of arms."""
    return (
        Quantity("seeds", "", 0),
        Quantity("study_s", "s", 1),
        *(
            Quantity(f"{name}{end}", "%" if not end else "points", 2)
            for name in names
            for end in ("", "_effect", "_low", "_high")
        ),
    )
