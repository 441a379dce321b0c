"""A study as an export takes it, read from its journal at one moment."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etude.core import history
from etude.core.errors import SpaceError
from etude.core.lifecycle import FINAL, State
from etude.core.metrics import Metrics
from etude.core.removal import FINGERPRINTS
from etude.core.version import VERSION
from etude.exports.told import Point, Study, Trial
from etude.results.reports import Report, as_it_stands
from etude.store import shared
from etude.store.provenance import newest_run
from etude.tune.spaces import Space


def told_of(folder: Path, metrics: Metrics, meta: Mapping[str, Any]) -> Study:
    """Return a study as it stands by now, also one that goes on.

    Args:
        folder: Its folder.
        metrics: What it measures.
        meta: What was recorded about it.
    """
    found, reports = as_it_stands(folder, metrics)
    name = shared.home_of(folder).name
    first = found.drivers[0] if found.drivers else ""
    return Study(
        name=name,
        identity=hashlib.sha256(f"{first} {reports.begun_at} {meta.get('code')}".encode()).hexdigest()[:32],
        modes=dict(metrics.modes),
        watched=metrics.watched,
        trials=[_trial(trial, reports.of(trial.number), metrics) for trial in found.trials],
        space=_space(meta),
        facts=_facts(found, meta),
    )


def _trial(trial: history.Trial, reports: list[Report], metrics: Metrics) -> Trial:
    finished = trial.state is State.FINISHED
    beside = {name: v for name, v in trial.extra.items() if name != FINGERPRINTS and name not in metrics.modes}
    return Trial(
        number=trial.number,
        params=trial.params,
        seed=trial.seed,
        state=trial.state,
        values=metrics.values(trial) if finished else {},
        returned=beside if finished else {},
        points=[Point(one.step, one.at, one.metrics) for one in reports],
        facts=_facts_of(trial),
        attempt=trial.attempt,
        queued_at=trial.queued_at,
        started_at=trial.started_at,
        ended_at=trial.ended_at if trial.state in FINAL else None,
    )


def _facts_of(trial: history.Trial) -> dict[str, str | int | float]:
    """Return what is to be said of a trial, of what there is to say."""
    taken, usage = trial.taken_from, trial.outcome.usage if trial.outcome is not None else None
    told = {
        "reason": trial.reason or trial.because,
        "arm": trial.arm.name if trial.arm is not None else None,
        "start": trial.start.name if trial.start is not None else None,
        "probe": "yes" if trial.probe is not None else None,
        "tunes": "yes" if trial.tunes else None,
        "same_as": trial.same_as,
        "promotes": trial.promotes,
        "reused_from": f"{taken[0]}:{taken[1]}" if taken is not None else None,
        "attempts": trial.attempt if trial.attempt > 1 else None,
        "duration_s": usage.wall_s if usage is not None else None,
    }
    return {name: value for name, value in told.items() if value is not None and value != ""}


def _facts(found: history.History, meta: Mapping[str, Any]) -> dict[str, str | int | float]:
    """Return what is to be said of a study, of what there is to say."""
    run = newest_run(meta)
    git, packages = run.get("git") or {}, run.get("packages") or {}
    closed, question = found.closed, meta.get("question") or {}
    told = {
        "version": packages.get("etude") or VERSION,
        "verb": question.get("verb", "tune"),
        "metrics": repr(found.metrics),
        "standing": "complete" if closed is not None and closed.complete else "not complete",
        "why": closed.reason if closed is not None else None,
        "code": meta.get("code"),
        "commit": git.get("commit"),
        "host": run.get("host"),
        "experiment": meta.get("experiment"),
        "sampler": _name_of(question.get("sampler")),
        "simulated": "yes" if meta.get("simulated") is not None else None,
    }
    return {name: value for name, value in told.items() if isinstance(value, str | int | float) and value != ""}


def _name_of(sampler: Any) -> Any:
    return sampler.get("name") if isinstance(sampler, Mapping) else sampler


def _space(meta: Mapping[str, Any]) -> Space | None:
    """Return what was searched, as far as it can be read: a later version may know other domains."""
    try:
        return Space.from_dict((meta.get("question") or {})["space"])
    except (KeyError, TypeError, SpaceError):
        return None
