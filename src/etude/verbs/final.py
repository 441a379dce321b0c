"""A final training, from a checked call to a study at work: its weights are read, and tried on the model, before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from etude.core.errors import ConfigError
from etude.core.events import Start
from etude.core.metrics import Metrics
from etude.core.signature import Definition
from etude.engines.simulated import Simulated
from etude.fit.choosing import Auto, Instead, judge_of, memorised
from etude.fit.plan import FitPlan, ProbedPlan, Wanted
from etude.fit.prepared import Prepared
from etude.fit.weights import RANDOM, TrialWeights, Weights, begun_with, read_weights
from etude.launching.call import Call
from etude.launching.launch import Launch, LiveStudy
from etude.results.fitted import Fit
from etude.results.rebuilt import build, load_into
from etude.results.search import Search
from etude.tune.question import Question
from etude.verbs.guard import BOTH, TRAIN, joins, look
from etude.verbs.partitioned import counting


def final(
    experiment: Definition,
    params: Mapping[str, Any],
    weights: Sequence[object],
    call: Call,
    *,
    seeds: Sequence[int],
    auto: Auto | None = None,
    on: str = "train",
    instead: Mapping[int, Instead] | None = None,
    partition: object = None,
    chosen: Mapping[str, Any] | None = None,
) -> LiveStudy:
    """Start a study that trains with each of some weights, and each of some seeds.

    Args:
        experiment: Whose functions are run.
        params: The configuration.
        weights: What the model begins with, as calls say it.
        call: How it is to be run.
        seeds: The training seeds.
        auto: How probes choose one of these weights, random ones first, for all seeds; None for a training with each.
        on: Which parts of the data it trains on, as calls say it.
        instead: Which weights are taken where others did best, by their places; None if that has to be found out.
        partition: Which rank trains which examples, as the call says it.
        chosen: Who chose the configuration, for the journal; None if nobody is known to have.

    Raises:
        ConfigError: It cannot be, or weights know rows that it would be judged by.
        StateError: Weights cannot be read, or do not fit the model at all.
        StudyError: The study's folder cannot be used.
    """
    if isinstance(call.engine, Simulated):
        raise ConfigError("fit() trains a model, and a simulated engine trains nothing. Leave engine= out.")
    both = joins(on)
    if both and auto is not None:
        raise ConfigError(
            f"on={on!r} leaves no validation part, and probes would choose the weights by the test part. Say what the "
            "training is to begin with: weights=search.best.weights."
        )
    given = [read_weights(one) for one in weights]
    prepared, notes, begins = Prepared(), [], []
    try:
        for one in given:
            if one is None:
                prepared.add_random()
                continue
            model, (parts, seen) = build(experiment, params, seeds[0]), one.read()
            told = load_into(model, one, parts)
            notes += [] if told.whole else [f"The model begins with a part of {one.name}: {told}."]
            begins.append((one, seen))
            prepared.add(one, parts, seen, holder=len(prepared.starts) * (len(seeds) if auto is None else 1))
        if both or begins:
            notes += look(experiment, params, begins, seed=seeds[0], both=both)
        if auto is not None and instead is None:
            instead = _instead(prepared.starts, given, experiment.metrics, auto.judge)
        plan = _plan(params, prepared.starts, seeds, auto, instead or {})
        question = _question(
            experiment, params, prepared, plan, seeds=seeds, auto=auto, both=both, notes=notes, chosen_by=chosen
        )
        question = counting(question, partition)
        return Launch(experiment, question, call, result=Fit).start()
    finally:
        prepared.close()


def again(experiment: Definition, study: Search, call: Call) -> LiveStudy:
    """Go on with a final training that has not come to its end: from what its own folder has.

    Args:
        experiment: Whose functions are run.
        study: It.
        call: How it is to be run; with its name.

    Raises:
        StateError: Weights that it began with are not there.
        StudyError: The study's folder cannot be used.
    """
    question = study.meta["question"]
    starts = [None if one == RANDOM else msgspec.convert(one, Start) for one in question["weights"]]
    chosen = question.get("auto") or {}
    return final(
        experiment,
        question["params"],
        [begun_with(one, study.folder / "trials") if one is not None else None for one in starts],
        call,
        seeds=question["seeds"],
        auto=Auto(share=chosen["share"], judge=chosen["judge"]) if chosen else None,
        on=question.get("on", TRAIN),
        instead={int(nth): Instead(*other) for nth, other in chosen.get("instead", {}).items()},
        chosen=question.get("chosen"),
    )


def _plan(
    params: Mapping[str, Any],
    starts: Sequence[Start | None],
    seeds: Sequence[int],
    auto: Auto | None,
    instead: Mapping[int, Instead],
) -> FitPlan | ProbedPlan:
    if auto is not None:
        return ProbedPlan(dict(params), tuple(seeds), tuple(starts), auto.share, auto.judge, instead)
    return FitPlan(tuple(Wanted(dict(params), seed, start) for start in starts for seed in seeds))


def _instead(
    starts: Sequence[Start | None], given: Sequence[Weights | None], metrics: Metrics, judge: str | None
) -> dict[int, Instead]:
    """Return which start is taken in place of another, that has memorised its examples.

    It is the same weights, shrunk, or else shrunk ones of another epoch of that trial.
    """
    found = {}
    for nth, (start, one) in enumerate(zip(starts, given, strict=True)):
        if start is None or start.shrink < 1 or not isinstance(one, TrialWeights):
            continue
        same = [n for n, s in enumerate(starts) if s is not None and s.digest == start.digest and s.shrink < 1]
        same += [n for n, w in enumerate(given) if isinstance(w, TrialWeights) and w.shrink < 1 and w.is_of(one)]
        if not same:
            continue
        said = one.kept[one.chosen].said()
        shown = memorised(said, judge_of(said, metrics.modes, watched=metrics.watched, wanted=judge))
        if shown:
            found[nth] = Instead(same[0], shown)
    return found


def _question(
    experiment: Definition,
    params: Mapping[str, Any],
    prepared: Prepared,
    plan: FitPlan | ProbedPlan,
    *,
    seeds: Sequence[int],
    auto: Auto | None,
    both: bool,
    notes: Sequence[str] = (),
    chosen_by: Mapping[str, Any] | None = None,
) -> Question:
    """Return the question that a call of ``fit`` puts."""
    told = [_as_plain(start) for start in prepared.starts]
    chosen = {"share": auto.share, "judge": auto.judge} if auto is not None else None
    instead = {str(nth): list(other) for nth, other in plan.instead.items()} if isinstance(plan, ProbedPlan) else {}
    return Question(
        plan=plan,
        metrics=experiment.metrics,
        trials=plan.trials,
        parts={
            "params": json.dumps(params, sort_keys=True, default=repr),
            "metric": repr(experiment.metrics),
            "seeds": ", ".join(map(str, seeds)),
            "weights": json.dumps([_identity(start) for start in prepared.starts]),
            **({"chosen by probes": json.dumps(chosen)} if chosen is not None else {}),
            **({"on": BOTH} if both else {}),
        },
        meta={
            "verb": "fit",
            "params": dict(params),
            "seeds": list(seeds),
            "weights": told,
            "trials": plan.trials,
            **({"auto": {**chosen, "instead": instead}} if chosen is not None else {}),
            **({"on": BOTH} if both else {}),
            **({"chosen": dict(chosen_by)} if chosen_by is not None else {}),
        },
        files=prepared.files,
        joins=both,
        notes=tuple(notes),
    )


def _identity(start: Start | None) -> list[str | float]:
    """Return what counts of weights: what they are, and not what they are called."""
    if start is None:
        return []
    return [start.digest, start.shrink, start.perturb, *([start.optimizers] if start.optimizers else [])]


def _as_plain(start: Start | None) -> Any:
    return RANDOM if start is None else msgspec.to_builtins(start)
