"""What should be known about a forecast: what it cannot know, and where it guesses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from etude.core.text import count
from etude.forecasting.measured import Evidence
from etude.forecasting.result import Row
from etude.tune import stop
from etude.tune.stop import NeverStop

BESIDE: Final = 0.25
"""By so many workers, at least, the measured trials and a row differ before that is worth a note."""


def notes_on(
    evidence: Evidence, judge: stop.Stopper, rows: Sequence[Row], *, failures: float, sampler: str
) -> Iterator[str]:
    """Yield one sentence for each of them.

    Args:
        evidence: What was measured.
        judge: What stops trials in the study to come.
        rows: What was forecast.
        failures: Share of the attempts that was taken to be lost.
        sampler: What proposes, as a call; empty if nothing does.
    """
    beside = evidence.at_a_time
    if any(abs(row.workers - beside) > BESIDE for row in rows):
        yield (
            f"The measured trials ran {beside:.3g} at a time. Where another number runs on one machine they slow each "
            "other down more, or less: that was not measured, and the forecast leaves times as they were."
        )
    needs = [one for one in stop.members(judge) if not isinstance(one, NeverStop)]
    if needs and not evidence.reports:
        yield (
            f"The measured trials never reported {evidence.metrics.watched!r} on their way, so no stopper has anything "
            "to go by: this is a forecast without early stopping."
        )
    if evidence.whole < len(evidence.trials):
        begun = count(len(evidence.trials) - evidence.whole, "trial")
        yield f"Of {begun} only the beginning is known; how they would have gone on is a guess, taken from the others."
    if sampler:
        yield "Configurations between the measured ones are taken to go as the nearest of these: a guess as well."
    if evidence.going_on:
        yield "A study is not complete: of trials that take long, fewer have ended, and the forecast may be too short."
    yield from _on_failures(evidence, failures=failures, sampler=sampler)
    if evidence.simulated:
        yield "A study that it goes by was simulated itself: nothing here was measured on a machine."


def _on_failures(evidence: Evidence, *, failures: float, sampler: str) -> Iterator[str]:
    if evidence.failing:
        told = f"{count(len(evidence.failing), 'measured trial')} failed, by an error or because of the time"
        if sampler:
            yield f"{told}; where a sampler proposes, the forecast takes those that went well."
        else:
            yield f"{told}; about as large a share of the trials to come is taken to fail in the same way."
    if others := evidence.failed - len(evidence.failing):
        yield f"{count(others, 'trial')} failed since processes were lost; the forecast takes those that were not."
    if evidence.lost and not failures:
        yield f"Of the measured attempts {evidence.lost:.0%} were lost; failures={evidence.lost:.2g} counts them in."
