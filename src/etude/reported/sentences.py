"""What a report says in words: what was asked, what came of it, what else is to be said, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from etude.analyse.report.facts import Facts, Verdicts
from etude.core.text import count, seconds, show
from etude.reported.at_hand import Study
from etude.reported.work import Work

MOST_TOLD: Final = 8
"""Names and numbers that a sentence lists."""

LONGEST_NAME: Final = 40
BY_DEFAULT: Final = {"MedianRule()": "median, by default", "NeverStop()": "none"}
"""How stoppers are recorded that nobody asked for -> how they are told."""

WORDS: Final = {
    "matters": ("matters", "matter"),
    "hurts": ("hurts", "hurt"),
    "does not matter": ("does not matter", "do not matter"),
    "better": ("is better", "are better"),
    "worse": ("is worse", "are worse"),
    "as good": ("is as good", "are as good"),
    "undecided": ("is undecided", "are undecided"),
}
"""Verdict -> how it is said of one component, and of several."""


def asked(study: Study, facts: Facts, question: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Say what was asked, as label and text."""
    call = study.meta.get("call") or {}
    ways = {"max": "larger is better", "min": "smaller is better", None: "no direction is recorded"}
    yield "metric", "; ".join(f"{name} ({ways[mode]})" for name, mode in facts.modes.items())
    names = [one.name for one in facts.parameters]
    if names:
        yield "space", _listed(names, "parameter")
    if facts.groups:
        of = "arm" if facts.verb == "ablate" else "start"
        yield f"{of}s", _listed(facts.groups, of)
    if question.get("policy"):
        yield "policy", str(question["policy"])
    if question.get("trials"):
        yield "trials", f"{question['trials']:,} planned, {len(facts.trials):,} begun"
    for key in ("sampler", "stopper", "budget"):
        value = question.get(key)
        if value is None:
            value = (study.meta.get("definition") or {}).get(key)
        if value is not None:
            yield key, BY_DEFAULT.get(value, value) if isinstance(value, str) else _described(value)
    for key in ("workers", "engine", "resources", "deadline_s", "max_cost"):
        if call.get(key) is not None:
            yield key, _described(call[key])


def _listed(names: Sequence[str], noun: str) -> str:
    told = ", ".join(names[:MOST_TOLD])
    return f"{count(len(names), noun)}: {told}{', ...' if len(names) > MOST_TOLD else ''}"


def _described(value: Any) -> str:
    if isinstance(value, Mapping):
        options = ", ".join(f"{name}={show(inner)}" for name, inner in value.items() if name != "name" and inner != "")
        return f"{value.get('name', '')}{f' ({options})' if options else ''}".strip()
    return show(value)


def result(facts: Facts, judged: Verdicts | None) -> str:
    """Return what came of it, in a sentence."""
    metric, ended = facts.metric, len(facts.finished)
    if not facts.trials:
        return "No trial has begun, so nothing can be said yet."
    if not ended:
        return f"No trial has finished, so nothing can be said about {metric}."
    if not facts.numbers():
        return f"{count(ended, 'trial')} finished, and none came to a finite {metric}: there is no best one."
    if facts.verb == "ablate" or facts.groups:
        return _result_of_arms(facts, judged)
    if None in facts.modes.values():
        return f"{count(ended, 'trial')} finished. Which is best cannot be said: a metric's direction is not recorded."
    return _best(facts)


