"""What trying all combinations of one to six parameters costs, after PipeTune's figure 1.

What an epoch takes was measured: with each batch size and number of threads (``system_sizes``), and with loader workers
beside none (``system_tables``). The rest is arithmetic, and says what it takes for granted.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.pipetune.shown import FINAL_EPOCHS
from benchmarks.pipetune.tables import STAY, WORKERS, Table

PRICE: Final = 2.0
"""Of an hour of the machine, in whatever currency."""
VALUES: Final = 3
"""That each parameter has at most, as in the paper."""
EPOCHS: Final = (1, 3, FINAL_EPOCHS)

MEASURED: Final = "measured"
PARAMETERS: Final = {
    "batch size": MEASURED,
    "learning rate": "taken to change nothing",
    "dropout": "taken to change nothing",
    "epochs": "taken to be alike",
    "loader workers": "measured with one batch size, taken to be the same factor with others",
    "threads": MEASURED,
}
"""Parameter -> what is known of the time of an epoch with its values; in the order in which they come in."""


@dataclass(frozen=True)
class Grown:
    """A grid of the first parameters.

    Attributes:
        parameter: The one that came in last.
        values: How many it has.
        trainings: Of the whole grid.
        seconds: That they take, one after the other.
    """

    parameter: str
    values: int
    trainings: int
    seconds: float

    @property
    def cost(self) -> float:
        """What that costs."""
        return cost(self.seconds)


def cost(seconds: float) -> float:
    """Return what so many seconds of the machine cost."""
    return PRICE * seconds / 3600


def grown(sizes: Mapping[str, Any], table: Table | None) -> list[Grown]:
    """Return the grids of one parameter, of two and so on; none where nothing was measured.

    Args:
        sizes: The line of ``system_sizes``.
        table: What ``system_tables`` has measured of the same training.
    """
    told = {name.rpartition(" ")[2]: one["threads"] for name, one in sizes["details"].items() if "threads" in one}
    if not told or table is None:
        return []
    threads = sorted(next(iter(told.values())), key=int)
    factors = {
        (str(row.setting["threads"]), int(row.setting.get(WORKERS) or 0)): row.seconds
        for row in table.rows.values()
        if not row.setting.get(STAY)
    }
    loading = sorted({n for _, n in factors})[:VALUES]
    every: dict[str, Sequence[Any]] = {
        "batch size": spread(sorted(told, key=int)),
        "learning rate": range(VALUES),
        "dropout": range(VALUES),
        "epochs": EPOCHS,
        "loader workers": loading,
        "threads": threads[:VALUES],
    }
    default = {"learning rate": 0, "dropout": 0, "epochs": FINAL_EPOCHS, "loader workers": 0, "threads": threads[-1]}
    found = []
    for many, parameter in enumerate(PARAMETERS, start=1):
        tuned = [every[name] if nth < many else [default[name]] for nth, name in enumerate(PARAMETERS)]
        took = [
            epochs * told[size][n]["epoch_s"] * factors[n, loaders] / factors[n, 0]
            for size, _, _, epochs, loaders, n in itertools.product(*tuned)
        ]
        found.append(Grown(parameter, len(every[parameter]), len(took), sum(took)))
    return found


def spread(values: Sequence[str]) -> Sequence[str]:
    """Return the first of some values, the last, and one between.

    Example:
        >>> spread(["32", "64", "256", "1024"])
        ['32', '256', '1024']
    """
    return list(dict.fromkeys((values[0], values[len(values) // 2], values[-1])))
