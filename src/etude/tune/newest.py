"""Optuna's memory of a search, of which its sampler sees the best trials and the newest ones."""

from __future__ import annotations

import bisect
from collections.abc import Container, Sequence
from typing import Any, Final

from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, TrialState

BEST: Final = 25
"""TPE takes so many trials for good ones, at most."""


class Newest(InMemoryStorage):
    """Shows the ``BEST`` trials that finished, as many of those that were stopped, and the newest of all.

    Args:
        shown: How many of the newest.
    """

    def __init__(self, shown: int) -> None:
        super().__init__()
        self._shown = shown
        self._best: dict[TrialState, list[tuple[Any, int]]] = {TrialState.COMPLETE: [], TrialState.PRUNED: []}

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Sequence[float] | None = None) -> bool:
        """Note how a trial ended, and whether it is one of the best (Optuna's interface)."""
        done = super().set_trial_state_values(trial_id, state, values)
        best = self._best.get(state)
        if best is not None:
            trial = self.get_trial(trial_id)
            bisect.insort(best, (_rank(trial), trial.number))
            del best[BEST:]
        return done

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        """Return what is shown (Optuna's interface)."""
        if states == (TrialState.WAITING,):  # asked with each proposal, and there are none
            return []
        trials = super().get_all_trials(study_id, deepcopy=False)
        first = max(0, len(trials) - self._shown)
        older = sorted(number for best in self._best.values() for _, number in best if number < first)
        shown = [*(trials[number] for number in older), *trials[first:]]
        return shown if states is None else [trial for trial in shown if trial.state in states]


def _rank(trial: FrozenTrial) -> Any:
    """Return what TPE sorts trials of one state by; those that were stopped first of all by how far they came."""
    if trial.state is TrialState.COMPLETE:
        return trial.value
    step, value = max(trial.intermediate_values.items())
    return (-step, value)
