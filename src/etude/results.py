"""What came of a study: its trials, the best of them, and a summary for people.

Read from the journal, so it needs none of the user's code; ``etude.open(folder)`` does the same for
any study. While a study runs, the same object shows how far it is.
"""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from etude.core.errors import StudyError
from etude.core.events import How, Params
from etude.core.history import History, Trial
from etude.core.lifecycle import State
from etude.core.metrics import Fidelity, Metrics
from etude.core.ranking import best_of, front, ranked
from etude.core.text import count
from etude.going_on import resume_command
from etude.store.journal import FILE, Journal

SHOWN: Final = 5
"""Trials that a summary shows of a Pareto front, and a table of the best."""

SHOWN_IN_TABLES: Final = 20
"""Trials that a table shows of a Pareto front."""

INSET: Final = "  "
"""Begins the lines of a summary that a table says better."""

OWN_COLUMNS: Final = ("trial", "state", "seed", "same_as")


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


class TrialResult:
    """One trial of a study, to look at.

    Attributes:
        number: Its number, from 0.
        params: Its configuration.
        seed: Its training seed: ``experiment.run(**trial.params, seed=trial.seed)`` runs it again.
        state: Where it stands: ``"finished"``, ``"stopped"``, ``"failed"``, ``"invalid"``, ...
        value: The study's metric, the main one of several; None unless it finished.
        values: Each of the study's metrics by name; empty unless it finished.
        metrics: What the training function returned beside the main metric.
        reason: Why it stands where it stands, in one line.
        same_as: The earlier trial with the same configuration, whose result this is; else None.
        promotes: The earlier trial that this one carried on with a larger budget; else None.
        attempts: How many times it was tried.
        halted: Whether its study had it stop, be it that it was not worth going on with or had shown what it can.
    """

    def __init__(self, trial: Trial, folder: Path, metrics: Metrics) -> None:
        self.number = trial.number
        self.params: Params = dict(trial.params)
        self.seed = trial.seed
        self.state = trial.state.value
        self.value = trial.value
        self.values = metrics.values(trial) if trial.state is State.FINISHED else {}
        self.metrics: dict[str, Any] = dict(trial.extra) if trial.state is State.FINISHED else {}
        self.reason = trial.reason
        self.same_as = trial.same_as
        self.promotes = trial.promotes
        self.attempts = trial.attempt
        told_to = trial.outcome is not None and trial.outcome.how is How.STOPPED
        self.halted = trial.same_as is None and (told_to or trial.state is State.STOPPED)
        self.curve = list(trial.curve)
        """The watched metric at steps 1, 2, ... of the newest attempt."""
        self.usage = trial.outcome.usage if trial.outcome is not None else None
        """Wall and CPU seconds and peak memory of the last attempt; None if none has ended."""
        self.traceback = trial.outcome.traceback if trial.outcome is not None else ""
        self._folder = folder

    @property
    def reports(self) -> list[Report]:
        """Every report of the trial, in order, from the journal."""
        journal = Journal.read(self._folder)
        try:
            return [
                Report(step, metrics, attempt, at) for attempt, step, at, metrics in journal.reports_of(self.number)
            ]
        finally:
            journal.close()

    @property
    def folder(self) -> Path:
        """Where the newest attempt's files are; it exists if there are any."""
        return self._folder / "trials" / f"{self.number:05d}" / f"attempt-{max(1, self.attempts)}"

    @property
    def log(self) -> Path:
        """The newest attempt's output; the file exists if it printed anything."""
        return self.folder / "log.txt"

    @property
    def duration_s(self) -> float | None:
        """Seconds that the last attempt ran; None if none has ended."""
        return self.usage.wall_s if self.usage is not None else None

    def __repr__(self) -> str:
        value = f", {self.value:.6g}" if self.value is not None else ""
        return f"<trial {self.number}: {self.state}{value}, {self.params}>"


class Handle(Protocol):
    """A study at work."""

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        ...

    def wait(self) -> None:
        """Wait for its end."""
        ...

    def stop(self) -> None:
        """Have it wind down."""
        ...


