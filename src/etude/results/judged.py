"""Verdicts of an ablation: which of its arms are judged, which of them are pairs, and how far it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol

from etude.ablate.arms import control_of
from etude.ablate.racing_plan import differences as differences_of
from etude.analyse.arms import vary
from etude.analyse.outlook import deviation_of_pairs, outlook
from etude.analyse.race_rules import Rules
from etude.analyse.racing import Stand, looks_of
from etude.analyse.verdict import Word
from etude.analyse.verdicts import Verdicts, verdicts
from etude.core.errors import ConfigError
from etude.core.text import brief, count

ALL_ARMS = ("leave_one_out", "leave_group_out", "pairs", "add_one_in")
"""Policies of which each arm is judged. Of others, whose arms are steps on a way, those without one component are."""


CONTROLS = "its control"
"""What an arm is compared with that stands beside the whole of its own size."""


class Ran(Protocol):
    """What came of an arm."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def values(self) -> Mapping[int, float]:
        """The metric by seed, of runs that have ended; NaN of those that came to no number."""
        ...


def judged(policy: str, arms: Sequence[str], components: Sequence[str]) -> list[str]:
    """Return which arms of an ablation are judged.

    Args:
        policy: Its name.
        arms: The names of all, the base first.
        components: The names of those that take away one component each.
    """
    if policy in ALL_ARMS:
        return list(arms[1:])
    return [name for name in arms[1:] if name in components] or list(arms[1:])


def verdicts_of(
    arms: Sequence[Ran],
    *,
    question: Mapping[str, Any],
    pairs: Mapping[str, bool | None],
    mode: Literal["max", "min"],
    over: bool,
    margin: float | None = None,
    level: float | None = None,
    test: Literal["sign flips", "signed ranks", "t"] | None = None,
    warns: Sequence[str] = (),
) -> Verdicts:
    """Return the verdicts of an ablation as it stands.

    Args:
        arms: What came of the arms, the base first.
        question: What was asked, as the study has it.
        pairs: For each arm, whether its runs are pairs with those of the base; None if that is not known.
        mode: The metric's direction.
        over: Whether all its trials have ended.
        margin: See ``etude.verdicts``; that of the call, if left out.
        level: See ``etude.verdicts``; that of the call, if left out.
        test: See ``etude.verdicts``.
        warns: What threatens them, a line each.
    """
    if not arms:
        raise ConfigError("No trial of this ablation has begun, so there is nothing to judge yet.")
    asked = question.get("verdicts") or {}
    names = asked.get("judged") or [arm.name for arm in arms[1:]]
    runs = {arm.name: dict(arm.values) for arm in arms}
    says = []
    level = level if level is not None else asked.get("level", 0.05)
    if asked.get("forced") and not (now := outlook(len(runs[arms[0].name]), len(names), level=level)).decides:
        says.append(f"This plan can decide nothing, and was run all the same (force=True). {now}")
    if not over:
        says.append(not_over(sum(map(len, runs.values())), question.get("trials")))
    says += warns
    found = verdicts(
        {arms[0].name: runs[arms[0].name], **{name: runs[name] for name in names if name in runs}},
        base=arms[0].name,
        mode=mode,
        paired=pairs,
        margin=margin if margin is not None else asked.get("margin"),
        level=level,
        test=test,
        says=says,
    )
    return found if asked.get("race") is None else raced(found, question, runs, mode=mode)


