"""What came of a final training."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from etude.core import markup
from etude.core.errors import StudyError
from etude.core.signature import Definition
from etude.fit.clocks import Curve, Target
from etude.fit.costs import Charges, Cost, inherited
from etude.fit.times import Times, times_to
from etude.fit.weights import TrialWeights
from etude.results.in_notebooks import trainings_table
from etude.results.search import Search, TrialResult


class Fit(Search):
    """What came, or comes, of a final training: a study whose trials were known beforehand.

    With several seeds, ``value``, ``weights``, ``model`` and ``save`` are those of the best trial; ``trials`` has all.
    """

    @property
    def probes(self) -> list[TrialResult]:
        """The trials that chose what the training was to begin with; none if nobody had to choose."""
        return [trial for trial in self.trials if trial.probe is not None]

    @property
    def chosen(self) -> str:
        """What probes chose, and why, in a sentence; empty if there are none, or they have not chosen yet."""
        trials = self.trials
        if not any(trial.probe is not None for trial in trials):
            return ""
        return next((trial.because for trial in trials if trial.probe is None), "")

    @property
    def value(self) -> float | None:
        """The main metric of its best trial."""
        return self.best.value

    @property
    def weights(self) -> TrialWeights:
        """The weights of its best trial; as ``TrialResult.weights``."""
        return self.best.weights

    def _repr_html_(self) -> str:
        told = trainings_table(self.trials, metrics=self.metrics.names)
        return markup.block(markup.lines(self.headlines()), told)

    def times_to(
        self, target: float, *, share: float = 1.0, validated: float = 0.0, steps_per_epoch: float = math.nan
    ) -> Times:
        """Return how soon its runs reached a value of the metric, on three clocks: print it.

        ``sunk``: the search was run anyway, and its weights cost nothing, as in the paper. ``marginal``: with what was
        spent to have them, which are the probes. ``charged``: and the epochs that they had been trained, paid for.
        They are told in epochs, steps and seconds of this training; a run is taken to report once an epoch.

        Args:
            target: To be fixed beforehand: chosen after the runs were seen, it can be chosen for its result.
            share: Training examples of the trials whose weights these were, over those of this training.
            validated: Examples that such a trial validated with after each epoch, over those of this training.
            steps_per_epoch: Steps of the optimizer in an epoch, if the times are wanted in steps.

        Raises:
            ConfigError: A number cannot be.
            StudyError: No run has come to its end with reports.
        """
        runs = [trial for trial in self.trials if trial.probe is None and trial.state == "finished" and trial.curve]
        if not runs:
            raise StudyError(
                f"No run of {self.name!r} has come to its end with reports, so nothing says how soon a target is "
                "reached. Report the metric after each epoch, run.report(...)."
            )
        probed = sum(probe.probe["portion"] for probe in self.probes if probe.probe)
        charges = charges_of(
            runs[0], share=share, validated=validated, steps_per_epoch=float(steps_per_epoch), probed=probed
        )
        aim = Target(float(target), self.metrics.modes[self.metrics.watched])
        return times_to(aim, [curve_of(run, steps_per_epoch) for run in runs], charges)

    def model(self, experiment: Definition | None = None) -> Any:
        """Return the model of its best trial with its weights, ready to predict; as ``TrialResult.model``.

        Args:
            experiment: Whose model function builds it; that of the study, where this process ran it, if left out.

        Raises:
            ConfigError: No weights were kept, or nothing says how the model is built.
            StateError: The weights are damaged, or not those of this model.
            StudyError: No trial has finished.
        """
        return self.best.model(experiment)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the weights of its best trial as one safetensors file, and return its path.

        The file's metadata say what they are: the parameters, the metric, a digest of the code, and whose weights they
        grew from.

        Args:
            path: The file to write; one that is there is replaced.

        Raises:
            ConfigError: No weights were kept.
            StudyError: No trial has finished.
            OSError: The file cannot be written.
        """
        best, weights = self.best, self.best.weights
        return weights.save(
            path,
            params=json.dumps(best.params),
            seed=str(best.seed),
            metrics=json.dumps(best.values),
            code=str(self.meta.get("code", "")),
        )


def charges_of(
    trial: TrialResult, *, share: float, validated: float, steps_per_epoch: float, probed: float = 0.0
) -> Charges:
    """Return what the weights had cost that a run began with.

    Args:
        trial: The run.
        share: See ``Fit.times_to``.
        validated: See ``Fit.times_to``.
        steps_per_epoch: See ``Fit.times_to``.
        probed: Epochs that probes had trained to choose them.
    """
    epoch = Cost(1.0, steps_per_epoch, math.nan)
    trained = sum(epochs for _, _, epochs in trial.ancestors)
    paid = inherited(trained, share=share, validated=validated, epoch=epoch)
    return Charges(kept=epoch.times(probed), inherited=paid)


def curve_of(trial: TrialResult, steps_per_epoch: float) -> Curve:
    """Return what a run measured; its seconds are known if it came to its end in one attempt."""
    seconds: float | list[float] = math.nan
    if trial.attempts == 1 and trial.started_at is not None:
        at = {report.step: report.at - trial.started_at for report in trial.reports if report.attempt == 1}
        if len(at) == len(trial.curve):
            passed = [at[step] for step in sorted(at)]
            seconds = [now - before for before, now in zip([0.0, *passed], passed, strict=False)]
    return Curve.by_epoch(trial.curve, steps=steps_per_epoch, seconds=seconds)