class Search:
    """What came, or comes, of a search.

    Attributes:
        folder: The study's folder.
        metrics: What it measures; ``metrics.modes`` has the names and directions.
        meta: What was recorded about the study; of one that this process works on, before it began.
        driver: Host and pid of another process that works on it now; None if none seems to.
    """

    def __init__(
        self,
        folder: Path,
        history: History,
        *,
        handle: Handle | None = None,
        meta: Mapping[str, Any] | None = None,
        driver: tuple[str, int] | None = None,
    ) -> None:
        self.folder = folder
        self.metrics = history.metrics
        self.meta: Mapping[str, Any] = meta or {}
        self.driver = driver
        self._history = history
        self._handle = handle

    @property
    def name(self) -> str:
        """The study's name."""
        return self.folder.name

    @property
    def trials(self) -> list[TrialResult]:
        """All trials, by number."""
        return [self._result(trial) for trial in list(self._history.trials)]

    @property
    def best(self) -> TrialResult:
        """The finished trial with the best value; the earliest of equals.

        Raises:
            StudyError: No trial has finished, or there are several metrics.
        """
        if len(self.metrics.names) > 1:
            raise StudyError(
                f"Study {self.name!r} has several metrics, {self.metrics!r}, so no trial is the best of all. "
                "Take one of search.front, the trials that no other is better than; search.top(n) ranks by "
                f"{self.metrics.main!r} alone."
            )
        best = best_of(list(self._history.finished), self.metrics)
        if best is None:
            states = Counter(t.state.value for t in self._history.trials)
            told = ", ".join(f"{n} {state}" for state, n in states.items()) or "none yet"
            failed = next((t for t in self._history.trials if t.state is State.FAILED), None)
            why = f" Trial {failed.number} failed: {failed.reason}." if failed else ""
            raise StudyError(
                f"Study {self.name!r} has no best trial, because none finished (trials: {told}).{why} "
                f"See: etude trials {self.folder}"
            )
        return self._result(best)

    @property
    def front(self) -> list[TrialResult]:
        """The finished trials that no other is better than by one metric and not worse by any, the Pareto front."""
        return [self._result(trial) for trial in front(list(self._history.finished), self.metrics)]

    def top(self, n: int) -> list[TrialResult]:
        """Return the ``n`` finished trials that are best by the main metric, best first."""
        return [self._result(trial) for trial in ranked(list(self._history.finished), self.metrics)[:n]]

    def _result(self, trial: Trial) -> TrialResult:
        return TrialResult(trial, self.folder, self.metrics)

    def counts(self) -> dict[str, int]:
        """Return how many trials stand where."""
        return dict(Counter(t.state.value for t in list(self._history.trials)))

    @property
    def complete(self) -> bool:
        """Whether the plan was carried out to its end."""
        closed = self._history.closed
        return closed is not None and closed.complete

    @property
    def running(self) -> bool:
        """Whether this process is working on it now."""
        return self._handle is not None and not self._handle.over

    def wait(self) -> Search:
        """Wait for a search started with ``wait=False`` to end, and return it.

        Raises:
            EtudeError: What ended it, if it was no end of the plan's.
        """
        if self._handle is not None:
            self._handle.wait()
        return self

    def stop(self) -> None:
        """Have a running search wind down. Nothing finished is lost, and the same call goes on later."""
        if self._handle is not None:
            self._handle.stop()

    def saved(self) -> tuple[int, int]:
        """Return how many trials were stopped early, and how many reports they were spared.

        A stopped trial is taken to have had as many reports to go to as the longest finished one had.
        """
        stopped = [t for t in self._history.trials if t.state is State.STOPPED and t.same_as is None]
        full = max((len(t.curve) for t in self._history.finished), default=0)
        return len(stopped), sum(max(0, full - len(t.curve)) for t in stopped)

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per trial, without times: equal for studies that computed the same."""
        names = self._param_names()
        rows = []
        for t in list(self._history.trials):
            row: dict[str, Any] = {"trial": t.number, "state": t.state.value, self.metrics.main: t.value}
            for name in names:  # a name that is taken already says what it is
                row[f"params.{name}" if name in row or name in OWN_COLUMNS else name] = t.params.get(name)
            row["seed"] = t.seed
            for name, value in t.extra.items() if t.state is State.FINISHED else ():
                row[f"metrics.{name}" if name in row or name in OWN_COLUMNS else name] = value
            row["same_as"] = t.same_as
            rows.append(row)
        return rows

    def frame(self) -> Any:
        """Return the trials as a pandas DataFrame; without pandas, as a list of dicts."""
        rows = self.rows()
        try:
            import pandas as pd
        except ImportError:
            return rows
        return pd.DataFrame(rows)

    def summary(self) -> str:
        """Return what came of it, in a few lines."""
        return "\n".join(self._summary())

    def __repr__(self) -> str:
        state = "running" if self.running else "complete" if self.complete else "not complete"
        return f"<search {self.name!r}: {count(len(self._history.trials), 'trial')}, {state}>"

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        lines = [html.escape(line) for line in self._summary() if not line.startswith(INSET)]
        best = self.top(SHOWN) if len(self.metrics.names) == 1 else self.front[:SHOWN_IN_TABLES]
        names = self._param_names()
        head = "".join(f"<th>{html.escape(title)}</th>" for title in ("trial", *self.metrics.names, *names))
        rows = [[t.number, *t.values.values(), *(t.params.get(name) for name in names)] for t in best]
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(show(v))}</td>' for v in row)}</tr>" for row in rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
        return f"<div>{'<br>'.join(lines)}{table}</div>"

    def _summary(self) -> list[str]:
        counts = self.counts()
        told = ", ".join(f"{n} {state}" for state, n in sorted(counts.items(), key=lambda c: -c[1]))
        lines = [f"Study {self.name}: {count(sum(counts.values()), 'trial')} ({told or 'none yet'})."]
        finished = list(self._history.finished)
        if len(self.metrics.names) > 1 and finished:
            lines.append(f"Pareto front of {' and '.join(self.metrics.names)}: {count(len(self.front), 'trial')}.")
            lines += [f"{INSET}trial {t.number}: {_told(t.values)} with {_told(t.params)}" for t in self.front[:SHOWN]]
        elif (best := best_of(finished, self.metrics)) is not None:
            value = show(best.value)
            lines.append(f"Best {self.metrics.main}: {value} in trial {best.number} with {_told(best.params)}.")
        stopped, spared = self.saved()
        if stopped:
            ran = sum(len(t.curve) for t in self._history.trials if t.same_as is None)
            share = spared / (ran + spared) if ran + spared else 0.0
            lines.append(
                f"Stopped early: {count(stopped, 'trial')}, which spared {count(spared, 'report')} of {ran + spared:,} "
                f"({share:.0%})."
            )
        for state in (State.FAILED, State.INVALID):
            lines += self._why(state)
        closed = self._history.closed
        if not self.running and self.driver is None and (closed is None or not closed.complete):
            why = closed.reason if closed is not None else "its driver ended without a word"
            command = resume_command(self.folder, self.meta)
            ways = f"The same call, or `{command}`, goes on." if command else "The same call goes on."
            lines.append(f"Not complete: {why}. {ways}")
        return lines

    def _why(self, state: State) -> list[str]:
        found = [t for t in self._history.trials if t.state is state]
        reasons = Counter(t.reason for t in found).most_common(3)
        lines = []
        for reason, n in reasons:
            first = next(t for t in found if t.reason == reason)
            which = f"trial {first.number}" if n == 1 else f"{n} trials, {first.number} the first"
            lines.append(f"{state.value.capitalize()} ({which}): {reason[:300] or 'no reason given'}")
        if len(found) > sum(n for _, n in reasons):
            lines.append(f"... and {len(found) - sum(n for _, n in reasons)} more {state.value}.")
        return lines

    def _param_names(self) -> list[str]:
        names: dict[str, None] = {}
        for trial in self._history.trials:
            names.update(dict.fromkeys(trial.params))
        return list(names)


def _told(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={show(value)}" for name, value in values.items())


def show(value: object) -> str:
    """Return a value as it stands in tables."""
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)


def read(folder: str | os.PathLike[str]) -> Search:
    """Open a study to look at it: it is not changed, and none of the user's code is needed.

    Args:
        folder: The study's folder, or its name among the studies here.

    Raises:
        NotAStudyError: There is no study.
        JournalError: Its journal is damaged or from a later version.
    """
    path = find(folder)
    journal = Journal.read(path)
    try:
        meta, driver = journal.meta(), journal.lease.held_by()
        budgets = meta.get("fidelity")
        fidelity = Fidelity(budgets["name"], tuple(budgets["rungs"])) if budgets else None
        history = History(Metrics(meta["metrics"], watched=meta["watched"], fidelity=fidelity))
        for fact in journal.facts():
            history.apply(fact)
    finally:
        journal.close()
    return Search(path, history, meta=meta, driver=driver)


def studies_folder() -> Path:
    """Return where studies are kept: ``ETUDE_STUDIES``, or ``etude-studies`` in the current folder."""
    return Path(os.environ.get("ETUDE_STUDIES") or "etude-studies")


def find(study: str | os.PathLike[str]) -> Path:
    """Return the folder of a study that is given by its path or its name."""
    path = Path(study)
    if not (path / FILE).exists() and (studies_folder() / path / FILE).exists():
        return studies_folder() / path
    return path
