"""What a sampler is told of a study: of each trial when it is queued, and when it has come to its end."""

from __future__ import annotations

import math

from etude.core.events import AnyFact, Params, Queued, Settled
from etude.core.history import History, Trial
from etude.core.lifecycle import FINAL, State
from etude.core.metrics import Metrics
from etude.tune.sampler import Told
from etude.tune.sampling import Ask, Tell


def as_told(trial: Trial, metrics: Metrics) -> Told:
    """Return what a sampler is told of a settled trial.

    Of trials that have budgets, one that finished with less than the largest is told as one that was stopped, with the
    number of its rung, from 1, as the step that it came to: so those with the largest budgets are modelled first.
    """
    params = proposed(trial.params, metrics)
    step = trial.reports
    below = False
    if metrics.fidelity is not None:
        rung = metrics.fidelity.rung(trial.params)
        below = rung + 1 < len(metrics.fidelity.rungs)
        step = rung + (trial.state is State.FINISHED)  # who was stopped on the way did not come to the end of its rung
    if trial.state is State.FINISHED and trial.value is not None:
        losses = metrics.losses(metrics.values(trial))
        return Told(trial.number, params, "stopped" if below else "finished", losses, step)
    if trial.state is State.STOPPED and trial.reports:
        return Told(trial.number, params, "stopped", metrics.losses(_last_of(trial, metrics)), step)
    if trial.state is State.INVALID:  # worse than anything, so that it keeps away from there
        return Told(trial.number, params, "invalid", (math.inf,) * len(metrics.names))
    return Told(trial.number, params, "failed")


def _last_of(trial: Trial, metrics: Metrics) -> dict[str, float]:
    """Return the last report of each metric; NaN of those that never came."""
    if len(metrics.names) == 1:
        return {metrics.main: trial.curve[-1]}
    return {name: trial.last.get(name, math.nan) for name in metrics.names}


def proposed(params: Params, metrics: Metrics) -> Params:
    """Return a configuration as the sampler proposed it: its budget was not the sampler's to choose."""
    if metrics.fidelity is None:
        return params
    return {name: value for name, value in params.items() if name != metrics.fidelity.name}


class Story:
    """What a sampler has to be told, in order.

    At first that is all that earlier ones were told and asked: it brings a new one to where the one before it was. From
    then on it is what has happened since.

    Args:
        history: The study, as the facts make it.
        recalls: Whether the sampler's state hangs on its own proposals, so that these have to be asked for again.
    """

    def __init__(self, history: History, *, recalls: bool) -> None:
        self._history = history
        self._recalls = recalls
        self.seq = 0
        """Number of the last fact that was taken in."""
        self._untold: list[tuple[int, bool, Tell | Ask]] = []

    def add(self, fact: AnyFact) -> None:
        """Take in the next fact, which the history knows already."""
        self.seq += 1
        if self._recalls and type(fact) is Queued and fact.upto is not None:
            asked = (Ask(fact.trial, redraw, again=True) for redraw in range(fact.redraw + 1))
            self._untold += [(fact.upto, True, ask) for ask in asked]
        told = as_news(fact, self._history)
        if told is not None:
            self._untold.append((self.seq, False, Tell(told)))

    def tell(self) -> list[Tell | Ask]:
        """Return all that was not told yet, each proposal asked for after the last fact that was known then."""
        self._recalls = False  # from now on there is a sampler, which knows what it proposes
        untold, self._untold = self._untold, []
        return [message for _, _, message in sorted(untold, key=lambda said: said[:2])]


def as_news(fact: AnyFact, history: History) -> Told | None:
    """Return what a fact means for a sampler; None if that is nothing."""
    if type(fact) is Queued:
        return Told(fact.trial, proposed(fact.params, history.metrics))
    if type(fact) is Settled and history.trials[fact.trial].state in FINAL:
        return as_told(history.trials[fact.trial], history.metrics)
    return None
