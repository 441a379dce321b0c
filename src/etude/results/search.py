"""What came of a study: its trials, and the best of them.

Read from the journal (``reading``), so it needs none of the user's code. While a study runs, the same object shows how
far it is.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NoReturn, Protocol

from etude.core import markup, totals
from etude.core.advice import advice
from etude.core.errors import ConfigError, StudyError
from etude.core.events import Checkpoint, How, Params, Part
from etude.core.history import History, Trial
from etude.core.lifecycle import State
from etude.core.metrics import Metrics
from etude.core.ranking import front, ranked
from etude.core.removal import FINGERPRINTS
from etude.core.signature import Definition
from etude.core.system import SettingValue
from etude.core.text import count
from etude.fit.weights import File, Place, TrialWeights, of_trial
from etude.places.url_depot import depot_at
from etude.results.important import budget_of, effects_of, importance_of, steps_of
from etude.results.in_notebooks import best_table, without_insets
from etude.results.machines import Machines, chosen
from etude.results.reports import Report
from etude.results.summary import look_into, summary, unwell
from etude.results.threatened import serious_lines, threats_in
from etude.store import shared
from etude.store.journal import Journal
from etude.system.uses import best_setting

if TYPE_CHECKING:
    from etude.analyse.budgets import BudgetCurve
    from etude.analyse.effects import Effects
    from etude.analyse.importance import Importances
    from etude.analyse.steps import Steps
    from etude.analyse.threats.threat import Threats
    from etude.exports.told import Exported

OWN_COLUMNS: Final = ("trial", "state", "seed", "same_as", "reused_from", "promotes", "simulated")


class Study(NamedTuple):
    """The study that a trial is of.

    Attributes:
        folder: Its folder.
        history: What is known of it.
        experiment: Whose functions it runs; None if that is not known here.
        meta: What was recorded about it.
    """

    folder: Path
    history: History
    experiment: Definition | None
    meta: Mapping[str, Any]

    @property
    def metrics(self) -> Metrics:
        """What it measures."""
        return self.history.metrics


class TrialResult:
    """One trial of a study, to look at.

    Attributes:
        number: Its number, from 0.
        params: Its configuration.
        seed: Its training seed: ``experiment.run(**trial.params, seed=trial.seed)`` runs it again, if it began with
            random weights.
        state: Where it stands: ``"finished"``, ``"stopped"``, ``"failed"``, ``"invalid"``, ...
        value: The study's metric, the main one of several; None unless it finished.
        values: Each of the study's metrics by name; empty unless it finished.
        metrics: What the training function returned beside the main metric.
        reason: Why it stands where it stands, in one line.
        same_as: The earlier trial with the same configuration, whose result this is; else None.
        reused_from: The name of another study and the number of its trial whose result this is, where that was taken
            and not computed here (``tune(..., reuse=...)``); else None.
        promotes: The earlier trial that this one carried on with a larger budget; else None.
        because: Why that one was promoted; empty where nothing was decided.
        attempts: How many times it was tried.
        losses: How many of these were lost: its process or its worker died.
        how: How its last attempt ended, such as "finished", "raised" or "timed out"; empty if none has.
        started_at: When its newest attempt was handed out, by the driver's clock: seconds since 1970, or since
            the study began if it is simulated; None before the first.
        ended_at: When something ended for it last, by the same clock; None before that.
        halted: Whether its study had it stop, be it that it was not worth going on with or had shown what it can.
    """

    def __init__(self, trial: Trial, study: Study) -> None:
        metrics = study.metrics
        self.number = trial.number
        self.params: Params = dict(trial.params)
        self.seed = trial.seed
        self.state = trial.state.value
        self.value = trial.value
        self.values = metrics.values(trial) if trial.state is State.FINISHED else {}
        told = dict(trial.extra) if trial.state is State.FINISHED else {}
        self.fingerprints: dict[str, Any] = told.pop(FINGERPRINTS, {})
        """Of the data that it had, as far as its rows can be told (``rows``); of an arm of an ablation also of its
        first weights and batches."""
        self.metrics: dict[str, Any] = told
        self.reason = trial.reason
        self.same_as = trial.same_as
        self.reused_from = trial.taken_from
        self.promotes = trial.promotes
        self.goes_without = trial.arm
        """Of an ablation, what it goes without, as the journal has it."""
        self.arm = trial.arm.name if trial.arm is not None else None
        """The same by the name of the arm."""
        self.tunes = trial.tunes
        """Of an ablation, whether it is of the search that chose an arm's configuration, and not of the comparison."""
        self.because = trial.because
        self.attempts = trial.attempt
        self.losses = trial.losses
        self.started_at = trial.started_at
        self.ended_at = trial.ended_at
        outcome = trial.outcome
        self.how = outcome.how.value if outcome is not None else ""
        told_to = outcome is not None and outcome.how is How.STOPPED
        self.halted = trial.same_as is None and (told_to or trial.state is State.STOPPED)
        self.curve = list(trial.curve)
        """The watched metric at steps 1, 2, ... of the newest attempt."""
        self.usage = outcome.usage if outcome is not None else None
        """Wall and CPU seconds and peak memory of the last attempt; None if none has ended."""
        self.traceback = outcome.traceback if outcome is not None else ""
        self.begins_with = trial.start
        """The weights that it began with, as the journal has them; None if they were random."""
        self.start = trial.start.name if trial.start is not None else None
        """The same in words."""
        self.ancestors = trial.start.ancestors if trial.start is not None else ()
        """Whose weights it began with: study, trial, and how many epochs that had trained for."""
        self.probe: dict[str, Any] | None = dict(trial.extra) if trial.probe is not None else None
        """Of a probe, how much of the first epoch it trained (``portion``) and what it reported last (``reported``)."""
        self._study = study
        self._folder = study.folder

    @property
    def search(self) -> Search:
        """The study that it is of."""
        study = self._study
        return Search(study.folder, study.history, meta=study.meta, experiment=study.experiment)

    @property
    def system(self) -> dict[str, SettingValue]:
        """How a machine is best set for its kind of work, as far as the study found out: ``fit(at=...)`` does it.

        Empty if nothing is better than how the training function has it, or machines were not tuned.
        """
        return best_setting(self._study.history.tuned, self.number)

    @property
    def weights(self) -> TrialWeights:
        """Its weights, as they were after its best epoch; ``.at(epoch)`` has those of other epochs that were kept.

        Raises:
            ConfigError: None were kept.
        """
        kept = self._study.history.shelf.weights(self.number)
        whole = self._study.history.shelf.has_optimizers(self.number)
        places = {
            name: Place(
                self._files(point, "weights"),
                point.epoch,
                partial(self._said, point.step),
                self._files(point, "rest") if whole else (),
            )
            for name, point in kept.items()
        }
        return of_trial(shared.home_of(self._folder).name, self.number, places, before=self.ancestors)

    def _files(self, point: Checkpoint, part: Part) -> tuple[File, ...]:
        """Return the files with a part of a checkpoint, by rank."""
        depot = depot_at(self._study.meta.get("states") or "", self._folder / "trials")
        return tuple(
            File(partial(depot.opened, self.number, point.name(part, rank)), point.digest(part, rank))
            for rank in range(point.ranks)
        )

    def _said(self, step: int) -> dict[str, float]:
        """Return the newest value of each metric after so many reports of the study's."""
        said: dict[str, float] = {}
        for report in self.reports:
            said |= report.metrics if report.step <= step else {}
        return said

    def model(self, experiment: Definition | None = None) -> Any:
        """Return its model with its weights, ready to predict: on the CPU, and in evaluation mode.

        Args:
            experiment: Whose model function builds it; that of the study, where this process ran it, if left out.

        Raises:
            ConfigError: No weights were kept, or nothing says how the model is built.
            StateError: The weights are damaged, or not those of this model.
        """
        from etude.results.rebuilt import with_weights

        of = experiment or self._study.experiment
        if of is None:
            raise ConfigError(
                "This study was read from its folder, which holds none of your code. Pass the experiment that it is "
                "of: trial.model(experiment)."
            )
        return with_weights(of, self.params, self.seed, self.weights, self.goes_without)

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
    def meta(self) -> Mapping[str, Any]:
        """What is recorded about it by now."""
        ...

    @property
    def notes(self) -> list[str]:
        """What users should be told of this run."""
        ...

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


