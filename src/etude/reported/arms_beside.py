"""Arms, or starts, of two studies side by side: the best of all runs of such a study says nothing, their means do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import fmean

from etude.analyse.report.facts import Facts
from etude.core.text import count, show, span


def result_of_arms(a: Facts, b: Facts) -> str:
    """Return what came of what both studies ran, in a sentence."""
    names = [name for name in a.groups if name in b.groups]
    first = next((name for name in names if _values(a, name) and _values(b, name)), None)
    if first is None:
        return f"{a.name} and {b.name} have no arm in common that came to a number in both."
    told = [f"{_mean(facts, first)} in {facts.name}" for facts in (a, b)]
    return (
        f"They have {count(len(names), 'arm')} in common. Mean {a.metric} of {first}: {' and '.join(told)}. "
        "Whether studies differ is not tested."
    )


def rows_of_arms(a: Facts, b: Facts) -> Iterator[tuple[str, str, str]]:
    """Yield the mean of each arm and the verdict on each component: what, in the first, in the second."""
    for name in dict.fromkeys([*a.groups, *b.groups]):
        yield f"mean of {name}", _mean(a, name), _mean(b, name)
    told = [
        {one.component: f"{one.verdict}, {_effect(one.effect, one.low, one.high)}" for one in facts.verdicts.found}
        if facts.verdicts is not None
        else {}
        for facts in (a, b)
    ]
    for name in dict.fromkeys([*told[0], *told[1]]):
        yield f"verdict on {name}", told[0].get(name, ""), told[1].get(name, "")


def _values(facts: Facts, group: str) -> list[float]:
    return [value for one, value in facts.numbers() if one.group == group]


def _mean(facts: Facts, group: str) -> str:
    values = _values(facts, group)
    return f"{show(fmean(values))} of {count(len(values), 'run')}" if values else ""


def _effect(effect: float, low: float, high: float) -> str:
    if not math.isfinite(effect):
        return "no effect is known"
    low, high = span(low, high)
    return f"{effect:+.4g} ({low:+.4g} to {high:+.4g})" if math.isfinite(low) else f"{effect:+.4g}"
