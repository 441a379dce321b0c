"""Gathers the facts of a study."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from etude.analyse.report.facts import Arm, Facts, Judged, Parameter, Ran, Verdicts
from etude.analyse.report.figure import thinned
from etude.core.errors import EtudeError
from etude.core.metrics import MODES
from etude.core.removal import drawn_anew
from etude.core.version import VERSION
from etude.reported.at_hand import Study, Trial
from etude.reported.cautions import cautions
from etude.reported.machines import machines_of
from etude.reported.reproducing import code_of, diff_of, packages_of, record_of
from etude.reported.sentences import asked, costs, result, says
from etude.reported.work import work_of
from etude.store import shared

MOST_STEPS: Final = 200
"""Reports of a trial that are kept of a longer curve; ``etude export --reports`` has all."""

RANDOM: Final = "random"
OF_STARTS: Final = {"matters": "better", "hurts": "worse", "does not matter": "as good", "undecided": "undecided"}
"""Verdicts on weights to begin with, beside random ones."""


def facts_of(study: Study) -> Facts:
    """Return what a report knows of a study, also of one that goes on or was interrupted."""
    meta, found = study.meta, list(study.trials)
    question = meta.get("question") or {}
    modes: dict[str, str | None] = {name: mode if mode in MODES else None for name, mode in study.metrics.modes.items()}
    work = work_of(study.folder)
    began = work.began_at or 0.0
    ranking = [trial.number for trial in study.top(len(found))]
    best = _best(study, modes, ranking)
    groups, group_of = _groups(study.verb, question, found)
    ranked = set(ranking)
    trials = [_ran(trial, began, group_of.get(trial.number, ""), ranked, groups) for trial in found]
    raw = Facts(
        name=study.name,
        verb=study.verb,
        standing=_standing(study),
        modes=modes,
        watched=study.metrics.watched,
        trials=trials,
        parameters=list(_parameters((question.get("space") or {}).get("parameters") or [])),
        best=best,
        groups=groups,
        arms=list(_arms(study, question, groups)),
        machines=machines_of(study),
        spans=work.spans,
        presences=work.presences,
        simulated=study.simulated,
        began_at=None if study.simulated else work.began_at,
        version=VERSION,
    )
    judged, threats = _verdicts(study, raw), study.threats()
    seeds = sorted({trial.seed for trial in found})
    return msgspec.structs.replace(
        raw,
        verdicts=judged,
        controls=_controls(study),
        first=list(judged.says) if judged is not None else [],
        asked=list(asked(study, raw, question)),
        result=result(raw, judged),
        says=list(says(study, raw, judged)),
        costs=list(costs(study, raw, work)),
        record=record_of(meta, name=study.name, seeds=seeds),
        code=code_of(meta, shared.home_of(study.folder).absolute()),
        diff=diff_of(meta),
        packages=packages_of(meta),
        threats=cautions(raw, threats),
        clear=list(threats.clear),
    )


def _standing(study: Study) -> str:
    if study.running or study.driver is not None:
        return "at work"
    return "complete" if study.complete else "not complete"


def _best(study: Study, modes: Mapping[str, str | None], ranking: list[int]) -> list[int]:
    """Return the numbers of trials, best first; none where nothing says what is better, or nobody asked."""
    if study.verb == "ablate" or None in modes.values():
        return []
    return [one.number for one in study.front] if len(modes) > 1 else ranking


def _ran(trial: Trial, began: float, group: str, ranked: set[int], groups: Sequence[str]) -> Ran:
    steps = thinned(range(1, len(trial.curve) + 1), MOST_STEPS) if len(trial.curve) > MOST_STEPS else []
    curve = [trial.curve[step - 1] for step in steps] if steps else trial.curve
    used = trial.usage
    return Ran(
        trial=trial.number,
        state=trial.state,
        values={name: value if isinstance(value, float) else math.nan for name, value in trial.values.items()},
        params=dict(trial.params),
        seed=trial.seed,
        group=group,
        curve=[float(f"{value:.6g}") for value in curve],
        steps=steps,
        wall_s=used.wall_s if used is not None else None,
        cpu_s=used.cpu_s if used is not None else None,
        memory_mb=used.memory_mb if used is not None else None,
        ended_s=trial.ended_at - began if trial.ended_at is not None else None,
        attempts=trial.attempts,
        reason=trial.reason,
        counts=not trial.tunes and (trial.number in ranked or (bool(groups) and trial.probe is None)),
    )


def _groups(verb: str, question: Mapping[str, Any], found: Sequence[Trial]) -> tuple[list[str], dict[int, str]]:
    """Return the arms of an ablation, or the starts of a training that has several, base first; and whose is what."""
    if verb == "ablate":
        of = {trial.number: trial.arm for trial in found if trial.arm is not None and not trial.tunes}
        planned = {one["name"]: nth for nth, one in enumerate(question.get("arms") or [])}
        return sorted(dict.fromkeys(of.values()), key=lambda name: planned.get(name, len(planned))), of
    if verb == "fit":
        of = {trial.number: trial.start or RANDOM for trial in found if trial.probe is None}
        names = sorted(dict.fromkeys(of.values()), key=lambda name: name != RANDOM)
        return (names, of) if len(names) > 1 else ([], {})
    return [], {}


def _arms(study: Study, question: Mapping[str, Any], groups: Sequence[str]) -> Iterator[Arm]:
    """Yield the arms of an ablation as planned and as begun; of those that results led to, what is known."""
    if study.verb != "ablate":
        return
    planned, paired = {one["name"]: one for one in question.get("arms") or []}, study.paired()
    for name in dict.fromkeys([*planned, *groups]):
        told = planned.get(name, {})
        pairs, runs = paired.get(name, (None, 0))
        rebuilt = told.get("rebuilt") or []
        yield Arm(
            name=name,
            taken=list(told.get("taken") or told.get("changes") or []),
            rung=told.get("rung") or "",
            parameters=told.get("parameters"),
            anew=drawn_anew(rebuilt, loses=bool(told.get("loses"))) if rebuilt else "",
            pairs=pairs,
            runs=runs,
            says=list(told.get("says") or []),
        )


def _parameters(told: Any) -> Iterator[Parameter]:
    """Read domains as the journal has them, conditional ones as well."""
    if isinstance(told, Mapping):
        for inner in told.values():
            yield from _parameters(inner)
        return
    if not isinstance(told, list | tuple):
        return
    if len(told) == 2 and isinstance(told[0], str) and isinstance(told[1], Mapping) and "kind" in told[1]:  # noqa: PLR2004
        domain = told[1]
        values = domain.get("values")
        plain = isinstance(values, list) and not any(isinstance(value, list | Mapping) for value in values)
        yield Parameter(told[0], bool(domain.get("log")) or domain["kind"] == "loguniform", values if plain else None)
        yield from _parameters([inner for inner in domain.values() if isinstance(inner, list | Mapping)])
        return
    for inner in told:
        yield from _parameters(inner)


def _verdicts(study: Study, facts: Facts) -> Verdicts | None:
    """Return the verdicts; of several starts, beside random weights."""
    if not facts.groups:
        return None
    try:
        found = study.compared()
        if found is None:
            from etude.analyse.verdicts import verdicts

            by: dict[str, dict[int, float]] = {name: {} for name in facts.groups}
            for one in facts.trials:
                if one.group:
                    by[one.group][one.seed] = one.values.get(facts.metric, math.nan)
            turned: Literal["max", "min"] = (
                "max" if facts.mode == "min" else "min"
            )  # a start adds, it takes nothing away
            found = verdicts(by, base=facts.groups[0], mode=turned)
    except EtudeError as without:  # nothing has begun, or scipy is missing
        return Verdicts(base=facts.groups[0], why_not=str(without))
    return _told(found, {} if facts.verb == "ablate" else OF_STARTS)


def _controls(study: Study) -> Verdicts | None:
    """Return the verdicts beside wholes of the same size: is it the part, or the size?"""
    try:
        found = study.compared_with_controls()
    except EtudeError:  # the verdicts beside the base say why
        return None
    return _told(found, {}) if found is not None else None


def _told(found: Any, words: Mapping[str, str]) -> Verdicts:
    """Return verdicts as plain data, in other words where there are some."""
    return Verdicts(
        base=found.base,
        level=found.level,
        margin=found.margin,
        says=list(found.says),
        found=[
            Judged(
                component=str(one.component),
                effect=one.effect,
                low=one.low,
                high=one.high,
                p=one.p,
                p_corrected=one.p_corrected,
                better=one.better.p,
                test=one.test,
                verdict=words.get(one.verdict.value, one.verdict.value),
                seeds_needed=one.seeds_needed,
                n=one.n,
                says=list(one.says),
            )
            for one in found
        ],
    )
