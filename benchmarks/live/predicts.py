"""What goes along with a warm start that helps: rows from kept lines, and rank correlations with the speed-up.

Nothing is trained here. A row is a start other than random weights, on one workload: of the live runs
(``benchmarks.weights_live``), or of the raw runs of the paper (``benchmarks.weights_paper5``). A predictor is a number
that is known before most of a training is paid for. What is not known is NaN, and such a row counts for the other
predictors only.

Starts of one workload have the random runs and the winning trial in common, so they are no independent rows. A
predictor that only tells the workloads apart looks good over all rows. Hence each correlation is also taken within the
workloads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

import numpy as np

from benchmarks.live.judged import AUTO, RANDOM, auto, fixed, times
from benchmarks.paper5.judged import charges_of
from benchmarks.paper5.printed import RANDOM as RANDOM_ARM
from benchmarks.paper5.printed import WORKLOADS
from etude.analyse.corrections import holm
from etude.fit.clocks import Target
from etude.fit.costs import Clock

PROBE: Final = "probe gap"
TUNED: Final = "tuning epochs / training epochs"
DISTANCE: Final = "distance to the final accuracy"
MEMORISED: Final = "training loss / validation loss"
INHERITED: Final = "inherited share"
PREDICTORS: Final = (PROBE, TUNED, DISTANCE, MEMORISED, INHERITED)

JUDGES: Final = {"loss": 1.0, "accuracy": -1.0}
"""By what probes may be judged -> 1 if less of it is better, else -1."""

LEVEL: Final = 0.05
RESAMPLES: Final = 9_999
LEAST_ROWS: Final = 3
"""With fewer there is no order to speak of."""

POINTS: Final = 100
SLACK: Final = 1e-9
"""Correlations that differ by less are equal: they are sums of floats in another order."""

WINNER: Final = re.compile(r"epoch (\d+) of trial (\d+)")
"""How the name of weights tells where they are from."""


@dataclass(frozen=True)
class Row:
    """A start other than random weights, on one workload.

    Attributes:
        workload: Its name.
        start: Its name.
        gain: The mean over the seeds of the log of the steps of random weights to the target, less that of the steps of
            this start, on the marginal clock. Above 0, the start is faster.
        known: Predictor -> its value; NaN where that is not known.
    """

    workload: str
    start: str
    gain: float
    known: Mapping[str, float]

    @property
    def speed_up(self) -> float:
        """Geometric mean of the steps of random weights over that of this start."""
        return math.exp(self.gain)


@dataclass(frozen=True)
class Within:
    """A rank correlation within workloads.

    Attributes:
        workloads: In how many there is one: three rows at least, which differ in both numbers.
        rho: Its mean over these.
        p: Of a test that deals the gains out anew within each workload, two-sided.
        p_holm: The same, for all predictors at once.
    """

    workloads: int
    rho: float
    p: float
    p_holm: float = math.nan


@dataclass(frozen=True)
class Link:
    """How a predictor goes along with the gain.

    Attributes:
        predictor: Its name.
        rows: How many rows have it.
        rho: Spearman's rank correlation over these rows; NaN if there are too few, or all are the same.
        p: Of a test that deals the gains out to the rows anew, two-sided.
        p_holm: The same, for all predictors at once.
        within: The same within workloads; NaN and 0 workloads where none has different values.
    """

    predictor: str
    rows: int
    rho: float
    p: float
    p_holm: float
    within: Within

    @property
    def over_rows(self) -> bool:
        """Whether it is seen over all rows, beyond chance and the number of predictors."""
        return self.p_holm <= LEVEL

    @property
    def in_workloads(self) -> bool:
        """Whether it is seen within workloads, beyond chance and the number of predictors."""
        return self.within.p_holm <= LEVEL


def live_rows(line: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a line of ``benchmarks.weights_live``, workload by workload."""
    return [row for cell in line["details"].values() for row in rows_of(cell["record"])]


