"""Whether the n-th rows of two settings have the same seed, which nobody wrote down.

The paper says that each setting was repeated with ten seeds fixed beforehand, and the released script goes through them
in one order. If the rows kept that order, n-th rows began with the same weights, and their first epochs, which have
random partitions in all settings alike, agree more than other rows' do. That can be looked at without a look at what
came of the partitions. And if it were wrong, pairs by rows would be pairs of independent runs: fair, and worth nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from benchmarks.common import Result
from benchmarks.paper4.printed import WARMUPS, WORKLOADS, Setting
from benchmarks.paper4.runs import VANILLA, Run

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

FIRST: Final = min(WARMUPS)
"""So many epochs have random partitions in all settings."""

SHUFFLES: Final = 9_999
LEVEL: Final = 0.05


def seeds(runs: Sequence[Run]) -> list[Result]:
    """Return for each data set and model what their rows have in common."""
    kinds = list(dict.fromkeys((workload.data, workload.model) for workload in WORKLOADS))
    return [{"name": f"{data}, {model}", **_alike(runs, data, model)} for data, model in kinds]


def _alike(runs: Sequence[Run], data: str, model: str) -> Result:
    import numpy as np

    files: dict[tuple[str, Setting | None], list[Run]] = {}
    for run in runs:
        if (run.data, run.model) == (data, model):
            files.setdefault((run.folder, run.setting), []).append(run)
    vanilla = list(files).index((VANILLA, None))
    curves = np.array([[run.curve for run in mine] for mine in files.values()])  # file x row x epoch
    first, best = curves[:, :, :FIRST], curves.max(axis=2)
    others = np.delete(np.arange(len(files)), vanilla)
    ps = own_order(first)
    return {
        "settings": len(files),
        "share": _share_of_rows(first.mean(axis=2)),
        "vanilla_r": _r(first[vanilla].mean(axis=1), first[others].mean(axis=(0, 2))),
        "fitting": int((ps <= LEVEL).sum()),
        "vanilla_p": float(ps[vanilla]),
        "most_p": float(ps.max()),
        "share_of_best": _share_of_rows(best),
        "vanilla_r_of_best": _r(best[vanilla], best[others].mean(axis=0)),
    }


def own_order(first: Array) -> Array:
    """Return for each file how often its rows in another order fit those of all other files as well, or better.

    Args:
        first: Accuracies of the first epochs, file x row x epoch.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    n, rows, _ = first.shape
    orders = rng.permuted(np.tile(np.arange(rows), (SHUFFLES, 1)), axis=1)
    noise = (first - first.mean(axis=0)).std(axis=(0, 1))
    mean_of_others = (first.sum(axis=0) - first) / (n - 1)
    found = []
    for mine, theirs in zip(first / noise, mean_of_others / noise, strict=True):
        off = ((mine[:, None] - theirs[None]) ** 2).sum(axis=2)
        shuffled = off[np.arange(rows), orders].sum(axis=1)
        found.append((1 + (shuffled <= np.trace(off) + 1e-9).sum()) / (1 + SHUFFLES))
    return np.array(found)


def _share_of_rows(values: Array) -> float:
    """Return what share of the variance within files goes with the row, less what chance would give."""
    files, rows = values.shape
    centred = values - values.mean(axis=1, keepdims=True)
    by_row = files * (centred.mean(axis=0) ** 2).sum() / (rows - 1)
    rest = ((centred - centred.mean(axis=0)) ** 2).sum() / ((files - 1) * (rows - 1))
    of_rows = max(0.0, (by_row - rest) / files)
    return float(of_rows / (of_rows + rest)) if rest else 1.0


def _r(one: Array, other: Array) -> float:
    import numpy as np

    return float(np.corrcoef(one, other)[0, 1])
