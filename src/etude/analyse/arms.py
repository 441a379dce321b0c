"""Runs of the base and of an arm, as a test takes them: which are pairs, and which are missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.numbers import is_number
from etude.core.text import brief, count

SHOWN: Final = 5
"""Seeds that a sentence names."""

LARGEST: Final = 1e100
"""Numbers beyond it are no results: such a run diverged, and squares of its metric are no numbers."""

Runs = Mapping[Any, float]
"""The metric by seed, or by place where seeds are not known; NaN of runs that came to no number."""


@dataclass(frozen=True)
class Beside:
    """An arm beside the base.

    Attributes:
        base: Runs of the base that came to a number; pair by pair, if they are pairs.
        arm: Those of the arm.
        paired: Whether they are pairs.
        missing: Seeds of which one of the two came to no number, or was never run.
        says: What is to be said of it.
    """

    base: tuple[float, ...]
    arm: tuple[float, ...]
    paired: bool
    missing: tuple[Any, ...]
    says: tuple[str, ...]

    @property
    def n(self) -> int:
        """How many pairs there are; of runs that are none, how many the smaller arm has."""
        return min(len(self.base), len(self.arm))

    @property
    def varies(self) -> bool:
        """Whether runs of either differ among themselves. If not, they may all be one run, and no test knows that."""
        return vary(self.base) or vary(self.arm)


def vary(values: Iterable[float]) -> bool:
    """Say whether numbers differ among themselves; those that are none do not count."""
    return len({value for value in values if math.isfinite(value)}) > 1


def read_arms(arms: Any, base: str | None) -> tuple[str, dict[str, Runs]]:
    """Return the name of the base, and the runs of each arm, whatever form they came in.

    Raises:
        ConfigError: They are no arms, or the base is none of them.
    """
    if not isinstance(arms, Mapping) or not arms:
        raise ConfigError(
            f"arms={brief(arms)} has no arms. Pass a mapping of names to runs: "
            "{'base': [0.91, 0.93], 'conv2': [0.88, 0.90]}, or {'base': {seed: value}, ...}."
        )
    read = {str(name): _runs(str(name), runs) for name, runs in arms.items()}
    chosen = next(iter(read)) if base is None else str(base)
    if chosen not in read:
        raise ConfigError(f"base={base!r} is no arm. These are: {', '.join(map(repr, read))}.")
    return chosen, read


def _runs(name: str, runs: Any) -> Runs:
    if isinstance(runs, str | bytes) or not (hasattr(runs, "__iter__") or is_number(runs)):
        raise ConfigError(
            f"The runs of {name!r} are {brief(runs)}. Pass a list of numbers, or a mapping of seeds to numbers."
        )
    if not isinstance(runs, Mapping):
        runs = dict(enumerate([runs] if is_number(runs) else runs))
        return _Placed({place: _number(name, place, value) for place, value in runs.items()})
    return {seed: _number(name, seed, value) for seed, value in runs.items()}


class _Placed(dict[Any, float]):
    """Runs whose seeds are not known: they stand in some order."""


def _number(name: str, seed: Any, value: Any) -> float:
    if value is None:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"The run {seed!r} of {name!r} is {brief(value)}, which is no number.") from error


def check_margin(margin: Any) -> float | None:
    """Return a margin that was given.

    Raises:
        ConfigError: It is none.
    """
    if margin is not None and not (is_number(margin) and 0 < margin < math.inf):
        raise ConfigError(f"margin={brief(margin)} is no margin. Pass a positive number in the unit of the metric.")
    return margin if margin is None else float(margin)


def beside(base: Runs, arm: Runs, *, sign: float, paired: bool) -> Beside:
    """Return an arm beside the base, with what is missing.

    Args:
        base: Runs of the base.
        arm: Runs of the arm.
        sign: 1 if more is better, -1 if less is: values are turned by it, so that more is better.
        paired: Whether the same seed makes a pair.
    """
    says = []
    if paired and len(base) != len(arm) and (isinstance(base, _Placed) or isinstance(arm, _Placed)):
        says.append(
            f"{count(len(arm), 'run')} beside {len(base):,} of the base, so places do not say which are pairs: tested "
            "as unpaired; pass {seed: value} for pairs"
        )
        paired = False
    seeds = list(dict.fromkeys([*base, *arm]))
    if paired:
        both = [seed for seed in seeds if _known(base, seed) and _known(arm, seed)]
        ours, theirs = [base[seed] for seed in both], [arm[seed] for seed in both]
        missing = [seed for seed in seeds if seed not in both]
    else:
        ours, theirs = ([value for value in runs.values() if _usable(value)] for runs in (base, arm))
        missing = [seed for runs in (base, arm) for seed in runs if not _usable(runs[seed])]
    says += _lost(base, arm, missing, paired=paired)
    return Beside(
        tuple(sign * value for value in ours),
        tuple(sign * value for value in theirs),
        paired,
        tuple(missing),
        tuple(says),
    )


def _usable(value: float) -> bool:
    return abs(value) <= LARGEST  # NaN compares false


def _known(runs: Runs, seed: Any) -> bool:
    return seed in runs and _usable(runs[seed])


def _lost(base: Runs, arm: Runs, missing: Sequence[Any], *, paired: bool) -> list[str]:
    """Say which runs came to nothing: that they did is a result, which means of the others do not show."""
    if not missing:
        return []
    theirs = sum(not _usable(value) for value in arm.values())
    ours = sum(not _usable(value) for value in base.values())
    never = len(missing) - sum(not _known(arm, seed) and seed in arm for seed in missing) if paired else 0
    told = [f"{n} of {who}" for n, who in ((theirs, "the arm"), (ours, "the base")) if n]
    came = f"came to no number: {' and '.join(told)}" if told else ""
    named = ", ".join(map(str, missing[:SHOWN])) + (f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else "")
    only = f"only one of both was run: {count(never, 'seed')}" if never and not told else ""
    why = "; ".join(part for part in (came, only) if part) or "some were not run"
    more = "; what failed may be what was worst, and the effect is of the others" if told else ""
    return [f"{count(len(missing), 'seed')} missing ({named}): {why}{more}"]
