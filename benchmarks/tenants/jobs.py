"""A tuning job: trials under Hyperband, one after the other on the whole machine, and the seconds that they take.

    v1        hyperparameters alone are tuned; each epoch runs with the default setting
    v2        each trial has a setting of its own, drawn with its hyperparameters, and trials are ranked by accuracy
              over duration: what runs fast survives
    pipetune  the tuner decides before each epoch, and what similar jobs have taught is known to it
    best      all epochs run with the one setting with which the job takes least

What is measured is what epochs take. Accuracies are made up, and only decide who survives. A trial that survives goes
on where it was. How long epochs of one trial are beside those of another is drawn, as batch sizes and widths would have
it. An approach sees an epoch that was measured, drawn at random; what is summed up is their median, or else the luck of
the draw would be in what is saved. All pay alike for what begins in an epoch: first epochs of trials for what comes
once, and later ones for workers that stay and were not there before.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.pipetune.tables import Table
from etude.core.system import Phase
from etude.system.entries import Entry, Hardware, Probed
from etude.system.knobs import Setting, setting_of
from etude.system.probing import DEFAULT
from etude.system.recall import Learned, reuse_or_probe
from etude.system.similarity import Nearest
from etude.system.tuner import SHOWN, Decision, Tuner
from etude.system.works import Known

HERE: Final = Hardware("the machine of the tables", 1)
RATES: Final = 12
SPREAD: Final = 0.05
"""Of the rates of one workload from trial to trial, as a share."""
SCALE: Final = 0.3
"""Of the logarithm of how long epochs of trials are."""
CAMPAIGN: Final = 2
"""Runs of each workload with all settings before the first job, as in section 7.2 of the paper."""


@dataclass(frozen=True)
class Job:
    """A tuning job.

    Attributes:
        nth: Its place in the trace.
        table: What its epochs take.
        rates: The profile of its workload.
        digest: Of its workload; no other has it if it is unseen.
        seed: Of its trials.
    """

    nth: int
    table: Table
    rates: Mapping[str, float]
    digest: str
    seed: str


@dataclass
class Trial:
    """A trial: how good it is, how long its epochs are beside others', and the settings of its next and last."""

    number: int
    quality: float
    scale: float
    now: Decision
    epochs: int = 0
    before: Setting | None = None


@dataclass(frozen=True)
class Went:
    """How a job went.

    Attributes:
        seconds: How long it took.
        epochs: Of all its trials.
        probes: How many of them were probes.
        reused: Whether it took up what others had taught.
    """

    seconds: float
    epochs: int
    probes: int = 0
    reused: bool = False


