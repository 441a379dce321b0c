"""Which runs are recognised by their profiles, and what that is worth: a replay without a clock or a process."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.pipetune.profiles import Run
from benchmarks.pipetune.tables import Table
from benchmarks.pipetune.workloads import work_of
from etude.system.entries import Entry, Hardware, Probed
from etude.system.knobs import Setting, key, setting_of
from etude.system.probing import best_of
from etude.system.profile import Profile
from etude.system.recall import reuse_or_probe
from etude.system.similarity import Similarity

HERE: Final = Hardware("the machine of the profiles", 1)
LOSS: Final = 0.05
"""A reused setting that loses more of the best one's throughput was wrongly reused."""

Chosen = Callable[[Profile], Mapping[str, float]]
"""Chooses the rates of a profile by which runs are compared."""


@dataclass(frozen=True)
class LookedUp:
    """What came of looking a run up.

    Attributes:
        workload: What it trained.
        is_foreign: Whether no run of this work was among those that are remembered.
        named: The workload of the nearest past run; empty if there was none.
        known: Whether it was found to be like past runs.
        setting: What was reused; None if it is probed instead.
        loss: Share of the best setting's throughput that what was reused loses; None if nobody knows.
    """

    workload: str
    is_foreign: bool
    named: str
    known: bool
    setting: Setting | None
    loss: float | None

    @property
    def is_recognised(self) -> bool:
        """Whether it was taken for what it is."""
        return self.known and work_of(self.named) == work_of(self.workload)

    @property
    def is_wrong(self) -> bool:
        """Whether what was reused costs much."""
        return self.loss is not None and self.loss > LOSS


def look_up_all(
    runs: Sequence[Run], tables: Mapping[str, Table], similarity: Similarity, chosen: Chosen
) -> list[LookedUp]:
    """Look each run up among all others, and once more among those of other work.

    Args:
        runs: The runs.
        tables: What the settings of each workload cost; of one without a table only the default is remembered.
        similarity: How runs are compared.
        chosen: Which rates are compared.
    """
    entries = [_entry(run, tables.get(run.workload), chosen) for run in runs]
    found = []
    for nth, run in enumerate(runs):
        others = [one for one in range(len(runs)) if one != nth]
        foreign = [one for one in others if work_of(runs[one].workload) != work_of(run.workload)]
        for is_foreign, past in ((False, others), (True, foreign)):
            recall = reuse_or_probe([entries[one] for one in past], entries[nth].rates, similarity)
            nearest = recall.match.like[0] if recall.match.like else recall.match.nth
            found.append(
                LookedUp(
                    run.workload,
                    is_foreign,
                    runs[past[nearest]].workload if nearest is not None and nearest < len(past) else "",
                    recall.match.known,
                    recall.setting,
                    _loss(tables.get(run.workload), recall.setting),
                )
            )
    return found


def _entry(run: Run, table: Table | None, chosen: Chosen) -> Entry:
    """Return what is remembered of a run that tried each setting in one epoch."""
    draw = random.Random(f"{run.workload} {run.nth}")
    costs = {}
    if table is not None:
        costs = {key({}): draw.choice(table.row({}).epoch_s)}
        costs |= {key(change): draw.choice(table.row(change).epoch_s) for change in table.changes()}
    beside = {setting: cost / costs[key({})] for setting, cost in costs.items() if setting != key({})}
    first = run.profiles[0]
    return Entry(
        hardware=HERE,
        workload=hashlib.sha256(run.workload.encode()).hexdigest()[:16],
        objective="time",
        rates=dict(chosen(first)),
        rung=first.rung,
        seconds=first.seconds,
        best=best_of(beside)[0],
        costs=tuple(Probed(setting_of(setting), cost) for setting, cost in costs.items()),
        at_s=float(run.nth),
    )


def _loss(table: Table | None, setting: Setting | None) -> float | None:
    if table is None or setting is None:
        return None
    name_there = {name for row in table.rows.values() for name in row.setting}
    if not set(setting) <= name_there:  # a knob that this work has no use for is left alone
        setting = {name: value for name, value in setting.items() if name in name_there}
    return 1 - table.best.seconds / table.row(setting).seconds


def share(looked_up: Sequence[LookedUp], what: Callable[[LookedUp], bool]) -> float:
    """Return the percentage of look-ups of which something is true."""
    return 100 * sum(map(what, looked_up)) / len(looked_up)
