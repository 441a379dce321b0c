"""What came of a study, in a few lines for people."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from etude.core.advice import advice
from etude.core.history import History
from etude.core.lifecycle import State
from etude.core.ranking import best_of, front
from etude.core.text import count, seconds, show
from etude.core.totals import counts, elapsed_s, saved, saved_epochs
from etude.results.going_on import resume_command
from etude.results.machines import chosen, given_in, said, tuned_line
from etude.store import shared

SHOWN: Final = 5
"""Trials that a summary shows of a Pareto front, and a table of the best."""

INSET: Final = "  "
"""Begins the lines of a summary that a table says better."""


def is_prepared(meta: Mapping[str, Any]) -> bool:
    """Say whether all there is of a study is what was prepared for it: variants were written, and no trial began."""
    return "preparing" in meta and "definition" not in meta


def summary(history: History, folder: Path, meta: Mapping[str, Any], *, at_work: bool) -> list[str]:
    """Return the lines of a summary.

    Args:
        history: The study as it stands.
        folder: Its folder.
        meta: What was recorded about it.
        at_work: Whether somebody works on it now: then nobody needs to be told how it goes on.
    """
    if is_prepared(meta):
        return [_being_prepared(folder, at_work=at_work)]
    lines = [*_trials(history, folder, simulated=meta.get("simulated") is not None), *_best(history)]
    lines += [
        *_chosen(history),
        *_taken(history),
        *_stopped(history),
        *_prefixes(history),
        *_machines(history, meta),
        *_out_of_memory(history),
        *why_not(history, folder),
    ]
    closed = history.closed
    if closed is not None and closed.complete and closed.reason != f"all {count(len(history.trials), 'trial')} ended":
        lines.append(_ended(f"{closed.reason[:1].upper()}{closed.reason[1:]}"))
    if not at_work and (closed is None or not closed.complete):
        lines.append(_not_complete(history, folder, meta))
    return lines


def _being_prepared(folder: Path, *, at_work: bool) -> str:
    name = shared.home_of(folder).name
    how = "" if at_work else f" See `etude mage review {name}`, and `etude mage run {name}` for the trials."
    return f"Study {name} is being prepared: its variants are written, and it has no trials yet.{how}"


def why_not(history: History, folder: Path) -> Iterator[str]:
    """Say why trials failed or could not be, and how to look into it."""
    yield from _why(history, State.FAILED)
    failed = next((t for t in history.trials if t.state is State.FAILED), None)
    if failed is not None:
        yield f"See: {look_into(folder, failed.number)}"
    yield from _why(history, State.INVALID)


def look_into(folder: Path, number: int) -> str:
    """Return the command that shows what a trial printed, and the traceback that it ended with."""
    return f"etude logs {shared.address_of(folder)} {number}"


def unwell(history: History, folder: Path, meta: Mapping[str, Any], *, at_work: bool) -> str:
    """Return in sentences that a study is not complete, or that trials of it failed; empty if all went well.

    Args:
        history: The study as it stands.
        folder: Its folder.
        meta: What was recorded about it.
        at_work: Whether somebody works on it now.
    """
    name, told = shared.home_of(folder).name, []
    if failed := [trial for trial in history.trials if trial.state is State.FAILED]:
        first = failed[0]
        which = f"{len(failed)} of the {count(len(history.trials), 'trial')}"
        told.append(
            f"{which} of study {name!r} failed, {first.number} the first: {_ended(first.reason or 'no reason given')} "
            f"See: {look_into(folder, first.number)}"
        )
    if at_work:
        told.append(f"Study {name!r} is still at work, so nobody knows how it ends. Wait for it first: search.wait().")
    elif history.closed is None or not history.closed.complete:
        told.append(f"Study {name!r} has not come to its end. {_not_complete(history, folder, meta)}")
    return "\n".join(told)


def _trials(history: History, folder: Path, *, simulated: bool) -> Iterator[str]:
    standing = counts(history)
    told = ", ".join(f"{n} {state}" for state, n in sorted(standing.items(), key=lambda c: -c[1]))
    yield f"Study {shared.home_of(folder).name}: {count(sum(standing.values()), 'trial')} ({told or 'none yet'})."
    if simulated:
        took_s = elapsed_s(history)
        took = f", {seconds(took_s)} of them in all" if took_s is not None else ""
        yield f"Simulated: nothing was trained, and times are virtual{took}."


def _best(history: History) -> Iterator[str]:
    metrics, finished = history.metrics, [trial for trial in history.finished if trial.arm is None]
    if len(metrics.names) > 1 and finished:
        best = front(finished, metrics)
        yield f"Pareto front of {' and '.join(metrics.names)}: {count(len(best), 'trial')}."
        for trial in best[:SHOWN]:
            yield f"{INSET}trial {trial.number}: {_told(metrics.values(trial))} with {_told(trial.params)}"
    elif (found := best_of(finished, metrics)) is not None:
        by = f" with {_told(found.params)}" if found.params else ""
        if found.value is not None and math.isnan(found.value):  # NaN is worse than any number: so are all of them
            yield (
                f"Best {metrics.main}: none, since {_all(len(finished))} NaN. Where a loss diverges, smaller steps "
                "help, or clipped gradients; stopper='divergence' ends such trials when they report it."
            )
            return
        yield f"Best {metrics.main}: {show(found.value)} in trial {found.number}{by}."


def _chosen(history: History) -> Iterator[str]:
    """Say what probes chose to begin with."""
    if any(trial.probe is not None for trial in history.trials):
        for chosen in dict.fromkeys(trial.because for trial in history.trials if trial.probe is None):
            yield f"Begins with {chosen}."


def _taken(history: History) -> Iterator[str]:
    if history.taken:
        yield f"Taken from other studies: {count(history.taken, 'trial')}."


def _stopped(history: History) -> Iterator[str]:
    stopped, spared = saved(history)
    if stopped:
        ran = sum(t.reports for t in history.trials if t.same_as is None and t.probe is None)
        share = spared / (ran + spared) if ran + spared else 0.0
        yield (
            f"Stopped early: {count(stopped, 'trial')}, which spared {count(spared, 'report')} of {ran + spared:,} "
            f"({share:.0%})."
        )


def _prefixes(history: History) -> Iterator[str]:
    spared, of = saved_epochs(history)
    if spared:
        yield f"Prefixes: {spared:,} of {count(of, 'epoch')} were not trained twice."


def _machines(history: History, meta: Mapping[str, Any]) -> Iterator[str]:
    if not history.tuned:
        if given := given_in(meta):
            yield f"Machines: set for all trials as was said, {said(given)}."
        return
    finished = [trial for trial in history.finished if trial.arm is None]
    best = chosen(history, meta) if len(history.metrics.names) == 1 and finished else None
    yield tuned_line(history, best)
    if best is not best_of(finished, history.metrics) and best is not None:
        yield f"Best by {meta['call']['system']['best']!r}: trial {best.number} with {_told(best.params)}."


def _out_of_memory(history: History) -> Iterator[str]:
    """Say who ran out of memory, whatever became of it: results lean towards configurations that need little."""
    found = history.out_of_memory
    if found:
        lost = sum(history.trials[number].state is State.FAILED for number in found)
        shown = ", ".join(map(str, sorted(found)[:SHOWN])) + (", ..." if len(found) > SHOWN else "")
        whose = f"of trial {shown}" if len(found) == 1 else f"of {len(found)} trials ({shown})"
        yield f"Out of memory: {count(sum(found.values()), 'attempt')} {whose}; {lost or 'none'} failed for good."


def _why(history: History, state: State) -> Iterator[str]:
    found = [t for t in history.trials if t.state is state]
    reasons = Counter(t.reason for t in found).most_common(3)
    for reason, n in reasons:
        first = next(t for t in found if t.reason == reason)
        which = f"trial {first.number}" if n == 1 else f"{n} trials, {first.number} the first"
        known = advice(reason)
        told = f"{reason[:300].rstrip('.')}. {known}" if known else reason[:300] or "no reason given"
        yield f"{state.value.capitalize()} ({which}): {told}"
    if len(found) > sum(n for _, n in reasons):
        yield f"... and {len(found) - sum(n for _, n in reasons)} more {state.value}."


def _not_complete(history: History, folder: Path, meta: Mapping[str, Any]) -> str:
    closed = history.closed
    if closed is not None and closed.limit:
        return _ended(f"Not complete: {closed.reason}")
    why = closed.reason if closed is not None else "its driver ended without a word"
    command = resume_command(shared.address_of(folder), meta)
    ways = f"The same call, or `{command}`, goes on." if command else "The same call goes on."
    return f"{_ended(f'Not complete: {why}')} {ways}"


def _ended(said: str) -> str:
    """End a sentence; errors among the reasons are sentences already."""
    return said if said.endswith((".", "!", "?")) else f"{said}."


def _all(finished: int) -> str:
    return "the only finished trial gave" if finished == 1 else f"all {finished:,} finished trials gave"


def _told(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={show(value)}" for name, value in values.items())
