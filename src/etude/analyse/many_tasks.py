"""Many tasks with few runs each: the interquartile mean over all of them, with an interval.

Source:
    Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 34: resampling
    is within each task, so that an interval tells what other runs of the same tasks would give.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from etude.analyse.libraries import scipy_stats
from etude.analyse.power import check_level
from etude.core.errors import ConfigError


class Middle(NamedTuple):
    """The interquartile mean of runs of several tasks.

    Attributes:
        mean: The mean of the middle half of all runs.
        low: Lower end of its interval.
        high: Upper end.
        tasks: How many tasks there are.
        runs: How many runs that came to a number.
        missing: How many that did not.
    """

    mean: float
    low: float
    high: float
    tasks: int
    runs: int
    missing: int

    def __str__(self) -> str:
        lost = f", {self.missing} missing" if self.missing else ""
        return f"{self.mean:.4g} ({self.low:.4g} to {self.high:.4g}; {self.runs} runs of {self.tasks} tasks{lost})"


def interquartile_mean(tasks: Mapping[str, Sequence[float]], *, level: float = 0.05, resamples: int = 5_000) -> Middle:
    """Return the interquartile mean of runs of several tasks, with an interval of a bootstrap within each task.

    Runs of all tasks count as they are: bring them to one scale before.

    Args:
        tasks: Task -> its runs.
        level: How often the interval misses.
        resamples: How many.

    Raises:
        ConfigError: No run came to a number, or scipy is missing.
    """
    import numpy as np

    check_level(level)
    kept = [np.array([v for v in runs if v is not None and math.isfinite(v)], dtype=float) for runs in tasks.values()]
    missing = sum(len(runs) for runs in tasks.values()) - sum(map(len, kept))
    kept = [runs for runs in kept if len(runs)]
    if not kept:
        raise ConfigError("No task has a run that came to a number, so there is no mean of them.")
    rng, trimmed = np.random.default_rng(0), scipy_stats().trim_mean
    drawn = np.concatenate([runs[rng.integers(0, len(runs), (resamples, len(runs)))] for runs in kept], axis=1)
    means = trimmed(drawn, 0.25, axis=1)
    low, high = np.quantile(means, [level / 2, 1 - level / 2])
    mean = float(trimmed(np.concatenate(kept), 0.25))
    return Middle(mean, float(low), float(high), len(kept), sum(map(len, kept)), missing)
