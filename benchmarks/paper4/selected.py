"""What the best of many settings would look like if partitions did nothing.

If they did nothing, a run of one setting could as well be the run of another, or of random partitions, with the same
seed. So within each seed all values are dealt out anew, again and again, and the best of the dealt settings is looked
at. That keeps what settings share: the seeds, and the one arm of random partitions that all of them are measured by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.common import Result
from etude.analyse.chance import deal_out, share

LEVEL: Final = 0.05


def selected(values: Sequence[Sequence[float]]) -> Result:
    """Return how far the best setting of a table is from what chance makes of equal ones, and the worst likewise.

    Args:
        values: A row for each setting, with a value for each seed; the first is that of random partitions.
    """
    import numpy as np
    from scipy.stats import f

    table = np.array(values)
    dealt = deal_out(table)
    off = dealt[:, 1:] - dealt[:, :1]
    found = table[1:].mean(axis=1) - table[0].mean()
    most, least = off.max(axis=1), off.min(axis=1)
    bar, floor = float(np.quantile(most, 1 - LEVEL)), float(np.quantile(least, LEVEL))
    among = deal_out(table[1:])
    lead = found.max() - found.mean()
    leads = among.max(axis=1) - among.mean(axis=1)
    settings, seeds = table[1:].shape
    rest = table[1:] - table[1:].mean(axis=0) - table[1:].mean(axis=1, keepdims=True) + table[1:].mean()
    noise = float((rest**2).sum() / ((settings - 1) * (seeds - 1)))
    ratio = float(seeds * found.var(ddof=1) / noise)
    return {
        "gain": float(found.max()),
        "by_chance": float(np.median(most)),
        "bar": bar,
        "p": share(most >= found.max() - 1e-9),
        "beyond": int((found > bar).sum()),
        "loss": float(found.min()),
        "loss_by_chance": float(np.median(least)),
        "floor": floor,
        "loss_p": share(least <= found.min() + 1e-9),
        "below": int((found < floor).sum()),
        "lead": float(lead),
        "lead_by_chance": float(np.median(leads)),
        "lead_p": share(leads >= lead - 1e-9),
        "spread": float(found.std(ddof=1)),
        "spread_by_chance": (noise / seeds) ** 0.5,
        "spread_p": float(f.sf(ratio, settings - 1, (settings - 1) * (seeds - 1))),
        "left": max(0.0, 1 - 1 / ratio),
    }
