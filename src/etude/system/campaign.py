"""A first history on purpose: which settings are measured of a workload, how often, and in which order.

PipeTune begins with such a campaign: 48 settings of each of its workloads, each twice. There the 48 are all that three
parameters of four, three and four values make. Here there may be more knobs, so not all combinations are measured: each
value of each knob for itself, since that tells most, and combinations that are drawn for what only some values together
bring.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from etude.core.errors import ConfigError
from etude.core.text import brief
from etude.system.entries import Probed
from etude.system.knobs import Key, Knob, Setting, Value, key, setting_of
from etude.system.probing import DEFAULT, best_of
from etude.system.settings import grid, says_nothing_new

MOST: Final = 48
REPEATS: Final = 2
BESIDE: Final = 8
"""So many epochs at most lie between two by default: with those each setting is compared."""
DRAWS: Final = 100
"""Draws for each setting that is looked for, since some were drawn before or say nothing new."""


def campaign(knobs: Sequence[Knob], *, most: int = MOST, repeats: int = REPEATS, seed: int = 0) -> tuple[Setting, ...]:
    """Return the settings of a training's epochs, one after the other.

    Each round has every setting once, in an order of its own, so that what changes slowly on the machine, such as its
    warmth or another job, falls on all of them alike. The default, which names no knob, comes every now and then.

    Args:
        knobs: As ``chosen`` returns them: with values to try.
        most: How many settings at most, the default among them.
        repeats: How often each is measured.
        seed: Draws combinations and orders; equal seeds give equal campaigns.

    Raises:
        ConfigError: ``most`` or ``repeats`` leave nothing to measure, or there are no knobs.

    Example:
        >>> from etude.system.knobs import Effect
        >>> threads = Knob("threads", Effect.ROUNDING, (4, 2, 1), 4)
        >>> campaign([threads], repeats=2)
        ({}, {'threads': 2}, {'threads': 1}, {}, {'threads': 2}, {'threads': 1}, {})
    """
    if most < 2 or repeats < 1:  # noqa: PLR2004
        raise ConfigError(
            f"most={brief(most)}, repeats={brief(repeats)}: nothing could be compared. Pass most=2 or more, and "
            "repeats=1 or more."
        )
    others = settings_of(knobs, most=most, seed=seed)[1:]
    draw = random.Random(f"{seed} order")
    epochs: list[Setting] = []
    for _ in range(repeats):
        for nth, setting in enumerate(draw.sample(others, len(others))):
            if nth % BESIDE == 0:
                epochs.append(DEFAULT)
            epochs.append(setting)
    return (*epochs, DEFAULT)


def settings_of(knobs: Sequence[Knob], *, most: int = MOST, seed: int = 0) -> tuple[Setting, ...]:
    """Return the settings of a campaign, the default first: all combinations, or as many as may be measured.

    Raises:
        ConfigError: There are no knobs, or none has a value to try.
    """
    by_default: dict[str, Value] = {knob.name: knob.default for knob in knobs}
    found: dict[Key, Setting] = {key(by_default): DEFAULT}
    if math.prod(len(knob.values) for knob in knobs) <= most:
        found |= {key(one): one for one in grid(knobs) if key(one) not in found}
    else:
        _add(found, _one_by_one(knobs, by_default), most)
        draw = random.Random(f"{seed} settings")
        drawn = ({knob.name: draw.choice(knob.values) for knob in knobs} for _ in range(DRAWS * most))
        _add(found, (one for one in drawn if not says_nothing_new(knobs, one)), most)
    if len(found) == 1:
        raise ConfigError(
            f"knobs={[knob.name for knob in knobs]} have no other value to try. Name some that have: `etude system "
            "show` lists them."
        )
    return tuple(found.values())


def learned(measured: Iterable[tuple[Setting, float]]) -> tuple[Setting, tuple[Probed, ...]]:
    """Return which setting was best in a campaign, and what each cost: the median of its epochs.

    Args:
        measured: Settings of epochs, and what a step of each cost. Some are by default.

    Raises:
        ConfigError: None is by default, so nothing can be compared.
    """
    costs: dict[Key, list[float]] = {}
    for setting, cost in measured:
        costs.setdefault(key(setting), []).append(cost)
    if key(DEFAULT) not in costs:
        raise ConfigError("No epoch was measured by default, so no setting can be compared. Let one end at least.")
    middle = {one: median(each) for one, each in costs.items()}
    best, _ = best_of({one: cost / middle[key(DEFAULT)] for one, cost in middle.items()})
    return best, tuple(Probed(setting_of(one), cost) for one, cost in middle.items())


def _one_by_one(knobs: Sequence[Knob], by_default: Setting) -> list[Setting]:
    """Return settings in which one knob is not at its default, and what it means nothing without."""
    first = {knob.name: next((value for value in knob.values if value), knob.default) for knob in knobs}
    found: list[Setting] = []
    for knob in knobs:
        needed = {knob.only_with: first[knob.only_with]} if by_default.get(knob.only_with, 1) == 0 else {}
        found += [{**by_default, **needed, knob.name: value} for value in knob.values if value != knob.default]
    return found


def _add(found: dict[Key, Setting], more: Iterable[Setting], most: int) -> None:
    for one in more:
        if len(found) >= most:
            return
        found.setdefault(key(one), one)
