"""Gathers what a report says of machines that were tuned."""

from __future__ import annotations

from collections.abc import Iterator

from etude.analyse.report.used import Decision, Machines, Used
from etude.core.errors import EtudeError
from etude.reported.at_hand import Study
from etude.system.energy import as_joules


def machines_of(study: Study) -> Machines | None:
    """Return what trials took of their machines; None where none was tuned."""
    found = study.machines
    if not found.uses:
        return None
    front = set(found.front)
    used = [
        Used(
            trial=one.trial,
            value=found.values.get(one.trial),
            seconds=one.seconds,
            energy=as_joules(one.energy),
            epochs=one.epochs,
            probes=one.probes,
            saved_s=one.saved_s,
            probing_s=one.probing_s,
            setting=one.setting,
            on_front=one.trial in front,
            saved_j=one.saved_j,
            probing_j=one.probing_j,
        )
        for one in found.uses
    ]
    decisions = [
        Decision(
            trial=one.trial,
            attempt=one.attempt,
            epoch=one.epoch,
            phase=one.phase.value,
            setting=one.setting,
            step_s=one.step_s,
            energy=as_joules(one.energy),
            why=one.why,
            evidence=one.evidence,
        )
        for one in found.decided
    ]
    best = _best(study)
    tuned = [one.trial for one in used]
    return Machines(
        says=[*found.says, *_chosen(study, best)],
        used=used,
        front_of=list(found.front_of),
        decisions=decisions,
        shown=best if best in tuned else next(iter([*found.front, *tuned])),
    )


def _best(study: Study) -> int | None:
    try:
        return study.best.number
    except EtudeError:  # none finished, or several metrics rank them
        return None


def _chosen(study: Study, best: int | None) -> Iterator[str]:
    """Say which trial is the best, if that goes by more than the metric."""
    if best is not None and best != study.top(1)[0].number:
        by = study.meta["call"]["system"]["best"]
        yield f"By {by!r} trial {best} is the best."
