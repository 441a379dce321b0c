"""What is odd about a variant and no failure: a person should look."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from etude.mage.facts import Facts
from etude.mage.judge.tables import Pair, count, expected
from etude.mage.witnesses import ModuleGone

SHARE: Final = 0.1
"""By so much the removed share of a model may differ from the component's before somebody should look."""
FAR: Final = 3.0
"""So many times as long, or as much memory, is far off."""
LEAST_S: Final = 5.0
LEAST_MB: Final = 200.0


def alarms(pairs: tuple[Pair, ...], base: Facts, facts: Facts) -> Iterator[str]:
    """Yield what is odd."""
    yield from _sizes(pairs)
    yield from _run(base, facts)


def _sizes(pairs: tuple[Pair, ...]) -> Iterator[str]:
    for pair in pairs:
        before, after = count(pair.base), count(pair.variant)
        name = f"{pair.base.type}: " if len(pairs) > 1 else ""
        if before and after > before:
            times = after / before
            more = f"{times:.1f} times the baseline" if times >= 1.05 else f"{after - before:,} more than the baseline"  # noqa: PLR2004
            yield f"{name}{after:,} parameters, {more} ({before:,})."
            continue
        gone = [one for one in pair.witnesses if isinstance(one, ModuleGone)]
        if gone and before:
            planned = _planned(pair)
            if abs(planned - after) > SHARE * before:
                yield (
                    f"{name}{(before - after) / before:.0%} of the parameters went, and the component had "
                    f"{(before - planned) / before:.0%} of them ({before:,} before, {after:,} now)."
                )
        elif not gone and not pair.witnesses and before != after:
            yield f"{name}{after:,} parameters, {before:,} in the baseline."


def _planned(pair: Pair) -> int:
    """Return how many parameters are left by the plan; a row that may have any shape counts as it is."""
    left = 0
    for row, pattern in expected(pair.base, pair.witnesses).rows.items():
        found = pair.variant.parameters.get(row)
        sizes = [size for size in pattern if size is not None] if pattern is not None else []
        known = pattern is not None and len(sizes) == len(pattern)
        left += math.prod(sizes) if known or found is None else math.prod(found.shape)
    return left


def _run(base: Facts, facts: Facts) -> Iterator[str]:
    if base.losses and facts.losses:
        if not all(map(math.isfinite, facts.losses)) and all(map(math.isfinite, base.losses)):
            yield f"The loss is {next(one for one in facts.losses if not math.isfinite(one))} within the first steps."
        elif _far(abs(base.losses[0]), abs(facts.losses[0]), 1e-6):
            yield f"The first loss is {facts.losses[0]:.4g}, {base.losses[0]:.4g} in the baseline."
    if _far(base.wall_s, facts.wall_s, LEAST_S):
        yield f"It took {facts.wall_s:.1f} s, {base.wall_s:.1f} s in the baseline."
    if _far(base.peak_mb, facts.peak_mb, LEAST_MB):
        yield f"It needed {facts.peak_mb:,.0f} MB, {base.peak_mb:,.0f} MB in the baseline."
    others = {name: version for name, version in facts.versions.items() if base.versions.get(name, version) != version}
    if others:
        yield "It ran with other versions than the baseline: " + ", ".join(f"{n} {v}" for n, v in others.items()) + "."


def _far(one: float, other: float, least: float) -> bool:
    few, many = sorted((one, other))
    return many - few > least and many > FAR * few
