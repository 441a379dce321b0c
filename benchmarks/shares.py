"""What asynchrony and early stopping each take of a study's time, and how sure that is.

A study goes in four forms: in waves or not, with a rule that stops trials or without. Times are told over those of the
waves without a rule, in the same order of the same trials. As both savings multiply, shares are taken of logarithms: of
the whole cut, what asynchrony gives, averaged over whether it comes before early stopping or after; the rest is early
stopping's.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

from benchmarks.common import Quantity, Result
from benchmarks.waves import Went

RESAMPLES: Final = 4_000
LEVEL: Final = 0.95

RATIOS: Final = ("asynchrony", "stopping", "both")
"""Times over those of the waves without a rule."""


def share_of_asynchrony(times: Mapping[str, float]) -> float:
    """Return which part of the cut in time is asynchrony's, from 0 to 1 as a rule.

    Below 0 or above 1 one of the two costs time. NaN if there is no cut.

    Example:
        >>> share_of_asynchrony({"waves": 8.0, "async": 4.0, "waves_median": 4.0, "async_median": 2.0})
        0.5
    """
    log = {form: math.log(time) for form, time in times.items()}
    cut = log["waves"] - log["async_median"]
    if cut == 0.0:
        return math.nan
    return (log["waves"] - log["async"] + log["waves_median"] - log["async_median"]) / 2.0 / cut


def interval(values: Sequence[float], *, level: float = LEVEL, resamples: int = RESAMPLES) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a mean; the same one for equal values."""
    draws = random.Random(0)
    means = sorted(fmean(draws.choices(values, k=len(values))) for _ in range(resamples))
    outside = (1.0 - level) / 2.0
    return means[round(outside * (resamples - 1))], means[round((1.0 - outside) * (resamples - 1))]


def decomposed(studies: Sequence[Mapping[str, Went]], *, larger_is_better: bool) -> Result:
    """Return what is told of many studies, each in its four forms: means, and intervals over the studies."""
    values: dict[str, list[float]] = {name: [] for name in (*RATIOS, "share_of_asynchrony", "change")}
    for forms in studies:
        times = {form: went.makespan_s for form, went in forms.items()}
        values["asynchrony"].append(times["async"] / times["waves"])
        values["stopping"].append(times["waves_median"] / times["waves"])
        values["both"].append(times["async_median"] / times["waves"])
        values["share_of_asynchrony"].append(share_of_asynchrony(times))
        change = forms["async_median"].best - forms["waves"].best
        values["change"].append(change if larger_is_better else -change)
    found: Result = {}
    for name, each in values.items():
        found[name] = fmean(each)
        found[f"{name}_low"], found[f"{name}_high"] = interval(each)
    for form in studies[0]:
        found[f"{form}_s"] = fmean(forms[form].makespan_s for forms in studies)
        found[f"{form}_best"] = fmean(forms[form].best for forms in studies)
        found[f"{form}_stopped"] = fmean(forms[form].stopped for forms in studies)
    found["details"] = {"studies": len(studies), **values}
    return found


def quantities(*, digits: int = 4) -> tuple[Quantity, ...]:
    """Return what is shown of ``decomposed``."""
    named = (*RATIOS, "share_of_asynchrony")
    return (
        *(Quantity(f"{name}{end}", "", 3) for name in named for end in ("", "_low", "_high")),
        *(Quantity(f"{form}_s", "s", 2) for form in ("waves", "waves_median", "async", "async_median")),
        *(Quantity(f"{form}_stopped", "", 1) for form in ("waves_median", "async_median")),
        *(Quantity(f"{form}_best", "", digits) for form in ("waves", "waves_median", "async", "async_median")),
        *(Quantity(f"change{end}", "", digits) for end in ("", "_low", "_high")),
    )