def _best(facts: Facts) -> str:
    values, ended = [value for _, value in facts.numbers()], len(facts.finished)
    if len(facts.modes) > 1:
        names = " and ".join(facts.modes)
        are = "is" if len(facts.best) == 1 else "are"
        return f"{len(facts.best)} of {count(ended, 'trial')} {are} on the Pareto front of {names}."
    if facts.verb == "fit" and len(values) > 1:
        mean = sum(values) / len(values)
        off = (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5
        return f"{facts.metric} {mean:.5g} ± {off:.2g} over {count(len(values), 'run')} (mean, standard deviation)."
    best = next(one for one in facts.trials if one.trial == facts.best[0])
    value = best.values.get(facts.metric, math.nan)
    params = ", ".join(f"{_brief(name)} = {_brief(show(v))}" for name, v in list(best.params.items())[:MOST_TOLD])
    params += ", ..." if len(best.params) > MOST_TOLD else ""
    where = f"in trial {best.trial}{': ' if params else ''}{params}"
    return f"Best {facts.metric} {show(value)} of {count(ended, 'finished trial')}, {where}."


def _result_of_arms(facts: Facts, judged: Verdicts | None) -> str:
    if judged is None or judged.why_not:
        return f"{count(len(facts.groups), 'arm')}; nothing was judged."
    if not judged.found:
        return f"{judged.base} is the only arm, so there is nothing to compare it with."
    by = {word: [_brief(one.component) for one in judged.found if one.verdict == word] for word in WORDS}
    parts = [
        f"{len(names)} {word[len(names) > 1]} ({', '.join(names[:MOST_TOLD])}{_more(names)})"
        for word, names in ((WORDS[word], names) for word, names in by.items() if names)
    ]
    *most, last = parts
    noun = "component" if facts.verb == "ablate" else "start"
    beside = "" if facts.verb == "ablate" else f" beside {judged.base}"
    return f"Of {count(len(judged.found), noun)}{beside}, {', '.join(most)}{' and ' if most else ''}{last}."


def _more(names: Sequence[Any]) -> str:
    return ", ..." if len(names) > MOST_TOLD else ""


def _brief(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def says(study: Study, facts: Facts, judged: Verdicts | None) -> Iterator[str]:
    """Say what else there is to say."""
    counts = ", ".join(f"{n:,} {state}" for state, n in sorted(study.counts().items(), key=lambda c: -c[1]))
    yield f"{count(len(facts.trials), 'trial')}: {counts or 'none yet'}."
    odd = [one for one in facts.finished if any(not math.isfinite(value) for value in one.values.values())]
    if odd:
        which = ", ".join(str(one.trial) for one in odd[:MOST_TOLD]) + (", ..." if len(odd) > MOST_TOLD else "")
        yield (
            f"{count(len(odd), 'finished trial')} ({which}) came to NaN or infinity: they count as the worst, and "
            "are in the tables and not in the figures."
        )
    values = {value for _, value in facts.numbers()}
    if len(values) == 1 and len(facts.numbers()) > 1:
        yield (
            f"All finished trials have the same {facts.metric}, {show(next(iter(values)))}: nothing that was varied "
            "can show an effect. Is the metric computed from what was trained?"
        )
    if facts.groups:
        yield from _unequal(facts)
    reasons = dict.fromkeys(one.reason for one in facts.trials if one.state == "failed" and one.reason)
    for reason in list(reasons)[:3]:
        n = sum(one.state == "failed" and one.reason == reason for one in facts.trials)
        yield f"Failed ({count(n, 'trial')}): {reason[:200]}"
    if not study.complete and study.why:
        yield f"Not complete: {study.why}"
    yield from (f"Note: {note}" for note in study.notes)


def _unequal(facts: Facts) -> Iterator[str]:
    numbers = facts.numbers()
    seeds = {name: {one.seed for one, _ in numbers if one.group == name} for name in facts.groups}
    if len({frozenset(of) for of in seeds.values()}) > 1:
        told = ", ".join(f"{name} {len(of)}" for name, of in list(seeds.items())[:MOST_TOLD])
        yield f"The arms have values for unequal seeds ({told}): only seeds that an arm shares with the base are pairs."


def costs(study: Study, facts: Facts, work: Work) -> Iterator[tuple[str, str]]:
    """Say what it cost, as label and text."""
    elapsed = study.elapsed_s
    if elapsed is not None:
        yield ("virtual time" if facts.simulated else "wall time"), seconds(elapsed)
    if work.there_s > 0:
        yield "workers' time", seconds(work.there_s)
        yield "of that, busy", f"{min(1.0, work.busy_s / work.there_s):.0%}"
    cpu = sum(one.cpu_s or 0.0 for one in facts.trials)
    if cpu and not facts.simulated:
        yield "CPU time (last attempts)", seconds(cpu)
    attempts = len(facts.spans)
    yield "attempts", f"{attempts:,} of {count(len(facts.trials), 'trial')}"
    share = f" ({work.wasted_s / work.busy_s:.0%})" if work.busy_s > 0 and work.wasted_s > 0 else ""
    yield "wasted by failures", f"{seconds(work.wasted_s)}{share}" if work.wasted_s else "nothing"
    stopped, spared = study.saved()
    if stopped:
        yield "stopped early", f"{count(stopped, 'trial')}, {count(spared, 'report')} spared"
    memory = max((one.memory_mb or 0.0 for one in facts.trials), default=0.0)
    if memory:
        yield "most memory", f"{memory:,.0f} MB"
