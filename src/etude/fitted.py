"""What came of a final training."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from etude.core.signature import Definition
from etude.fit.weights import TrialWeights
from etude.results import Search, TrialResult


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
        return next((trial.because for trial in self.trials if self.probes and trial.probe is None), "")

    @property
    def value(self) -> float | None:
        """The main metric of its best trial."""
        return self.best.value

    @property
    def weights(self) -> TrialWeights:
        """The weights of its best trial; as ``TrialResult.weights``."""
        return self.best.weights

    def model(self, experiment: Definition | None = None) -> Any:
        """Return the model of its best trial with its weights, ready to predict; as ``TrialResult.model``."""
        return self.best.model(experiment)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the weights of its best trial as one safetensors file, and return its path.

        The file's metadata say what they are: the parameters, the metric, a digest of the code, and whose weights they
        grew from.

        Raises:
            ConfigError: No weights were kept.
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
