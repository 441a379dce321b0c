"""Several weights to begin with, compared over seeds, in one call."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from etude.core.errors import ConfigError, StudyError
from etude.core.numbers import is_number
from etude.core.text import brief
from etude.fit.clocks import Target
from etude.fit.compared import Arm, Comparison, compare
from etude.fit.prepared import read_seeds
from etude.fit.weights import RANDOM
from etude.launching.call import Call
from etude.results.fitted import charges_of, curve_of
from etude.results.search import TrialResult
from etude.verbs.final import final

if TYPE_CHECKING:
    from etude.experiment import Experiment


def compare_starts(
    experiment: Experiment,
    *,
    at: TrialResult | Mapping[str, Any],
    starts: Sequence[object],
    seeds: int | Sequence[int] = 8,
    target: float | None = None,
    share: float = 1.0,
    validated: float = 0.0,
    steps_per_epoch: float = math.nan,
    workers: int | tuple[int, int | None] | None = None,
    name: str | None = None,
    engine: object = None,
    progress: bool | None = None,
) -> Comparison:
    """Train from each of some weights with each of some seeds, and compare them with random weights, seed by seed.

    It is one study, so the same call again goes on where it is. A run is taken to report its metric once an epoch.

    Args:
        experiment: Whose functions are run.
        at: The configuration of all runs: a trial, or parameters.
        starts: What to begin with, each as ``fit`` takes it; random weights are compared with, listed or not.
        seeds: How many, or which. With fewer than six no paired test can come below 0.05.
        target: The value of the metric that the runs are to reach, fixed beforehand: then it is told how soon they do,
            on three clocks. Without one, ``comparison.over(targets)`` has the whole curve.
        share: Training examples of the trials whose weights these were, over those of the final runs: 0.8 where the
            rest was kept for validation.
        validated: Examples that such a trial validated with after each epoch, over the training examples of the final
            runs.
        steps_per_epoch: Steps of the optimizer in an epoch of the final runs, if the times are wanted in steps.
        workers: As in ``tune``.
        name: See ``tune``.
        engine: See ``tune``.
        progress: See ``tune``.

    Returns:
        The comparison: print it.

    Raises:
        ConfigError: The call cannot be carried out.
        StateError: Weights cannot be read, or do not fit the model at all.
        StudyError: The study's folder cannot be used, or not all runs came to their end.
    """
    if isinstance(starts, str | Mapping) or not isinstance(starts, Sequence) or not starts:
        raise ConfigError(f"starts={brief(starts)} is no list of weights. Pass starts=[search.best.weights].")
    if target is not None and not is_number(target):
        raise ConfigError(f"target={brief(target)} is no value of the metric. Pass a number.")
    own = [start for start in starts if start is not None and start != RANDOM]
    listed = read_seeds(seeds, 0)
    modes = experiment.metrics.modes
    aim = Target(float(target), modes[experiment.metrics.watched]) if target is not None else None
    call = Call.read(
        workers=workers,
        name=name,
        retries=2,
        timeout_s=None,
        grace_s=10.0,
        reuse_child=False,
        keep=0,
        engine=engine,
        trials=len(listed) * (1 + len(own)),
    )
    params = experiment.checked(at)
    live = final(experiment, params, [None, *own], call, seeds=listed)
    experiment.last = live.search
    live.wait(progress=progress)
    trials = live.search.trials
    unfinished = [trial.number for trial in trials if trial.state != "finished" or not trial.curve]
    if unfinished:
        raise StudyError(
            f"Of {len(trials)} runs, {unfinished} did not come to their end with reports, and a comparison of the "
            f"others would be one of what went well. See: etude trials {live.search.folder}"
        )
    arms = []
    for nth in range(1 + len(own)):
        runs = trials[nth * len(listed) : (nth + 1) * len(listed)]
        charges = charges_of(runs[0], share=share, validated=validated, steps_per_epoch=steps_per_epoch)
        curves = tuple(curve_of(run, steps_per_epoch) for run in runs)
        arms.append(Arm(runs[0].start or RANDOM, curves, charges))
    watched = experiment.metrics.watched
    compared = compare(arms, mode=modes[watched], target=aim)
    return Comparison(watched, tuple(compared), aim, tuple(arms), live.search)
