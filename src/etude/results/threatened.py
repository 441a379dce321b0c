"""A study as plain facts, by which threats to what it says are judged: from its history and what was recorded of it."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from etude.analyse.threats.evidence import Chosen, Evidence, Run, Session
from etude.analyse.threats.listed import serious, threats_of
from etude.analyse.threats.threat import Threats
from etude.core.errors import ConfigError
from etude.core.events import AnyFact, Assigned, Joined
from etude.core.history import History, Trial
from etude.core.lifecycle import FINAL, State
from etude.core.numbers import is_finite
from etude.core.removal import FINGERPRINTS, ROWS
from etude.core.text import brief
from etude.results.placed import columns_of
from etude.store.journal import Journal
from etude.store.provenance import runs_of

MOST_SUMMED: Final = 2_000
"""In a summary of more trials threats are not looked for: nobody should wait for it."""


def read_reference(value: Any) -> float | None:
    """Return the value that a study is to reproduce.

    Raises:
        ConfigError: It is no number.
    """
    if value is not None and not is_finite(value):
        raise ConfigError(f"reference={brief(value)} is no number. Pass the value that the metric is to come to.")
    return None if value is None else float(value)


def threats_in(
    folder: Path,
    history: History,
    meta: Mapping[str, Any],
    *,
    pairs: Mapping[str, bool | None],
    reference: float | None,
) -> Threats:
    """Return what may be wrong with what a study says.

    Args:
        folder: The study's folder.
        history: What became of it.
        meta: What was recorded about it.
        pairs: See ``evidence_of``.
        reference: See ``evidence_of``.
    """
    reference = read_reference(reference)
    machines: dict[int, str] = {}
    if not str((meta.get("call") or {}).get("engine") or "local").startswith(("local", "simulated")):
        with contextlib.closing(Journal.read(folder)) as journal:
            machines = machines_of(journal.facts())
    return threats_of(evidence_of(history, meta, pairs=pairs, machines=machines, reference=reference))


def serious_lines(history: History, meta: Mapping[str, Any], *, reference: float | None) -> list[str]:
    """Return a line for each serious threat, for a summary: what takes long to find is not looked for."""
    if len(history.trials) > MOST_SUMMED or meta.get("simulated") is not None:
        return []
    return serious(evidence_of(history, meta, reference=reference)).lines()


def evidence_of(
    history: History,
    meta: Mapping[str, Any],
    *,
    pairs: Mapping[str, bool | None] | None = None,
    machines: Mapping[int, str] | None = None,
    reference: float | None = None,
) -> Evidence:
    """Return a study as plain facts.

    Args:
        history: What became of it.
        meta: What was recorded about it.
        pairs: Of an ablation, whether each arm begins as the base does; None for arms of which nobody knows.
        machines: Trial -> the machine that it ran on, as far as that is known.
        reference: The value that it is to reproduce; that of the experiment, if left out.
    """
    question = meta.get("question") or {}
    given = len(question.get("start") or [])
    trials = [
        trial for trial in list(history.trials) if trial.same_as is None and trial.probe is None and not trial.tunes
    ]
    runs = tuple(_run(trial, history, given, (machines or {}).get(trial.number, "")) for trial in trials)
    verb = str(question.get("verb", "tune"))
    arms = question.get("arms") or []
    metrics = history.metrics
    return Evidence(
        verb=verb,
        metric=metrics.main,
        mode=metrics.modes[metrics.main],
        runs=runs,
        columns=columns_of(question, [run.params for run in runs]) if verb == "tune" else (),
        sampler=_named(question.get("sampler")),
        stopper=_named(question.get("stopper")),
        base=str(arms[0]["name"]) if arms else "",
        pairs=pairs or {},
        sessions=tuple(map(_session, runs_of(meta))),
        unseen=tuple(map(str, meta.get("unseen") or ())),
        chosen=_chosen(question.get("chosen")),
        retuned=(question.get("retuned") or {}).get("trials"),
        on=str(question.get("on") or ""),
        reference=reference if reference is not None else meta.get("reference"),
        over=history.closed is not None and history.closed.complete,
    )


def machines_of(facts: Iterable[AnyFact]) -> dict[int, str]:
    """Return on which machine the newest attempt of each trial ran."""
    where: dict[str, str] = {}
    found: dict[int, str] = {}
    for fact in facts:
        if isinstance(fact, Joined):
            where[fact.worker] = fact.machine
        elif isinstance(fact, Assigned):
            found[fact.trial] = where.get(fact.worker, "")
    return found


def _run(trial: Trial, history: History, given: int, machine: str) -> Run:
    outcome, curve = trial.outcome, trial.curve
    first = trial.number < given
    return Run(
        number=trial.number,
        params=dict(trial.params),
        state=trial.state.value if trial.state in FINAL else "open",
        value=trial.value if trial.state is State.FINISHED else None,
        seed=trial.seed,
        how=outcome.how.value if outcome is not None else "",
        out_of_memory=history.out_of_memory.get(trial.number, 0),
        arm=trial.arm.name if trial.arm is not None else None,
        drawn=trial.upto is None and trial.promotes is None and not first,
        given=first,
        reports=len(curve),
        last=curve[-1] if curve else None,
        machine=machine,
        taken=trial.taken_from is not None,
        data=trial.extra.get(FINGERPRINTS, {}).get(ROWS, {}),
    )


def _named(plain: Any) -> str:
    """Return what goes by a name: as plain data, or the call that makes it."""
    if isinstance(plain, Mapping):
        return str(plain.get("name", ""))
    if isinstance(plain, list | tuple):
        return ", ".join(filter(None, map(_named, plain)))
    return "" if plain in (None, "none") else re.sub(r"\(.*", "", str(plain))


def _session(recorded: Mapping[str, Any]) -> Session:
    def part(name: str) -> Mapping[str, Any]:
        found = recorded.get(name)
        return found if isinstance(found, Mapping) and "error" not in found else {}

    hardware, git = part("hardware"), part("git")
    gpus = hardware.get("gpus") if isinstance(hardware.get("gpus"), list) else []
    kinds = [hardware.get("cpu"), *(gpu.get("name") for gpu in gpus or [] if isinstance(gpu, Mapping))]
    diff = str(git.get("diff") or "")
    return Session(
        host=str(recorded.get("host") or ""),
        hardware=", ".join(str(kind) for kind in kinds if kind and isinstance(kind, str)),
        python=str(part("python").get("version") or ""),
        packages={str(name): str(version) for name, version in part("packages").items()},
        commit=str(git.get("commit") or ""),
        changed=hashlib.sha256(diff.encode()).hexdigest()[:8] if diff else "",
        threads=recorded.get("threads"),
    )


def _chosen(plain: Any) -> Chosen | None:
    if not isinstance(plain, Mapping):
        return None
    return Chosen(
        str(plain["study"]), int(plain["trial"]), int(plain["trials"]), str(plain["metric"]), plain.get("data") or {}
    )
