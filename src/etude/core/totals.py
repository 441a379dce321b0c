"""What the trials of a study come to, all of them together. A running study is counted as it stands."""

from __future__ import annotations

from collections import Counter

from etude.core.history import History
from etude.core.lifecycle import State


def counts(history: History) -> dict[str, int]:
    """Return how many trials stand where."""
    return dict(Counter(t.state.value for t in list(history.trials)))


def makespan_s(history: History) -> float | None:
    """Return the seconds from the first attempt's hand-out to the last end; None if none has ended."""
    ends = [t.ended_at for t in list(history.trials) if t.started_at is not None and t.ended_at is not None]
    return max(ends) - history.started_at if ends and history.started_at is not None else None


def elapsed_s(history: History) -> float | None:
    """Return the seconds that a study was worked on, all its runs together; None if nobody has begun."""
    return history.spending.worked_s(history.at) if history.drivers else None


def saved(history: History) -> tuple[int, int]:
    """Return how many trials were stopped early, and how many reports they were spared.

    A stopped trial is taken to have had as many reports to go to as the longest finished one had.
    """
    stopped = [t for t in history.trials if t.state is State.STOPPED and t.same_as is None and t.probe is None]
    full = max((t.reports for t in history.finished), default=0)
    return len(stopped), sum(max(0, full - t.reports) for t in stopped)


def saved_epochs(history: History) -> tuple[int, int]:
    """Return how many epochs were not trained twice, since trials went on from others, and how many they all have."""
    return history.shares.epochs


def parameters(history: History) -> list[str]:
    """Return the names of all parameters, in the order in which trials have them."""
    names: dict[str, None] = {}
    for trial in history.trials:
        names.update(dict.fromkeys(trial.params))
    return list(names)
