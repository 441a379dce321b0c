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
from etude.core.events import Params
from etude.core.history import History, Trial
from etude.core.lifecycle import State
from etude.core.ranking import best_of, ranked
from etude.core.text import count
from etude.going_on import resume_command
from etude.store.journal import FILE, Journal

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
        value: The study's metric; None unless it finished.
        metrics: What the training function returned beside the metric.
        reason: Why it stands where it stands, in one line.
        same_as: The earlier trial with the same configuration, whose result this is; else None.
        attempts: How many times it was tried.
    """

    def __init__(self, trial: Trial, folder: Path) -> None:
        self.number = trial.number
        self.params: Params = dict(trial.params)
        self.seed = trial.seed
        self.state = trial.state.value
        self.value = trial.value
        self.metrics: dict[str, Any] = dict(trial.extra) if trial.state is State.FINISHED else {}
        self.reason = trial.reason
        self.same_as = trial.same_as
        self.attempts = trial.attempt
        self.curve = list(trial.curve)
        """The study's metric at steps 1, 2, ... of the newest attempt."""
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
        metric: Name of its metric.
        mode: ``"max"`` or ``"min"``.
        meta: What was recorded about the study; of one that this process works on, before it began.
        driver: Host and pid of another process that works on it now; None if none seems to.
    """

    def __init__(
        self,
        folder: Path,
        history: History,
        *,
        mode: str,
        handle: Handle | None = None,
        meta: Mapping[str, Any] | None = None,
        driver: tuple[str, int] | None = None,
    ) -> None:
        self.folder = folder
        self.metric = history.metric
        self.mode = mode
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
        return [TrialResult(t, self.folder) for t in list(self._history.trials)]

    @property
    def best(self) -> TrialResult:
        """The finished trial with the best value; the earliest of equals.

        Raises:
            StudyError: No trial has finished.
        """
        best = best_of(list(self._history.finished), mode=self.mode)
        if best is None:
            states = Counter(t.state.value for t in self._history.trials)
            told = ", ".join(f"{n} {state}" for state, n in states.items()) or "none yet"
            failed = next((t for t in self._history.trials if t.state is State.FAILED), None)
            why = f" Trial {failed.number} failed: {failed.reason}." if failed else ""
            raise StudyError(
                f"Study {self.name!r} has no best trial, because none finished (trials: {told}).{why} "
                f"See: etude trials {self.folder}"
            )
        return TrialResult(best, self.folder)

    def top(self, n: int) -> list[TrialResult]:
        """Return the ``n`` best finished trials, best first."""
        best_first = ranked(list(self._history.finished), mode=self.mode)
        return [TrialResult(t, self.folder) for t in best_first[:n]]

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
            row: dict[str, Any] = {"trial": t.number, "state": t.state.value, self.metric: t.value}
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
        lines = "<br>".join(html.escape(line) for line in self._summary())
        best = self.top(5)
        names = self._param_names()
        head = "".join(f"<th>{html.escape(h)}</th>" for h in ("trial", self.metric, *names))
        body = "".join(
            "<tr>"
            + "".join(
                f"<td>{html.escape(show(v))}</td>" for v in (t.number, t.value, *(t.params.get(n) for n in names))
            )
            + "</tr>"
            for t in best
        )
        return f"<div>{lines}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"

    def _summary(self) -> list[str]:
        counts = self.counts()
        told = ", ".join(f"{n} {state}" for state, n in sorted(counts.items(), key=lambda c: -c[1]))
        lines = [f"Study {self.name}: {count(sum(counts.values()), 'trial')} ({told or 'none yet'})."]
        if (best := best_of(list(self._history.finished), mode=self.mode)) is not None:
            shown = ", ".join(f"{k}={show(v)}" for k, v in best.params.items())
            lines.append(f"Best {self.metric}: {show(best.value)} in trial {best.number} with {shown}.")
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
        history = History(meta.get("metric", "value"))
        for fact in journal.facts():
            history.apply(fact)
    finally:
        journal.close()
    return Search(path, history, mode=meta.get("mode", "max"), meta=meta, driver=driver)


def studies_folder() -> Path:
    """Return where studies are kept: ``ETUDE_STUDIES``, or ``etude-studies`` in the current folder."""
    return Path(os.environ.get("ETUDE_STUDIES") or "etude-studies")


def find(study: str | os.PathLike[str]) -> Path:
    """Return the folder of a study that is given by its path or its name."""
    path = Path(study)
    if not (path / FILE).exists() and (studies_folder() / path / FILE).exists():
        return studies_folder() / path
    return path
