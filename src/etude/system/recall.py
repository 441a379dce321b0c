"""Reuse or probe: what past runs say about a run whose profile is known. Nothing here reads a file or a clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

from etude.core.text import count
from etude.system.entries import Entry
from etude.system.knobs import Key, Setting, key, setting_of
from etude.system.probing import DEFAULT
from etude.system.similarity import Match, Recogniser, Similarity
from etude.system.vectors import Rates

BY_DEFAULT: Final = key(DEFAULT)
CHANCE: Final = 0.35
"""The logarithms of what two settings cost in one epoch each lie so far apart by chance, in standard deviations, where
epochs spread by a quarter. More of it is no chance."""
MOST_BEYOND: Final = 0.05
"""By this share a setting may cost more, on average over similar runs, than what was best for each of them."""


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned of past runs, and of which.

    Attributes:
        entries: The runs.
        recogniser: What recognises others by them.
    """

    entries: tuple[Entry, ...]
    recogniser: Recogniser


@dataclass(frozen=True, eq=False)
class Recall:
    """What past runs say.

    Attributes:
        setting: The setting to reuse; None if they do not say, and settings have to be probed.
        match: What the run was found to be like.
        why: The same in a sentence, with the numbers.
        learned: What was learned for it; give it to the next call.
    """

    setting: Setting | None
    match: Match
    why: str
    learned: Learned


def reuse_or_probe(
    entries: Sequence[Entry], rates: Rates, similarity: Similarity, *, learned: Learned | None = None
) -> Recall:
    """Return the setting that was best for runs like this one, or that there is none.

    Of all settings that at least half of the similar runs have tried, it is the one that cost least beyond what was
    best for each of them. If even that is more than 5 % on average, similar runs do not agree, and settings have to be
    probed.

    Args:
        entries: What is remembered of this machine and this objective, the oldest first.
        rates: The profile of the run, with the default setting.
        similarity: How runs are compared.
        learned: What an earlier call has learned. It is kept while it recognises the runs that come, and learned anew,
            with what has been added since, when one comes that it does not know; and if a run was forgotten.

    Source:
        PipeTune, sections 5.4 to 5.6. There the settings of a cluster are one; here they may differ, and have to agree.
    """
    now = tuple(entries)
    if learned is None or now[: len(learned.entries)] != learned.entries:
        learned = _learn(now, similarity)
    match = learned.recogniser.look_up(rates)
    if not match.known and len(learned.entries) < len(now):
        learned = _learn(now, similarity)
        match = learned.recogniser.look_up(rates)
    if not match.known or not match.like:
        return Recall(None, match, f"Unknown: {match.why}.", learned)
    setting, beyond = _agreed([learned.entries[nth] for nth in match.like])
    runs = count(len(match.like), "similar run")
    if beyond > MOST_BEYOND:
        why = f"{runs} do not agree: no setting comes closer than {beyond:.0%} to what was best for each; {match.why}."
        return Recall(None, match, why, learned)
    why = f"Known: of {runs} this was the best setting, or {beyond:.1%} from it on average; {match.why}."
    return Recall(setting, match, why, learned)


def _learn(entries: tuple[Entry, ...], similarity: Similarity) -> Learned:
    return Learned(entries, similarity.fit([one.rates for one in entries], [one.workload for one in entries]))


def _agreed(entries: Sequence[Entry]) -> tuple[Setting, float]:
    """Return the setting that costs least beyond the best over similar runs, and how much; the nearest run is first."""
    settings: dict[Key, Setting] = {}
    beyond: dict[Key, list[float]] = {}
    for more in _each_beyond_best(entries):
        for setting, share in more:
            settings.setdefault(key(setting), setting)
            beyond.setdefault(key(setting), []).append(share)
    tried = {name: shares for name, shares in beyond.items() if 2 * len(shares) >= len(entries)}
    means = {name: sum(shares) / len(shares) for name, shares in (tried or beyond).items()}
    best = min(means, key=lambda name: means[name])  # of equals, the one that the nearest run found best
    return settings[best], means[best]


Beyond = Sequence[tuple[Setting, float]]


def _each_beyond_best(entries: Sequence[Entry]) -> list[Beyond]:
    """Return for each run by which share settings cost more than the best one.

    Runs of one workload differ by chance, and each has been lucky with some setting. So what they cost is averaged
    first, and each run says the same. Where they differ by more than chance, as the same functions may do with other
    hyperparameters, each speaks for itself.
    """
    repeats: dict[str, list[Entry]] = {}
    for entry in entries:
        repeats.setdefault(entry.workload, []).append(entry)
    together = {workload: _beyond_best_together(of) for workload, of in repeats.items()}
    return [together[entry.workload] or entry.beyond_best() for entry in entries]


def _beyond_best_together(entries: Sequence[Entry]) -> Beyond:
    """Return the same of several runs by what settings cost on average; nothing where no average is of use.

    A setting that is not better than the default by a standard error is not the best: of many, one is always lucky.
    """
    costs = [{key(one.setting): math.log(one.cost) for one in entry.costs} for entry in entries]
    shared = [name for name in costs[0] if all(name in each for each in costs)]
    if len(entries) < 2 or not shared:  # noqa: PLR2004
        return ()
    for each in costs:
        level = fmean([each[name] for name in shared])  # trials differ in what a step costs
        each.update({name: cost - level for name, cost in each.items()})
    tried = dict.fromkeys(name for each in costs for name in each)
    of = {name: [each[name] for each in costs if name in each] for name in tried}
    means = {name: fmean(each) for name, each in of.items() if 2 * len(each) >= len(entries)}
    best = min(means, key=means.__getitem__)
    beside = {name: [each[name] - each[best] for each in costs if name in each and best in each] for name in tried}
    if any(len(more) > 1 and stdev(more) > CHANCE for more in beside.values()):
        return ()
    more = beside.get(BY_DEFAULT, [])
    if len(more) > 1 and fmean(more) * math.sqrt(len(more)) < stdev(more):
        best = BY_DEFAULT
    return [(setting_of(name), max(0.0, math.exp(mean - means[best]) - 1)) for name, mean in means.items()]
