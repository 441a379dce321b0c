"""The untouched program, watched more than once: what it does by itself, and whether it does it twice.

A variant is held against this. Where two runs of the same program with the same seed differ, nobody can demand more of
a variant: that is measured here, before anything is asked of anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from etude.core.errors import BaselineError
from etude.mage.facts import Facts
from etude.mage.judge.comparing import counted, listed, same
from etude.mage.tree import digest_of
from etude.mage.values import Value

ENOUGH: Final = 2
"""So many runs show that a program repeats itself."""
MANY: Final = 5
"""So many runs measure how far it does not."""
FINE: Final = ("finished", "enough seen")
"""Ends of a program that are none of an error."""
WHOLE: Final = (
    "steps",
    "optimizers",
    "rates",
    "scheduled",
    "batches",
    "batch_digests",
    "lengths",
    "examples",
    "seeds",
    "metrics",
    "losses",
)
"""Facts that are the same in two runs as a whole, or not at all."""


class Baseline(Value, frozen=True):
    """What was seen of the untouched program.

    Attributes:
        facts: Of the first run.
        runs: How many there were.
        deterministic: Whether all were equal. Then equality is demanded later.
        wanted: How many runs it takes.
        lowest: The lowest loss of each step, over all runs.
        highest: The highest.
        varies: In what the runs differ, as ``losses`` or ``calls train.py:augment``.
        text: What that means, in words; empty where it is deterministic.
    """

    facts: Facts
    runs: int
    deterministic: bool
    wanted: int = ENOUGH
    lowest: tuple[float, ...] = ()
    highest: tuple[float, ...] = ()
    varies: tuple[str, ...] = ()
    text: str = ""

    @property
    def is_enough(self) -> bool:
        """Whether so many runs were made as it takes."""
        return self.runs >= self.wanted


class Pairing(Value, frozen=True):
    """Whether a variant's run with a seed belongs to the baseline's with that seed.

    Attributes:
        paired: Whether they begin with the same values and see the same batches; None if nobody could tell.
        text: That, in words.
    """

    paired: bool | None
    text: str


def ended_well(facts: Facts) -> bool:
    """Say whether a program came to its end, or to that of what was to be watched."""
    return facts.ended.why in FINE and facts.ended.code in (0, None)


def digest_of_facts(facts: Facts) -> str:
    """Return the digest of facts, which a verdict binds to."""
    return digest_of(msgspec.json.encode(facts, order="deterministic"))


def compare_runs(runs: Sequence[Facts]) -> Baseline:
    """Return what the untouched program does, by two or more runs of it with the same seed.

    Raises:
        BaselineError: It fails by itself.
        ValueError: There are less than two runs.
    """
    if len(runs) < ENOUGH:
        raise ValueError(
            f"{len(runs)} runs of the baseline say nothing about whether it repeats itself. Pass 2 or more."
        )
    for facts in runs:
        if not ended_well(facts):
            raise BaselineError(broken(facts))
    first = runs[0]
    varies = tuple(dict.fromkeys(name for other in runs[1:] for name in _differences(first, other)))
    traces = [facts.losses for facts in runs]
    steps = range(min(map(len, traces)))
    deterministic = not any(name in varies for name in ("losses", "metrics", "batch_digests", "initial values"))
    return Baseline(
        facts=first,
        runs=len(runs),
        deterministic=deterministic,
        wanted=ENOUGH if deterministic else MANY,
        lowest=tuple(min(trace[step] for trace in traces) for step in steps),
        highest=tuple(max(trace[step] for trace in traces) for step in steps),
        varies=varies,
        text="" if deterministic else _apart(runs, varies),
    )


def broken(facts: Facts) -> str:
    """Return in words that the untouched program fails by itself, and how."""
    ended = facts.ended
    what = f"{ended.error}: {ended.message}" if ended.error else ended.why
    where = f" ({ended.frame})" if ended.frame else ""
    return (
        f"The program does not run by itself: {what}{where}. That is your code, not the patch: no variant was written, "
        "and none of your code was sent. Make it run as it is, then begin again."
    )


def pairing(base: Facts, variant: Facts) -> Pairing:
    """Return whether equal seeds pair two runs: equal initial values of what both have, and equal first batches.

    Removing a layer shifts all that is drawn after it, initial weights and the order of examples alike: runs with
    equal seeds are then independent of each other, and are to be reported so.
    """
    odd, known = [], 0
    for one, other in zip(base.models, variant.models, strict=False):
        for name, row in one.parameters.items():
            there = other.parameters.get(name)
            if there is not None and there.shape == row.shape and row.digest and there.digest:
                known += 1
                if row.digest != there.digest:
                    odd.append(name)
    batches = bool(base.batch_digests) and bool(variant.batch_digests)
    order = batches and not same(base.batch_digests, variant.batch_digests)
    what = [f"initial {listed(odd)}"] if odd else []
    what += ["the batch order"] if order else []
    if what:
        verb = "differ" if len(what) > 1 or len(odd) > 1 else "differs"
        return Pairing(
            paired=False, text=f"Seeds do not pair these runs: {' and '.join(what)} {verb}. Reported as independent."
        )
    if not known and not batches:
        return Pairing(
            paired=None,
            text="Whether seeds pair these runs could not be seen: neither initial values nor batches were. Reported "
            "as independent.",
        )
    return Pairing(paired=True, text="Seeds pair these runs: initial values and first batches are equal.")


# --- differences of runs --------------------------------------------------------------------------


def _differences(one: Facts, other: Facts) -> list[str]:
    names = [name for name in WHOLE if not same(getattr(one, name), getattr(other, name))]
    for word, mine, theirs in (
        ("calls of", one.calls, other.calls),
        ("runs of", counted(one.operators), counted(other.operators)),
        ("runs of", counted(one.elsewhere), counted(other.elsewhere)),
        ("arguments of", one.arguments, other.arguments),
        ("setting", one.settings, other.settings),
    ):
        names += [f"{word} {key}" for key in sorted({*mine, *theirs}) if not same(mine.get(key), theirs.get(key))]
    if _begins(one) != _begins(other):
        names.append("initial values")
    if not same([fit.target for fit in one.fits], [fit.target for fit in other.fits]):
        names.append("labels")
    if one.other is not None and other.other is not None:
        names += [name for name in _differences(one.other, other.other) if name not in names]
    return names


def _begins(facts: Facts) -> list[tuple[str, str]]:
    return [(name, row.digest) for model in facts.models for name, row in model.parameters.items()]


def _apart(runs: Sequence[Facts], varies: Sequence[str]) -> str:
    return (
        f"Baseline differs from itself ({_where(runs, varies)}). Equality cannot be demanded; using the spread of "
        f"{MANY} runs."
    )


def _where(runs: Sequence[Facts], varies: Sequence[str]) -> str:
    first = runs[0]
    for other in runs[1:]:
        for step, (one, two) in enumerate(zip(first.losses, other.losses, strict=False), start=1):
            if not same(one, two):
                return f"step {step}: {_apart_digits(one, two)}"
        for name, value in first.metrics.items():
            if name in other.metrics and not same(value, other.metrics[name]):
                return f"{name}: {_apart_digits(value, other.metrics[name])}"
    words: dict[str, str] = {"batch_digests": "the first batches"}
    return ", ".join(words.get(name, name) for name in varies[:2])


def _apart_digits(one: float, other: float) -> str:
    """Return two numbers with as many digits as tell them apart, at least four."""
    texts: tuple[Any, Any] = (repr(one), repr(other))
    for digits in range(4, 17):
        short = f"{one:.{digits}f}", f"{other:.{digits}f}"
        if short[0] != short[1]:
            texts = short
            break
    return f"{texts[0]} and {texts[1]}"