def beside_controls(
    arms: Sequence[Ran],
    *,
    question: Mapping[str, Any],
    mode: Literal["max", "min"],
    margin: float | None = None,
    level: float | None = None,
) -> Verdicts:
    """Return verdicts on arms beside their controls: is it the part, or the size?

    Runs of the same seed are pairs. These are claims of their own, corrected among themselves.

    Args:
        arms: What came of the arms, the base first.
        question: What was asked, as the study has it.
        mode: The metric's direction.
        margin: As in ``verdicts_of``.
        level: As in ``verdicts_of``.

    Raises:
        ConfigError: No arm has a control, or it is a race.
    """
    asked = question.get("verdicts") or {}
    if asked.get("race") is not None:
        raise ConfigError(
            "In a race an arm and its control end with other seeds, as results decide, and what they differ by was "
            "never looked at while it went on: no verdict on it would have an error rate. Pass how many seeds there "
            "are to be."
        )
    runs = {arm.name: arm.values for arm in arms}
    names = [name for name in asked.get("judged") or list(runs) if {name, control_of(name)} <= runs.keys()]
    if not names:
        raise ConfigError("No arm of this ablation has a control of its size. Pass controls=True to ablate.")
    differences = {
        name: {seed: value - runs[control_of(name)].get(seed, math.nan) for seed, value in runs[name].items()}
        for name in names
    }
    seeds = dict.fromkeys(seed for by in differences.values() for seed in by)
    return verdicts(
        {CONTROLS: dict.fromkeys(seeds, 0.0), **differences},  # a pair's difference is all that its test goes by
        base=CONTROLS,
        mode=mode,
        margin=margin if margin is not None else asked.get("margin"),
        level=level if level is not None else asked.get("level", 0.05),
    )


def not_over(ended: int, planned: int | None) -> str:
    """Say that not all trials have ended: of so many that are planned, as far as that is known, so many have."""
    of_all = f" of {planned:,}" if planned else ""
    return (
        f"Not over: {count(ended, 'trial')}{of_all} so far. Whoever stops when a verdict pleases is wrong more "
        "often than the level says."
    )


def raced(
    found: Verdicts,
    question: Mapping[str, Any],
    runs: Mapping[str, Mapping[int, float]],
    *,
    mode: str,
) -> Verdicts:
    """Return verdicts as a race came to them: p-values that suppose a number of seeds fixed beforehand are none."""
    sign = -1.0 if mode == "max" else 1.0
    losses = {(name, seed): sign * value for name, by in runs.items() for seed, value in by.items()}
    names = [one["name"] for one in question["arms"]]
    rules = Rules(**question["verdicts"]["race"])
    standing, looks = looks_of(rules, differences_of(names, question["seeds"], losses))
    stands = dict(zip(names[1:], standing.stands, strict=True))
    told = []
    for one in found:
        stand = stands[one.component]
        varies = any(vary(runs[name].values()) for name in (names[0], one.component))
        words = {Stand.FOUND: Word.MATTERS if one.effect > 0 else Word.HURTS, Stand.WITHIN: Word.SAME}
        word = words.get(stand, Word.UNDECIDED) if varies else Word.UNDECIDED
        says = (*one.says, f"{stand.value} by the race")
        told.append(
            replace(
                one,
                p=math.nan,
                p_corrected=math.nan,
                p_same=math.nan,
                p_same_corrected=math.nan,
                seeds_needed=None,
                verdict=word,
                says=says,
            )
        )
    why = (
        f"Raced: {count(len(looks), 'look')}, {rules.most} seeds at most, level {rules.level:g} for all looks and "
        "components together. The intervals are not corrected for looking."
    )
    if found.margin is not None and rules.margin is None:
        why += " It had no margin, so that nothing was found to be within one."
    return Verdicts(told, base=found.base, level=rules.level, margin=rules.margin, says=[*found.says, why])


def deviation_of(runs: Sequence[Any]) -> float | None:
    """Return about how much the difference of a pair varies, from earlier trials of one configuration; None if unknown.

    Args:
        runs: Trials of an earlier study, of any configurations: that with the most seeds counts.
    """
    by: dict[str, dict[int, float]] = {}
    for trial in runs:
        if trial.value is not None and trial.state == "finished" and trial.arm in (None, "base") and not trial.tunes:
            by.setdefault(repr(sorted(trial.params.items())), {})[trial.seed] = float(trial.value)
    most = max(by.values(), key=len, default={})
    return deviation_of_pairs(list(most.values()))


def deviation_given(given: Any) -> float | None:
    """Return a deviation that was given: as a number, or as a study whose base was run with several seeds.

    Raises:
        ConfigError: It is neither, or the study has no configuration with three seeds.
    """
    if given is None or isinstance(given, int | float):
        return given
    if not hasattr(given, "trials"):
        raise ConfigError(f"deviation={brief(given)} is neither a number nor a study.")
    if (found := deviation_of(given.trials)) is None:
        raise ConfigError(
            f"deviation={brief(given)} has no configuration that finished with three seeds or more, so nothing is "
            "known of how much runs vary. Pass a number, or leave it out."
        )
    return found
