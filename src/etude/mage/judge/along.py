"""What goes along with a module by the plan, and how often: so much is told to nobody, and no more.

Activations and poolings have no weights, so that one call of them looks like another: behind ``conv2`` or behind
``conv3``. Only their number is seen. So as many calls may be missing silently as the plan takes away, which is as many
as the module that they stand behind had. What the plan leaves where it is may do nothing more there, as a second ReLU:
that goes as well for somebody to look at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum, auto

from etude.mage.judge.comparing import counted, under
from etude.mage.judge.tables import Pair, calls_under
from etude.mage.witnesses import ModuleGone


class Left(Enum):
    """What is left of calls that are missing, after those that go along by the plan."""

    NOTHING = auto()
    USELESS = auto()
    """Calls that stay by the plan, and would do nothing more."""
    MORE = auto()


def planned(pair: Pair) -> Counter[str]:
    """Return how many calls go by the plan, by the module's path or the function's name."""
    return _calls(pair, lambda claim: claim.along)


def beyond_the_plan(path: str, fewer: int, pair: Pair) -> Left:
    """Return what is left of a module's missing calls; one that has parameters only goes by a claim of its own."""
    if any(under(path, row) for row in pair.base.parameters):
        return Left.MORE
    go, useless = planned(pair)[path], _calls(pair, lambda claim: claim.idle)[path]
    if fewer <= go:
        return Left.NOTHING
    return Left.USELESS if fewer <= go + useless else Left.MORE


def of_operator(operator: str, calls: Mapping[str, int], pair: Pair) -> int:
    """Return how often an operator runs in calls: it has its function's name, or that and what it gives."""
    runs = 0
    for name, number in calls.items():
        module = pair.base.modules.get(name)
        if operator == name or operator.startswith(f"{name}_with_"):
            runs += number
        elif module is not None and module.calls:
            runs += number * counted(module.operators).get(operator, 0) // module.calls
    return runs


def _calls(pair: Pair, names: Callable[[ModuleGone], tuple[str, ...]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for claim in pair.witnesses:
        if isinstance(claim, ModuleGone):
            for name in names(claim):
                found[name] += calls_under(pair.base, claim.path)
    return found
