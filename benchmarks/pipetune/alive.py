"""A study that is trained while the tuner decides on its epochs, beside trainings with settings that stay.

The three take turns, epoch by epoch, so that what else the machine does meets them alike. The tuner is driven by hand:
``tuned`` is all that has to change to have it driven by a study.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.pipetune import measured
from benchmarks.pipetune.replayed import MOST
from benchmarks.pipetune.tables import Table, spelled
from benchmarks.pipetune.workloads import Workload
from etude.core.system import Phase
from etude.system.knobs import Setting
from etude.system.tuner import Tuner
from etude.system.works import Known


@dataclass(frozen=True)
class Lived:
    """What came of it.

    Attributes:
        of_best: Throughput over that of the best setting of the table, from the first epoch to the last.
        of_default: Throughput over that of the default.
        probing: Share of epochs that were probes.
        kept: The setting of the last epoch.
        best: The best setting, by the table.
    """

    of_best: float
    of_default: float
    probing: float
    kept: str
    best: str


def study(workload: Workload, table: Table, *, epochs: int, trials: int, every: int) -> Lived:
    """Train a study.

    Args:
        workload: What is trained.
        table: What its settings were found to take: it says which are tried, and which one is best.
        epochs: How many epochs, of all trials together.
        trials: How many trials, one after the other.
        every: After so many epochs, one is trained by default and one with the best setting, to compare with.
    """
    still = {spelled(row.setting): row.setting for row in (table.row({}), table.best)}
    seats = {name: measured.seat(workload) for name in still}
    took: dict[str, list[float]] = {name: [] for name in still}
    for name, setting in still.items():
        seats[name].epoch(setting)  # the first one is not like the others
    mine: list[tuple[float, Phase, Setting]] = []
    try:
        for one in tuned(workload, table, epochs=epochs, trials=trials):
            mine.append(one)
            if len(mine) % every == 0:
                for name, setting in still.items():
                    took[name].append(seats[name].epoch(setting).seconds)
    finally:
        for seat in seats.values():
            seat.leave()
    mean_s = statistics.fmean(seconds for seconds, *_ in mine)
    best, default = spelled(table.best.setting), spelled(table.default)
    return Lived(
        statistics.fmean(took[best]) / mean_s,
        statistics.fmean(took[default]) / mean_s,
        sum(phase is Phase.PROBE for _, phase, _ in mine) / len(mine),
        spelled({**table.default, **mine[-1][2]}),
        best,
    )


def tuned(workload: Workload, table: Table, *, epochs: int, trials: int) -> Iterator[tuple[float, Phase, Setting]]:
    """Train trials under the tuner, and yield of each epoch its seconds, what it was for, and its setting.

    The first epoch of a trial is left out of what is yielded, and takes part in what the tuner sees: it pays for what
    comes only once, also with settings that stay.
    """
    tuner: Tuner[str] = Tuner(table.axes(), most=int(MOST * epochs), look_up=lambda _: Known("all of this study"))
    for trial in range(trials):
        decision, seat = tuner.begin(trial), measured.seat(workload, seed=trial)
        for nth in range(epochs // trials):
            took = seat.epoch({**table.default, **decision.setting})
            if nth:
                yield took.seconds, decision.phase, decision.setting
            cost = (took.seconds - min(took.begun_s, took.seconds / 2)) / took.steps  # as a study counts it
            decision = tuner.epoch(trial, decision, cost, "work")
        seat.leave()
        tuner.ended(trial)


def quick(workload: Workload, settings: Sequence[Setting]) -> Table:
    """Return a table of some settings from one epoch of each, to go on with where none was measured."""
    return measured.table(workload, rounds=1, of=settings)
