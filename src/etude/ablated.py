"""What came of an ablation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any, NamedTuple

from etude.ablate.pairing import Pairing, compare
from etude.core.lifecycle import State
from etude.results import Search, TrialResult


class ArmResult(NamedTuple):
    """What came of an arm.

    Attributes:
        name: What it is called.
        values: The main metric by training seed; NaN of trials that came to no number.
        effect: What it cost to take this away: the mean over seeds of the base's metric minus its own, in the metric's
            direction, so that a positive one says that the component helps; NaN without pairs.
        pairs: How many seeds that is a mean of.
        changes: What was done to the model, in words.
        parameters: How many the model has; None if nobody knows.
    """

    name: str
    values: Mapping[int, float]
    effect: float
    pairs: int
    changes: tuple[str, ...]
    parameters: int | None

    @property
    def mean(self) -> float:
        """The mean of those values that are numbers; NaN if none is."""
        known = [value for value in self.values.values() if math.isfinite(value)]
        return fmean(known) if known else math.nan


class Ablation(Search):
    """What came, or comes, of an ablation: a study with an arm for each thing that is taken away, and one for nothing.

    It tells raw differences of pairs. Whether they mean anything is another question.
    """

    @property
    def arms(self) -> list[ArmResult]:
        """What came of each arm so far, the base first."""
        by_arm: dict[str, dict[int, float]] = {}
        for trial in self.trials:
            if trial.arm is not None:
                done = trial.state == State.FINISHED.value and trial.value is not None
                by_arm.setdefault(trial.arm, {})[trial.seed] = float(trial.value) if done else math.nan  # type: ignore[arg-type]
        base = next(iter(by_arm.values()), {})
        sign = 1.0 if self.metrics.modes[self.metrics.main] == "max" else -1.0
        return [self._arm(name, values, base, sign, self._told(name)) for name, values in by_arm.items()]

    def _arm(
        self, name: str, values: Mapping[int, float], base: Mapping[int, float], sign: float, told: Mapping[str, Any]
    ) -> ArmResult:
        found = [sign * (base[seed] - value) for seed, value in values.items() if seed in base]
        pairs = [one for one in found if math.isfinite(one)]
        effect = fmean(pairs) if pairs else math.nan
        return ArmResult(name, values, effect, len(pairs), tuple(told.get("changes", ())), told.get("parameters"))

    def _told(self, arm: str) -> Mapping[str, Any]:
        """Return what was planned of an arm; nothing of one that results decided on."""
        planned = (self.meta.get("question") or {}).get("arms", [])
        return next((one for one in planned if one["name"] == arm), {})

    def pairing(self, arm: str) -> dict[int, Pairing]:
        """Return for each seed whether an arm's trial and that of the base are a pair, by how they began."""
        base = {trial.seed: trial for trial in self.of(self.arms[0].name)}
        return {
            trial.seed: compare(
                base[trial.seed].metrics.get("fingerprints", {}),
                trial.metrics.get("fingerprints", {}),
                data_differ=bool(self._told(arm).get("features")),
            )
            for trial in self.of(arm)
            if trial.seed in base
        }

    def of(self, arm: str) -> list[TrialResult]:
        """Return the trials of an arm, by its name."""
        return [trial for trial in self.trials if trial.arm == arm]