def rows_of(record: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a workload's record: one for each fixed start but random weights."""
    runs = fixed(record)
    steps = times(runs, Target(record["target"], "max"), Clock.MARGINAL)
    final = fmean(max(run.curve.values) for run in runs[RANDOM])
    trials = record["search"]["trials"]
    found = []
    for name, start in record["starts"].items():
        if name == RANDOM:
            continue
        known = {
            PROBE: _probed(record, RANDOM, "loss") - _probed(record, name, "loss"),
            TUNED: len(trials[record["search"]["best"]]["accuracy"]) / record["epochs"],
            DISTANCE: POINTS * (final - _probed(record, name, "accuracy")),
            MEMORISED: _memorised(trials, start["weights"]),
            INHERITED: start["inherited"]["epochs"] / record["epochs"],
        }
        found.append(Row(record["workload"], name, _gain(steps[RANDOM][0], steps[name][0]), known))
    return found


def judged_by(record: Mapping[str, Any], metric: str) -> float:
    """Return the mean steps to the target from what probes had chosen, judged by a metric; their own are not counted.

    Args:
        record: A workload's, with what its probes reported.
        metric: One of ``JUDGES``.
    """
    chosen = {
        one["seed"]: (min(one["probes"], key=lambda name: JUDGES[metric] * one["probes"][name][metric]), 0.0)
        for one in record["auto"]
    }
    runs = {**fixed(record), AUTO: auto(record, chosen)}
    return fmean(times(runs, Target(record["target"], "max"), Clock.MARGINAL)[AUTO][0])


def _probed(record: Mapping[str, Any], start: str, metric: str) -> float:
    """Return what the probes of a start reported, in the mean over the seeds; NaN if there were none."""
    told = [chosen["probes"][start][metric] for chosen in record.get("auto", ()) if start in chosen["probes"]]
    return fmean(told) if told else math.nan


def _memorised(trials: Sequence[Mapping[str, Any]], weights: str) -> float:
    """Return the training loss over the validation loss that was reported of weights; of several, the mean."""
    ratios = []
    for epoch, trial in WINNER.findall(weights):
        of_it, place = trials[int(trial)], int(epoch) - 1
        ratios.append(of_it["train_loss"][place] / of_it["loss"][place])
    return fmean(ratios) if ratios else math.nan


def raw_rows(line: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a line of ``benchmarks.weights_paper5``: one for each workload and epoch of its weights.

    No step of a probe and no loss was recorded. The accuracy with which a start began is that after its first epoch,
    the first that was.
    """
    typed = {workload.name: workload for workload in WORKLOADS}
    found = []
    for one in line["details"]["étude"]["workloads"]:
        arms = {arm["start"]: arm for arm in one["arms"]}
        random, epochs = arms.pop(RANDOM_ARM), one["epochs"]
        for start, arm in arms.items():
            known = {
                PROBE: math.nan,
                TUNED: typed[one["name"]].tuning.epochs / epochs,
                DISTANCE: random["best_mean"] - arm["first_mean"],
                MEMORISED: math.nan,
                INHERITED: charges_of(typed[one["name"]], start).inherited.epochs / epochs,
            }
            gain = _gain(*(_up_to_horizon(each) for each in (random, arm)))
            found.append(Row(one["name"], start, gain, known))
    return found


def _up_to_horizon(arm: Mapping[str, Any]) -> list[float]:
    """Return the epochs of an arm's runs to the target. On the marginal clock they are those of the sunk one."""
    horizon = arm["sunk"]["horizon"]
    return [min(epochs, math.inf if horizon is None else horizon) for epochs in arm["epochs_of_runs"]]


def _gain(random: Sequence[float], ours: Sequence[float]) -> float:
    return fmean(map(math.log, random)) - fmean(map(math.log, ours))


def links(rows: Sequence[Row], predictors: Sequence[str] = PREDICTORS) -> list[Link]:
    """Return how each predictor goes along with the gain, with p-values for all of them at once.

    Predictors without a correlation are no tests, and are not counted as such.

    Source:
        Spearman's rank correlation, with mean ranks for ties; Holm 1979, "A Simple Sequentially Rejective Multiple Test
        Procedure". The p-value of a drawn permutation test counts what was seen as one of the draws: Phipson and Smyth
        2010, "Permutation P-values Should Never Be Zero", doi:10.2202/1544-6115.1585.
    """
    over, within = [], []
    for predictor in predictors:
        known = [row for row in rows if not math.isnan(row.known.get(predictor, math.nan))]
        over.append((len(known), *_tested([known], predictor)))
        within.append(_tested([[r for r in known if r.workload == name] for name in _names(known)], predictor))
    over_holm, within_holm = (_corrected([found[-1] for found in tested]) for tested in (over, within))
    return [
        Link(predictor, many, rho, p, over_holm[nth], Within(*within[nth], within_holm[nth]))
        for nth, (predictor, (many, _, rho, p)) in enumerate(zip(predictors, over, strict=True))
    ]


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.workload for row in rows))


def _corrected(ps: Sequence[float]) -> list[float]:
    """Return p-values for all claims at once, of which those that are NaN are none."""
    corrected = iter(holm([p for p in ps if not math.isnan(p)]))
    return [p if math.isnan(p) else next(corrected) for p in ps]


def _tested(groups: Sequence[Sequence[Row]], predictor: str) -> tuple[int, float, float]:
    """Return in how many groups of rows there is a correlation, its mean over these, and its p-value.

    The gains are dealt out anew within each group, and never from one to another.
    """
    draws = np.random.default_rng(0)
    seen, dealt = [], []
    for group in groups:
        x, y = _ranks([row.known[predictor] for row in group]), _ranks([row.gain for row in group])
        if len(group) < LEAST_ROWS or not x.any() or not y.any():
            continue
        orders = draws.permuted(np.tile(np.arange(len(y)), (RESAMPLES, 1)), axis=1)
        seen.append(x @ y)
        dealt.append(y[orders] @ x)
    if not seen:
        return 0, math.nan, math.nan
    rho, others = fmean(map(float, seen)), np.mean(dealt, axis=0)
    as_far = int((np.abs(others) >= abs(rho) - SLACK).sum())
    return len(seen), rho, (1 + as_far) / (1 + RESAMPLES)


def _ranks(values: Sequence[float]) -> Any:
    """Return the ranks of values around their mean, with length 1; zeros if all are the same."""
    from scipy.stats import rankdata

    ranks = rankdata(values) - (len(values) + 1) / 2
    length = float(np.linalg.norm(ranks))
    return ranks / length if length else ranks
