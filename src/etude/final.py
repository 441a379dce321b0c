"""A final training, from a checked call to a study at work: its weights are read, and tried on the model, before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from etude.call import Call
from etude.core.errors import ConfigError
from etude.core.events import Start
from etude.core.signature import Definition
from etude.engines.simulated import Simulated
from etude.fit.plan import FitPlan, Wanted
from etude.fit.prepared import Prepared
from etude.fit.weights import RANDOM, read_weights
from etude.fitted import Fit
from etude.guard import BOTH, joins, look
from etude.launch import Launch, LiveStudy
from etude.rebuilt import build, load_into
from etude.tune.question import Question


def final(
    experiment: Definition,
    params: Mapping[str, Any],
    weights: Sequence[object],
    call: Call,
    *,
    seeds: Sequence[int],
    on: str = "train",
) -> LiveStudy:
    """Start a study that trains with each of some weights, and each of some seeds.

    Args:
        experiment: Whose functions are run.
        params: The configuration.
        weights: What the model begins with, as calls say it.
        call: How it is to be run.
        seeds: The training seeds.
        on: Which parts of the data it trains on, as calls say it.

    Raises:
        ConfigError: It cannot be, or weights know rows that it would be judged by.
        StateError: Weights cannot be read, or do not fit the model at all.
        StudyError: The study's folder cannot be used.
    """
    if isinstance(call.engine, Simulated):
        raise ConfigError("fit() trains a model, and a simulated engine trains nothing. Leave engine= out.")
    both = joins(on)
    given = [read_weights(one) for one in weights]
    prepared, notes, begins = Prepared(), [], []
    try:
        for one in given:
            if one is None:
                prepared.add_random()
                continue
            model, parts = build(experiment, params, seeds[0]), one.load()
            told = load_into(model, one, parts)
            notes += [] if told.whole else [f"The model begins with a part of {one.name}: {told}."]
            begins.append((one, one.seen()))
            prepared.add(one, parts, begins[-1][1])
        if both or begins:
            notes += look(experiment, params, begins, seed=seeds[0], both=both)
        question = _question(experiment, params, prepared, seeds=seeds, both=both, notes=notes)
        return Launch(experiment, question, call, result=Fit).start()
    finally:
        prepared.close()


def _question(
    experiment: Definition,
    params: Mapping[str, Any],
    prepared: Prepared,
    *,
    seeds: Sequence[int],
    both: bool,
    notes: Sequence[str] = (),
) -> Question:
    """Return the question that a call of ``fit`` puts: each start with each seed.

    Args:
        experiment: Whose functions are run.
        params: The configuration.
        prepared: The weights to begin with.
        seeds: The training seeds.
        both: Whether it trains on the training and the validation part of the data.
        notes: What is to be said when the study begins.
    """
    wanted = tuple(Wanted(dict(params), seed, start) for start in prepared.starts for seed in seeds)
    told = [_as_plain(start) for start in prepared.starts]
    return Question(
        plan=FitPlan(wanted),
        metrics=experiment.metrics,
        trials=len(wanted),
        parts={
            "params": json.dumps(params, sort_keys=True, default=repr),
            "metric": repr(experiment.metrics),
            "seeds": ", ".join(map(str, seeds)),
            "weights": json.dumps([_identity(start) for start in prepared.starts]),
            **({"on": BOTH} if both else {}),
        },
        meta={
            "verb": "fit",
            "params": dict(params),
            "seeds": list(seeds),
            "weights": told,
            "trials": len(wanted),
            **({"on": BOTH} if both else {}),
        },
        files={n: prepared.files[trial.start.digest] for n, trial in enumerate(wanted) if trial.start is not None},
        joins=both,
        notes=tuple(notes),
    )


def _identity(start: Start | None) -> list[str | float]:
    """Return what counts of weights: what they are, and not what they are called."""
    return [] if start is None else [start.digest, start.shrink, start.perturb]


def _as_plain(start: Start | None) -> dict[str, Any] | str:
    if start is None:
        return RANDOM
    return {"name": start.name, "digest": start.digest, "shrink": start.shrink, "perturb": start.perturb}
