"""The reports that count: those of each trial's newest attempt, and of whatever that one went on from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from etude.core.events import AnyFact, Assigned, Checkpointed, Reported, Resumed
from etude.core.history import History
from etude.core.metrics import Metrics
from etude.store.journal import Journal


class Report(msgspec.Struct, frozen=True):
    """One report of a trial.

    Attributes:
        step: How many times the study's metric had been reported.
        metrics: What was reported.
        attempt: The attempt that did.
        at: Seconds of the driver's clock (Unix time).
    """

    step: int
    metrics: dict[str, float]
    attempt: int
    at: float


class Reports:
    """Which reports count, as a fold over facts: what an attempt withdrew by starting over is not among them."""

    def __init__(self) -> None:
        self._found: dict[int, list[Report]] = {}
        self._before: dict[int, list[Report]] = {}
        self.begun_at: float | None = None
        """When the study began; None before that."""

    def apply(self, fact: AnyFact) -> None:
        """Fold one fact in."""
        if self.begun_at is None:
            self.begun_at = fact.at
        match fact:
            case Reported(trial=trial):
                self._found.setdefault(trial, []).append(Report(fact.step, fact.metrics, fact.attempt, fact.at))
            case Assigned(trial=trial):  # whether it goes on from there is said later, or never
                self._before.setdefault(trial, self._found.get(trial, []))
                self._found[trial] = []
            case Resumed(trial=trial, origin=origin):
                before = self._before.pop(trial, [])
                if origin.key is not None:
                    base = before if origin.source is None else self.of(origin.source)
                    self._found[trial] = [report for report in base if report.step <= origin.step]
            case Checkpointed(trial=trial):
                self._before.pop(trial, None)
            case _:
                pass

    def of(self, trial: int) -> list[Report]:
        """Return those of a trial, in order; of one that goes on from another trial's state, that one's as well."""
        return self._found.get(trial, [])


def as_it_stands(folder: Path, metrics: Metrics) -> tuple[History, Reports]:
    """Return what the journal in a folder tells of a study by now, and the reports that count: of the same moment.

    Args:
        folder: The study's.
        metrics: What it measures.

    Raises:
        JournalError: The journal is damaged.
    """
    history, reports = History(metrics), Reports()
    for fact in _facts(folder):
        history.apply(fact)
        reports.apply(fact)
    return history, reports


def _facts(folder: Path) -> Iterator[AnyFact]:
    with contextlib.closing(Journal.read(folder)) as journal:
        yield from journal.facts()