ELSEWHERE: Final[Mapping[str, str]] = {
    "best_params": "best.params",
    "best_params_": "best.params",
    "best_config": "best.params",
    "best_value": "best.value",
    "best_score_": "best.value",
    "best_trial": "best",
    "best_trials": "front",
    "best_estimator_": "best.model()",
    "results_df": "frame()",
    "trials_dataframe": "frame()",
    "dataframe": "frame()",
    "cv_results_": "rows()",
    "results": "rows()",
}
"""What other libraries call what came of a search -> what it is called here."""


class Search:
    """What came, or comes, of a search.

    Attributes:
        folder: The study's folder.
        metrics: What it measures; ``metrics.modes`` has the names and directions.
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
        experiment: Definition | None = None,
    ) -> None:
        self.folder = folder
        self.metrics = history.metrics
        self._meta: Mapping[str, Any] = meta or {}
        self.driver = driver
        self._history = history
        self._handle = handle
        self._experiment = experiment

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Say what other libraries' words are here; ``self`` need not be made yet."""
            ours = f" Write {type(self).__name__.lower()}.{ELSEWHERE[name]}." if name in ELSEWHERE else ""
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}.{ours}", name=name, obj=self
            )

    @property
    def name(self) -> str:
        """The study's name."""
        return shared.home_of(self.folder).name

    @property
    def meta(self) -> Mapping[str, Any]:
        """What was recorded about the study; of its machine and packages some seconds after a run has begun."""
        return self._handle.meta if self._handle is not None else self._meta

    @property
    def trials(self) -> list[TrialResult]:
        """All trials, by number."""
        return [self._result(trial) for trial in list(self._history.trials)]

    @property
    def best(self) -> TrialResult:
        """The finished trial with the best value; the earliest of equals, or the quickest (``System(best=)``).

        Raises:
            StudyError: No trial has finished, or there are several metrics.
        """
        if len(self.metrics.names) > 1:
            raise StudyError(
                f"Study {self.name!r} has several metrics, {self.metrics!r}, so no trial is the best of all. "
                "Take one of search.front, the trials that no other is better than; search.top(n) ranks by "
                f"{self.metrics.main!r} alone."
            )
        best = chosen(self._history, self.meta)
        if best is None:
            told = ", ".join(f"{n} {state}" for state, n in self.counts().items()) or "none yet"
            failed = next((t for t in self._history.trials if t.state is State.FAILED), None)
            why, see = "", f"etude trials {self.folder}"
            if failed is not None:
                known = advice(failed.reason)
                why = f" Trial {failed.number} failed: {failed.reason.rstrip('.')}.{' ' if known else ''}{known}"
                see = look_into(self.folder, failed.number)
            raise StudyError(
                f"Study {self.name!r} has no best trial, because none finished (trials: {told}).{why} See: {see}"
            )
        return self._result(best)

    @property
    def machines(self) -> Machines:
        """What trials took of their machines: time and energy beside the metric, and what tuning saved. Print it."""
        return Machines.of(self._history, self.meta)

    @property
    def front(self) -> list[TrialResult]:
        """The finished trials that no other is better than by one metric and not worse by any, the Pareto front."""
        return [self._result(trial) for trial in front(list(self._history.finished), self.metrics)]

    def top(self, n: int) -> list[TrialResult]:
        """Return the finished trials that are best by the main metric, best first.

        Args:
            n: How many at most; all of them if fewer have finished.
        """
        return [self._result(trial) for trial in ranked(list(self._history.finished), self.metrics)[:n]]

    def _result(self, trial: Trial) -> TrialResult:
        return TrialResult(trial, Study(self.folder, self._history, self._experiment, self.meta))

    @property
    def saved_epochs(self) -> int:
        """How many epochs were not trained twice, since trials went on from the states of others."""
        return totals.saved_epochs(self._history)[0]

    def counts(self) -> dict[str, int]:
        """Return how many trials stand where."""
        return totals.counts(self._history)

    @property
    def complete(self) -> bool:
        """Whether the plan was carried out to its end."""
        closed = self._history.closed
        return closed is not None and closed.complete

    @property
    def limit(self) -> str:
        """The limit that ended it before the plan was carried out, such as ``"deadline_s"``; empty if none did."""
        closed = self._history.closed
        return closed.limit if closed is not None else ""

    @property
    def why(self) -> str:
        """Why it ended, in a sentence; empty while it has not."""
        closed = self._history.closed
        return closed.reason if closed is not None else ""

    def raise_if_failed(self) -> None:
        """Raise if it is not complete or trials of it failed: a notebook that ends with this is an error for a batch.

        Configurations that cannot be (``etude.Invalid``), and trials that were stopped, are no failures.

        Raises:
            StudyError: It has not come to its end, a limit ended it, or trials failed.
        """
        at_work = self.running or self.driver is not None
        if told := unwell(self._history, self.folder, self.meta, at_work=at_work):
            raise StudyError(told)

    @property
    def notes(self) -> list[str]:
        """What its users should be told, in sentences, of all its runs: a torn end, a full disk, a mirror out of reach.

        They are said on standard error when they come up, whatever ``progress`` is; of a driver that was killed, only
        those are known that it began with.
        """
        runs = sorted((int(key.split()[1]), texts) for key, texts in self.meta.items() if key.startswith("notes "))
        own = self._handle.notes if self._handle is not None else []
        return list(dict.fromkeys([*(text for _, texts in runs for text in texts), *own]))

    @property
    def simulated(self) -> bool:
        """Whether no trial was run: what they reported came from curves, and all times are virtual."""
        return self.meta.get("simulated") is not None

    @property
    def verb(self) -> str:
        """What made it: ``"tune"`` or ``"fit"``."""
        return str((self.meta.get("question") or {}).get("verb", "tune"))

    @property
    def makespan_s(self) -> float | None:
        """Seconds from the first attempt's hand-out to the last end, virtual ones if simulated; None if none has ended.

        Attempts that were lost are part of it, and so is the time between two runs of a study; the start of the first
        worker is not.
        """
        return totals.makespan_s(self._history)

    @property
    def elapsed_s(self) -> float | None:
        """Seconds that it was worked on, from the start of its workers to its end; virtual ones if simulated.

        All its runs together, without the time between them: what ``deadline_s`` limits, and a forecast foretells. Of
        one that goes on, up to what happened last. None if nobody has begun.
        """
        return totals.elapsed_s(self._history)

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

    def threats(self, *, reference: float | None = None) -> Threats:
        """Return what may make the study say what is not so: print it.

        Args:
            reference: The value that the base, or the best trial, is to reproduce, such as a published one; that of the
                experiment if left out.
        """
        if reference is None:
            reference = getattr(self._experiment, "reference", None)
        return threats_in(self.folder, self._history, self.meta, pairs=self._pairs(), reference=reference)

    def importance(
        self,
        *,
        by: Literal["fanova", "pedanova"] = "fanova",
        part: Literal["all", "random"] = "all",
        intervals: bool = True,
        seed: int = 0,
    ) -> Importances:
        """Return how much each parameter of a search matters, the most important first: print it.

        Args:
            by: ``"fanova"``: which share of the metric's variance over the space is due to it; ``"pedanova"``: its
                share of what sets the best tenth of the trials apart.
            part: All trials, or those that were drawn at random.
            intervals: Whether to give intervals, which take most of the time.
            seed: Of what is drawn for it.

        Raises:
            ConfigError: It is no search, too few trials have a value, or a library is missing.
        """
        return importance_of(self._history, self.meta, by=by, part=part, intervals=intervals, seed=seed)

    def effects(
        self, *parameters: str, part: Literal["all", "random"] = "all", corrected: bool = True, seed: int = 0
    ) -> Effects:
        """Return what the values of a parameter come to on average, or those of two at once: print it.

        Args:
            parameters: One name, or two.
            part: All trials, or those that were drawn at random.
            corrected: Whether to add means over the whole space, by a forest: right also where a sampler went for what
                looked good.
            seed: Of what is drawn for it.

        Raises:
            ConfigError: It is no search, there is no such parameter, too few trials have a value, or a library is
                missing.
        """
        return effects_of(self._history, self.meta, parameters, part=part, corrected=corrected, seed=seed)

    def steps(self, start: Mapping[str, Any] | None = None, *, seed: int = 0) -> Steps:
        """Return the way from a configuration to the best trial, one parameter at a time, as a forest expects it.

        Args:
            start: Where it starts; the functions' defaults if left out, as far as they are known here.
            seed: Of the forest.

        Raises:
            ConfigError: It is no search, too few trials have a value, nothing says where to start, or a library is
                missing.
            StudyError: No trial has finished.
        """
        if start is None and self._experiment is None:
            raise ConfigError(
                "This study was read from its folder, which does not hold the functions' defaults. Pass where the way "
                "starts: search.steps({'lr': 0.1, ...})."
            )
        defaults = self._experiment.signature.defaults() if self._experiment is not None else {}
        return steps_of(self._history, self.meta, defaults if start is None else start, seed=seed)

    def budget(self) -> BudgetCurve:
        """Return what the best and the mean of fewer trials would have been: data for a figure."""
        return budget_of(self._history, self.meta)

    def _pairs(self) -> dict[str, bool | None]:
        """Return of each arm of an ablation whether it begins as the base does; None of those of which nobody knows."""
        return {}

    def saved(self) -> tuple[int, int]:
        """Return how many trials were stopped early, and how many reports they were spared.

        A stopped trial is taken to have had as many reports to go to as the longest finished one had.
        """
        return totals.saved(self._history)

    def rows(self, *, reports: bool = False, times: bool = False) -> list[dict[str, Any]]:
        """Return one dict per trial; without times they are equal for studies that computed the same.

        Args:
            reports: One for each report instead, with ``trial``, ``step`` and the metrics: those of a trial's newest
                attempt, and those from which that one went on.
            times: With when trials ran and what they took; of reports when they came (``at``). All in seconds since
                1970, or since the study began if it is simulated.
        """
        from etude.results.reports import as_it_stands
        from etude.results.tables import of_reports, used, with_times

        if reports:
            history, found = as_it_stands(self.folder, self.metrics)
            return list(of_reports(found, len(history.trials), times=times, simulated=self.simulated))
        if not times:
            return self._rows()
        return list(with_times(self._rows(), self.trials, used(self.machines)))

    def _rows(self) -> list[dict[str, Any]]:
        names = totals.parameters(self._history)
        tuned = any(trial.tunes for trial in self._history.trials)
        rows = []
        for t in list(self._history.trials):
            row: dict[str, Any] = {"trial": t.number, "state": t.state.value}
            if t.arm is not None:
                row["arm"] = t.arm.name
            if tuned:
                row["tunes"] = t.tunes
            row[column(self.metrics.main, OWN_COLUMNS, "metrics")] = t.value
            for name in names:
                row[column(name, (*row, *OWN_COLUMNS), "params")] = t.params.get(name)
            row["seed"] = t.seed
            for name, value in t.extra.items() if t.state is State.FINISHED else ():
                if name == FINGERPRINTS:
                    continue
                row[column(name, (*row, *OWN_COLUMNS), "metrics")] = value
            row["same_as"] = t.same_as
            if self._history.taken:
                row["reused_from"] = ":".join(map(str, t.taken_from)) if t.taken_from is not None else None
            if self.metrics.fidelity is not None:
                row["promotes"] = t.promotes
            if self.simulated:  # who reads the table alone must not take it for measured
                row["simulated"] = True
            rows.append(row)
        return rows

    def frame(self, *, reports: bool = False, times: bool = False) -> Any:
        """Return the trials as a pandas DataFrame; without pandas, as a list of dicts.

        Rows and columns are those of ``rows``. Whole numbers of which some are missing are of type ``Int64``. Times
        become dates with ``pd.to_datetime(frame["at"], unit="s")``.

        Args:
            reports: As those of ``rows``.
            times: As those of ``rows``.
        """
        from etude.results.tables import columns_of, frame_of

        rows = self.rows(reports=reports, times=times)
        if find_spec("pandas") is None:
            return rows
        return frame_of({name: [row.get(name) for row in rows] for name in columns_of(rows)})

    def export(
        self,
        to: Literal["tensorboard", "mlflow", "optuna"],
        *,
        into: str | os.PathLike[str] | None = None,
        name: str | None = None,
    ) -> Exported:
        """Write the study, as it stands, where another tool finds it; print what is returned.

        Only the journal is read. What an earlier export wrote there is brought up to date. A warning says what is not
        there as it is here, such as names that had to change.

        Args:
            to: The tool.
            into: For TensorBoard a folder; for MLflow a tracking URI, where MLflow itself would go if left out; for
                Optuna the URL of a database, or the path of a journal file. A path that ends in ``.db`` is a database.
            name: What the study is called there; its own name if left out.

        Raises:
            ConfigError: There is no such tool, it is not installed, or nothing can be written there.
        """
        from etude.exports.targets import export
        from etude.results.exported import told_of

        done = export(told_of(self.folder, self.metrics, self.meta), to, into=into, name=name)
        for note in done.notes:
            warnings.warn(note, stacklevel=2)
        return done

    def report(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        png: bool = False,
        sections: Sequence[Any] = (),
    ) -> Path:
        """Write a report of it, and return its page: ``index.html``, with figures, tables and facts as files beside it.

        The page needs no network and can be sent as one file. A study that goes on is told as it stands.

        Args:
            folder: Where; ``report`` in the study's folder if left out. A report that lies there is replaced.
            png: Whether figures are written as PNG as well, beside SVG.
            sections: Parts of your own: functions of the study, or pairs of a title and a function; see
                ``etude.report_section``.

        Raises:
            ConfigError: The folder cannot be written, or holds other things; or what ``png`` needs is missing.
        """
        from etude.analyse.report.own import read_sections
        from etude.analyse.report.writer import write
        from etude.reported.gathering import facts_of

        own = read_sections(sections)
        into = Path(folder) if folder is not None else shared.home_of(self.folder) / "report"
        return write(into, facts_of(self), self, own=own, png=png)

    def paired(self) -> dict[str, tuple[int | None, int]]:
        """Return of each arm how many of its runs are pairs, None if nobody knows, and of how many."""
        return {}

    def compared(self) -> Any:
        """Return the verdicts on its arms, as a report has them; None if it has none."""
        return None

    def compared_with_controls(self) -> Any:
        """Return the verdicts on its arms beside wholes of their size; None if it has none."""
        return None

    def summary(self) -> str:
        """Return what came of it, in a few lines."""
        return "\n".join(self._summary())

    def __repr__(self) -> str:
        state = "running" if self.running else "complete" if self.complete else "not complete"
        return f"<{type(self).__name__.lower()} {self.name!r}: {count(len(self._history.trials), 'trial')}, {state}>"

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return markup.block(markup.lines(self.headlines()), best_table(self._history))

    def headlines(self) -> list[str]:
        """Return those lines of a summary that no table of trials or verdicts says better."""
        return without_insets(self._summary())

    def _summary(self) -> list[str]:
        """Return the lines of a summary."""
        at_work = self.running or self.driver is not None
        return [
            *summary(self._history, self.folder, self.meta, at_work=at_work),
            *([] if at_work else self._threatened()),
            *(f"Note: {note}" for note in self.notes),
        ]

    def _threatened(self) -> list[str]:
        """Return a line for each serious threat."""
        reference = getattr(self._experiment, "reference", None)
        return serious_lines(self._history, self.meta, reference=reference)


def column(name: str, taken: Collection[str], kind: str) -> str:
    """Return under which name a parameter or a metric stands in a row; a name that is taken says what it is.

    Example:
        >>> column("lr", OWN_COLUMNS, "params"), column("seed", OWN_COLUMNS, "metrics")
        ('lr', 'metrics.seed')
    """
    return f"{kind}.{name}" if name in taken else name
