"""How much each parameter of a search matters: shares of the metric's variance, or of what the best trials have.

Columns are places from 0 to 1, so that a parameter is weighed as it was searched: a learning rate on its logarithmic
range by orders of magnitude. fANOVA is ours, over scikit-learn's forests (``analyse.forest``), PED-ANOVA Optuna's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from etude.analyse.columns import Column
from etude.analyse.forest import Forest
from etude.analyse.table import aligned
from etude.core.errors import ConfigError
from etude.core.text import brief, count

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

By = Literal["fanova", "pedanova"]
METHODS: Final = ("fanova", "pedanova")

FEWEST: Final = 10
"""Of fewer trials nothing is told."""

TREES: Final = 64
TREES_AGAIN: Final = 16
"""For a resample of the trials, whose forests are only there for the interval."""

RESAMPLES: Final = 20
"""From so many resamples of the trials come the intervals."""

TOP: Final = 0.1
"""Of PED-ANOVA: what the best tenth of the trials have that the others have not."""


@dataclass(frozen=True)
class Importance:
    """How much a parameter matters.

    Attributes:
        parameter: Its name.
        share: Of fANOVA, which share of the metric's variance over the space is its own, by a forest's account; what
            is missing to 1 are interactions. Of PED-ANOVA, its share of what sets the best trials apart.
        low: Lower end of its 90 % interval, by a bootstrap over the trials.
        high: Upper end.
        within: Of a parameter that exists under some choices only, how many trials have it: the share is of those.
    """

    parameter: str
    share: float
    low: float = math.nan
    high: float = math.nan
    within: int | None = None


class Importances(Sequence[Importance]):
    """How much parameters matter, the most important first: print it.

    Args:
        found: What was found.
        by: How.
        trials: Of how many trials.
        says: What should be said with it.
    """

    def __init__(self, found: Sequence[Importance], *, by: str, trials: int, says: Sequence[str] = ()) -> None:
        self._found = sorted(found, key=lambda one: -one.share)
        self.by = by
        self.trials = trials
        self.says = tuple(says)

    def __getitem__(self, which: Any) -> Any:
        if not isinstance(which, str):
            return self._found[which]
        found = next((one for one in self._found if one.parameter == which), None)
        if found is None:
            raise KeyError(f"{which!r} is none of {', '.join(one.parameter for one in self)}")
        return found

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Importance]:
        return iter(self._found)

    def __str__(self) -> str:
        head = f"Importance by {self.by}, of {count(self.trials, 'trial')}:"
        rows = [
            [
                one.parameter,
                f"{one.share:.1%}",
                f"{one.low:.1%} to {one.high:.1%}" if not math.isnan(one.low) else "",
                f"within the {one.within} trials that have it" if one.within is not None else "",
            ]
            for one in self
        ]
        return "\n".join([*self.says, head, *aligned([["parameter", "share", "90 % interval", ""], *rows])])


def importance(
    columns: Sequence[Column],
    values: Array,
    *,
    by: By = "fanova",
    mode: str = "max",
    intervals: bool = True,
    seed: int = 0,
) -> Importances:
    """Return how much each parameter matters.

    Args:
        columns: What was varied.
        values: What each trial came to, finite.
        by: ``"fanova"``: shares of the variance over the whole space; ``"pedanova"``: what the best tenth have in
            common, which asks only where good trials are, and takes thousands of them in seconds.
        mode: In which direction values are better.
        intervals: Whether to give intervals, which take most of the time.
        seed: Of the forests and of the resamples.

    Raises:
        ConfigError: There are too few trials or no parameters, the method is none, or scikit-learn is missing.

    Source:
        Hutter et al. 2014, "An Efficient Approach for Assessing Hyperparameter Importance"; Watanabe et al. 2023,
        "PED-ANOVA", as ``optuna.importance`` has it. Our departures: parameters under a choice have a share among the
        trials that have them; intervals, which tell what other trials would have said, and not what the method misses:
        a forest of few trials gives weak parameters less than they have.
    """
    import numpy as np

    if by not in METHODS:
        raise ConfigError(f"by={brief(by)} is no method. Pass one of {', '.join(map(repr, METHODS))}.")
    if not columns:
        raise ConfigError("Nothing was searched that has more than one value, so nothing can be important.")
    if len(values) < FEWEST:
        raise ConfigError(
            f"{count(len(values), 'trial')} with a value are too few to tell what is important; it takes {FEWEST}."
        )
    judge = _fanova if by == "fanova" else _pedanova
    always = [column for column in columns if column.always]
    found = _shares(judge, always, values, mode=mode, intervals=intervals, seed=seed)
    for column in columns:
        there = ~np.isnan(column.places)
        n = int(there.sum())
        if column.always or n < FEWEST:
            continue
        among = [other.taken(there) for other in columns if not bool(np.isnan(other.places[there]).any())]
        told = _shares(judge, among, values[there], mode=mode, intervals=intervals, seed=seed)
        found += [Importance(column.name, o.share, o.low, o.high, n) for o in told if o.parameter == column.name]
    return Importances(found, by=by, trials=len(values))


Judge = Callable[[Sequence[Column], "Array", str, int, bool], "dict[str, float]"]


def _shares(
    judge: Judge, columns: Sequence[Column], values: Array, *, mode: str, intervals: bool, seed: int
) -> list[Importance]:
    """Return shares with their intervals."""
    import numpy as np

    if not columns or float(np.ptp(values)) == 0.0:
        return [Importance(column.name, 0.0, 0.0, 0.0) for column in columns]
    whole = judge(columns, values, mode, seed, False)
    if not intervals:
        return [Importance(name, share) for name, share in whole.items()]
    rng = np.random.default_rng(seed)
    again: dict[str, list[float]] = {name: [] for name in whole}
    for nth in range(RESAMPLES):
        rows = rng.integers(0, len(values), len(values))
        found = judge([column.taken(rows) for column in columns], values[rows], mode, seed + nth, True)
        for name, share in found.items():
            again[name].append(share)
    ends = {name: np.percentile(shares, [5, 95]) for name, shares in again.items()}
    return [
        Importance(name, share, min(share, float(ends[name][0])), max(share, float(ends[name][1])))
        for name, share in whole.items()
    ]


def _fanova(columns: Sequence[Column], values: Array, mode: str, seed: int, again: bool) -> dict[str, float]:
    return Forest(columns, values, trees=TREES_AGAIN if again else TREES, seed=seed).shares()


def _pedanova(columns: Sequence[Column], values: Array, mode: str, seed: int, again: bool) -> dict[str, float]:
    from optuna.importance import PedAnovaImportanceEvaluator

    losses = -values if mode == "max" else values
    found = _told(PedAnovaImportanceEvaluator(target_quantile=TOP, evaluate_on_local=True), columns, losses)
    total = sum(found.values())
    return {name: share / total if total > 0 else 0.0 for name, share in found.items()}


def _told(evaluator: Any, columns: Sequence[Column], values: Array) -> dict[str, float]:
    """Return what an evaluator of Optuna's says of columns without gaps."""
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
    from optuna.trial import create_trial

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    names = [f"{nth:04d}" for nth in range(len(columns))]
    ranges: dict[str, BaseDistribution] = {
        name: CategoricalDistribution(list(range(len(column.labels))))
        if column.is_choice
        else FloatDistribution(0.0, 1.0)
        for name, column in zip(names, columns, strict=True)
    }
    cells = {
        name: column.places.astype(int).tolist() if column.is_choice else column.places.clip(0.0, 1.0).tolist()
        for name, column in zip(names, columns, strict=True)
    }
    study = optuna.create_study(direction="minimize")
    study.add_trials(
        [
            create_trial(params={name: cells[name][nth] for name in names}, distributions=ranges, value=float(value))
            for nth, value in enumerate(values)
        ]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an evaluator is experimental is nothing that users could change
        found = evaluator.evaluate(study, params=names)
    return {column.name: float(found[name]) for name, column in zip(names, columns, strict=True)}
