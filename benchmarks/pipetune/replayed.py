"""Studies in which the real tuner decides, and what an epoch took is looked up in a table."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.pipetune.tables import Table
from etude.core.system import Phase
from etude.system.tuner import SHOWN, Tuner
from etude.system.works import Known

EPOCHS: Final = 240
MOST: Final = 0.05
"""Of the epochs, how many may be probes."""
SCALE: Final = (0.5, 2.0)
"""By what factor epochs of trials differ, as those with other hyperparameters do."""


@dataclass(frozen=True)
class Outcome:
    """What came of a study.

    Attributes:
        of_best: Its throughput over that of the best setting from the first epoch to the last.
        of_default: Its throughput over that of the default.
        probing: Share of epochs that were probes.
        kept: The setting of the last epoch.
    """

    of_best: float
    of_default: float
    probing: float
    kept: Mapping[str, Any]


def study(table: Table, *, seed: int, trials: int = 12, epochs: int = EPOCHS) -> Outcome:
    """Let the tuner decide on the epochs of a study, whose trials come one after the other.

    What the tuner sees is an epoch that was measured with that setting, drawn at random: so it is as noisy as epochs
    are. What is summed up is the median, or else the luck of the draw would be in the outcome. First epochs take as
    much longer as they did where they were measured, whatever the setting.

    Args:
        table: What epochs take.
        seed: Of what is drawn.
        trials: How many trials.
        epochs: How many epochs, of all trials together.
    """
    draw = random.Random(f"{table.name} {seed}")
    tuner: Tuner[str] = Tuner(table.axes(), most=int(MOST * epochs), look_up=lambda _: Known("all of this study"))
    default, best = table.row({}), table.best
    late_s = max(0.0, default.first_epoch_s - default.seconds)
    spent = with_best = with_default = 0.0
    probes = 0
    decision = tuner.begin("none")
    for trial in range(trials):
        scale = draw.uniform(*SCALE)
        decision = tuner.begin(trial)
        for nth in range(epochs // trials):
            row = table.row(decision.setting)
            seen, exact = draw.choice(row.epoch_s), row.seconds
            extra_s = late_s if nth == 0 else 0.0
            is_probe = decision.phase is Phase.PROBE
            probes += is_probe
            if is_probe and tuner.is_clearly_worse(trial, scale * seen, SHOWN):
                exact = SHOWN * exact + (1 - SHOWN) * table.row(tuner.meanwhile(trial)).seconds
            spent += scale * (exact + extra_s)
            with_best += scale * (best.seconds + extra_s)
            with_default += scale * (default.seconds + extra_s)
            decision = tuner.epoch(trial, decision, scale * (seen + extra_s), "work")
        tuner.ended(trial)
    return Outcome(with_best / spent, with_default / spent, probes / epochs, decision.setting)