def hyperband(most: int, eta: int = 3) -> Iterator[list[tuple[int, int]]]:
    """Yield the brackets: for each rung how many trials reach it, and after how many epochs it is.

    Source:
        Li et al. 2018, "Hyperband", JMLR 18, algorithm 1.

    Example:
        >>> [bracket for bracket in hyperband(9)]
        [[(9, 1), (3, 3), (1, 9)], [(5, 3), (1, 9)], [(3, 9)]]
    """
    last = round(math.log(most, eta))
    for s in range(last, -1, -1):
        n = math.ceil((last + 1) / (s + 1) * eta**s)
        yield [(n // eta**i, most // eta ** (s - i)) for i in range(s + 1)]


class Approach:
    """Runs jobs. What it knows of earlier ones it keeps."""

    def begin(self, job: Job, draw: random.Random) -> None:
        """Take up a job."""

    def first(self, trial: int) -> Decision:
        """Return the setting of a trial's first epoch."""
        return Decision(DEFAULT, Phase.DEFAULT, "")

    def next(self, trial: int, now: Decision, seconds: float) -> Decision:
        """Return that of the one after an epoch that took so long."""
        return now

    def instead(self, trial: int, now: Decision, seconds: float) -> Setting | None:
        """Return with what an epoch goes on that would take so long by its beginning; None if it goes on as it is."""
        return None

    def score(self, quality: float, seconds: float) -> float:
        """Return by what trials are ranked."""
        return quality

    def end(self, job: Job) -> None:
        """Keep what a job taught."""

    def run(self, job: Job, most: int) -> Went:
        """Run a job whose longest trials have so many epochs."""
        draw = random.Random(job.seed)
        self.begin(job, random.Random(f"{job.seed} choices"))
        took_s, epochs, probes, reused, number = 0.0, 0, 0, False, 0
        for bracket in hyperband(most):
            trials = []
            for _ in range(bracket[0][0]):
                trials.append(Trial(number, draw.random(), math.exp(draw.gauss(0, SCALE)), self.first(number)))
                number += 1
            for there, upto in bracket:
                trials = sorted(trials, key=lambda one: -self._stands(one, job))[:there]
                for trial in trials:
                    noise = random.Random(f"{job.seed} {trial.number} {upto}")  # the same with all approaches
                    while trial.epochs < upto:
                        spent_s, seen_s = self._epoch(trial, job.table, noise)
                        took_s, epochs, trial.epochs = took_s + spent_s, epochs + 1, trial.epochs + 1
                        probes += trial.now.phase is Phase.PROBE
                        reused |= trial.now.phase is Phase.REUSE
                        trial.now = self.next(trial.number, trial.now, seen_s)
        self.end(job)
        return Went(took_s, epochs, probes, reused)

    def _epoch(self, trial: Trial, table: Table, noise: random.Random) -> tuple[float, float]:
        """Return what an epoch takes, and what is seen of it; of one that is cut short, of its beginning.

        What begins with a setting and stays is paid for, and not held against it.
        """
        setting = trial.now.setting
        row, late_s = table.row(setting), table.late_s(setting, trial.before)
        seen_s = trial.scale * noise.choice(row.epoch_s) + (late_s if trial.before is None else 0.0)
        trial.before = self.instead(trial.number, trial.now, seen_s)
        if trial.before is None:
            trial.before = setting
            return trial.scale * row.seconds + late_s, seen_s
        late_s += table.late_s(trial.before, setting)
        rest_s = table.row(trial.before).seconds
        return trial.scale * (SHOWN * row.seconds + (1 - SHOWN) * rest_s) + late_s, seen_s

    def _stands(self, trial: Trial, job: Job) -> float:
        return self.score(trial.quality, trial.scale * job.table.row(trial.now.setting).seconds)


class V1(Approach):
    """Tunes hyperparameters alone."""


class V2(Approach):
    """Takes a setting for a hyperparameter, and accuracy over duration for the metric."""

    def begin(self, job: Job, draw: random.Random) -> None:
        """Take up a job."""
        self._settings, self._draw = (DEFAULT, *job.table.changes()), draw

    def first(self, trial: int) -> Decision:
        """Return any setting."""
        return Decision(self._draw.choice(self._settings), Phase.DEFAULT, "")

    def score(self, quality: float, seconds: float) -> float:
        """Return accuracy over duration."""
        return quality / seconds


class Static(Approach):
    """Runs all with one setting."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    def first(self, trial: int) -> Decision:
        """Return that setting."""
        return Decision(self._setting, Phase.KEEP, "")


class Best(Approach):
    """Knows with which setting a job takes least, what begins in its many first epochs included."""

    def run(self, job: Job, most: int) -> Went:
        """Run it with that."""
        settings = (DEFAULT, *job.table.changes())
        return min((Static(one).run(job, most) for one in settings), key=lambda went: went.seconds)


class PipeTune(Approach):
    """Étude's tuner, with what campaigns and earlier jobs have taught.

    Args:
        history: What is known before the first job.
        most: How many epochs of a job may be probes.
    """

    def __init__(self, history: Sequence[Entry], most: int) -> None:
        self._history, self._most = list(history), most
        self._learned: Learned | None = None

    def begin(self, job: Job, draw: random.Random) -> None:
        """Take up a job with a tuner that knows nothing but the history."""
        self._draw, self._rates = draw, job.rates
        self._tuner: Tuner[Mapping[str, float]] = Tuner(job.table.axes(), most=self._most, look_up=self._known)

    def first(self, trial: int) -> Decision:
        """Return what the tuner says."""
        return self._tuner.begin(trial)

    def next(self, trial: int, now: Decision, seconds: float) -> Decision:
        """Return what the tuner says; after the first epoch it is shown a profile."""
        profile = profile_of(self._rates, self._draw) if now.phase is Phase.PROFILE else None
        return self._tuner.epoch(trial, now, seconds, profile)

    def instead(self, trial: int, now: Decision, seconds: float) -> Setting | None:
        """Return the best that is known, where a setting that is tried or reused is clearly worse."""
        may_cut = now.phase in (Phase.PROBE, Phase.REUSE)
        worse = may_cut and self._tuner.is_clearly_worse(trial, seconds, SHOWN)
        return self._tuner.meanwhile(trial) if worse else None

    def end(self, job: Job) -> None:
        """Add what was found to the history."""
        for learned in self._tuner.learned().values():
            costs = (Probed({}, 1.0), *(Probed(setting_of(one), ratio) for one, ratio in learned.tried.items()))
            self._history.append(entry(job, profile_of(self._rates, self._draw), learned.best, costs))

    def _known(self, rates: Mapping[str, float]) -> Known:
        recall = reuse_or_probe(self._history, rates, Nearest(), learned=self._learned)
        self._learned = recall.learned
        return Known("this job", recall.setting, recall.why)


def campaign(jobs: Sequence[Job], draw: random.Random) -> list[Entry]:
    """Return what was learned from running each workload with all settings."""
    found = []
    for job in jobs:
        for _ in range(CAMPAIGN):
            by_default = draw.choice(job.table.row(DEFAULT).epoch_s)
            took = [(one, draw.choice(job.table.row(one).epoch_s)) for one in job.table.changes()]
            costs = (Probed(DEFAULT, 1.0), *(Probed(one, seconds / by_default) for one, seconds in took))
            best = min(costs, key=lambda probed: probed.cost).setting
            found.append(entry(job, profile_of(job.rates, draw), best, costs))
    return found


def entry(job: Job, rates: Mapping[str, float], best: Setting, costs: tuple[Probed, ...]) -> Entry:
    return Entry(HERE, job.digest, "time", rates, "made up", 1.0, best, costs, float(job.nth))


def profile_of(rates: Mapping[str, float], draw: random.Random) -> Mapping[str, float]:
    """Return what a profiler would say of an epoch of a workload."""
    return {name: rate * math.exp(draw.gauss(0, SPREAD)) for name, rate in rates.items()}


def workload_rates(draw: random.Random) -> Mapping[str, float]:
    """Return the rates of a workload that is like no other: half of them differ by factors of two and more."""
    own = [draw.choice((-1, 1)) * draw.uniform(0.7, 2.5) if nth < RATES // 2 else 0.0 for nth in range(RATES)]
    draw.shuffle(own)
    return {f"rate {nth}": math.exp(nth + one) for nth, one in enumerate(own)}
