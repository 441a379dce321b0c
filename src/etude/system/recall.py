"""Reuse or probe: what past runs say about a run whose profile is known. Nothing here reads a file or a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from etude.core.text import count
from etude.system.entries import Entry
from etude.system.knobs import Key, Setting, key
from etude.system.similarity import Match, Recogniser, Similarity
from etude.system.vectors import Rates

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
    for entry in entries:
        for setting, more in entry.beyond_best():
            settings.setdefault(key(setting), setting)
            beyond.setdefault(key(setting), []).append(more)
    tried = {name: more for name, more in beyond.items() if 2 * len(more) >= len(entries)}
    means = {name: sum(more) / len(more) for name, more in (tried or beyond).items()}
    best = min(means, key=lambda name: means[name])  # of equals, the one that the nearest run found best
    return settings[best], means[best]
