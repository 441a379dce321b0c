"""A golden case: runs of several arms, what was read off their means, and what ``etude.verdicts`` says of them.

What is read off means is taken at its word: an arm whose mean is better than that of the base is claimed to be better.
That is how tables of means are read, and how sentences such as "removing it leads to the best performance" come about.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import etude
from benchmarks.common import Result
from etude.analyse.corrections import holm
from etude.analyse.verdict import Word

LEVEL: Final = 0.05
SAYS: Final = {Word.MATTERS: "worse", Word.HURTS: "better", Word.SAME: "as good", Word.UNDECIDED: "undecided"}
"""What a verdict says of the arm: a component that matters makes the arm without it worse."""

WORDS: Final = tuple(SAYS.values())
CLAIMS: Final = ("better", "worse")


@dataclass(frozen=True)
class Case:
    """Arms of a published study.

    Attributes:
        study: Which study it belongs to: its key among the golden cases.
        name: What it is called within that.
        runs: Arm -> the metric by seed, or in the order of its runs; the base comes first.
        claims: Arm -> the mean of the base less that of the arm, in the metric's direction, as it was published; where
            nobody published it, as the runs have it.
        mode: Whether more is better.
        paired: Whether runs in the same place, or with the same seed, are pairs; of each arm, if some are not.
        margin: How small a difference is none, in the metric's unit.
        unit: Of the metric.
    """

    study: str
    name: str
    runs: Mapping[str, Any]
    claims: Mapping[str, float]
    mode: Literal["max", "min"] = "max"
    paired: bool | Mapping[str, bool] = True
    margin: float | None = None
    unit: str = "points"


def claim(effect: float) -> str:
    """Return what is read off a difference of means."""
    return "worse" if effect > 0 else "better" if effect < 0 else "equal"


def judged(case: Case) -> Result:
    """Return what the case's runs show, arm by arm, beside what was claimed."""
    found = etude.verdicts(case.runs, mode=case.mode, paired=case.paired, margin=case.margin, level=LEVEL)
    arms = [
        {
            "arm": one.component,
            "claimed": claim(case.claims[one.component]),
            "claim": case.claims[one.component],
            "effect": one.effect,
            "low": _finite(one.low),
            "high": _finite(one.high),
            "n": one.n,
            "test": one.test,
            "p": one.p,
            "p_corrected": one.p_corrected,
            "says": SAYS[one.verdict],
            "seeds_needed": one.seeds_needed,
        }
        for one in found
    ]
    return {
        "study": case.study,
        "case": case.name,
        "base": found.base,
        "unit": case.unit,
        "margin": case.margin,
        "runs": sum(len(mine) for mine in case.runs.values()),
        "first": list(found.says),
        "arms": arms,
    }


def counted(cases: Sequence[Result]) -> Result:
    """Return how many arms were claimed to be what, what the verdicts say of them, and what became of the claims.

    ``all_corrected`` counts the arms whose difference is sure when all arms of these cases are corrected together.
    """
    arms = [arm for case in cases for arm in case["arms"]]
    says = Counter(arm["says"] for arm in arms)
    claimed = [arm for arm in arms if arm["claimed"] in CLAIMS]
    against = {"better": "worse", "worse": "better"}
    return {
        "runs": sum(case["runs"] for case in cases),
        "arms": len(arms),
        **{f"claimed_{word}": sum(arm["claimed"] == word for arm in arms) for word in CLAIMS},
        **{word.replace(" ", "_"): says[word] for word in WORDS},
        "borne_out": sum(arm["says"] == arm["claimed"] for arm in claimed),
        "contradicted": sum(arm["says"] == against[arm["claimed"]] for arm in claimed),
        "claimed_as_good": sum(arm["says"] == "as good" for arm in claimed),
        "open": sum(arm["says"] == "undecided" for arm in claimed),
        "uncorrected": sum(arm["p"] <= LEVEL for arm in arms),
        "all_corrected": sum(p <= LEVEL for p in holm([arm["p"] for arm in arms])),
        "could_decide_nothing": sum(_nothing(case) for case in cases),
        "cases": len(cases),
    }


def _nothing(case: Result) -> bool:
    return any(said.startswith("Nothing can be decided") for said in case["first"])


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
