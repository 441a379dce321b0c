"""The question that an ablation puts: its plan, what of it can change the numbers, and what its journal tells.

It is put by a call, or again from what a journal has.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from etude.ablate.plan import AblationPlan
from etude.ablate.policies import policy_of
from etude.ablate.racing_plan import RacingPlan
from etude.analyse.race_rules import Rules
from etude.core.metrics import Metrics
from etude.core.plan import Decision, Report, Standing
from etude.core.removal import Arm
from etude.core.signature import Definition
from etude.tune import stop
from etude.tune.plan import checked
from etude.tune.question import Question, Restated, own_copy
from etude.verbs.repairing import PlannedArm
from etude.verbs.retuning import tuned_again


def question_again(told: Mapping[str, Any], parts: Mapping[str, str], experiment: Definition) -> Question:
    """Return the question of an ablation that has not come to its end, from what its journal has.

    Args:
        told: The question, as its newest call put it. Its policy does not go by results, and no arm has functions of
            its own: these are in no journal (``going_on.in_no_journal``).
        parts: What of it can change the numbers, as it began.
        experiment: Whose functions are run.
    """
    metrics = experiment.metrics
    arms = msgspec.convert(json.loads(parts["arms"]), tuple[Arm, ...])
    sizes = sizes_of((one["name"], one["parameters"]) for one in told["arms"])
    plan = AblationPlan(
        arms, tuple(told["seeds"]), dict(told["params"]), policy=policy_of("leave_one_out"), sizes=sizes
    )
    race = (told.get("verdicts") or {}).get("race")
    names = ("params", "seeds", "race", "margin of the race", "policy", "arms", "stopper")
    kept = {"metric": repr(metrics), **{name: parts[name] for name in names if name in parts}}
    whole = raced(plan, None if race is None else Rules(**race))
    question = question_of(whole, metrics, stop.from_plain(told["stopper"]), parts=kept, told=told)
    retuned = told.get("retuned")
    return question if retuned is None else tuned_again(question, retuned, experiment.signature)


def raced(plan: AblationPlan, race: Rules | None) -> AblationPlan:
    """Return a plan that is the same, but a race if there is one."""
    return plan if race is None else RacingPlan(**vars(plan), rules=race)


def question_of(
    plan: AblationPlan,
    metrics: Metrics,
    stopper: Any,
    *,
    parts: Mapping[str, str],
    told: Mapping[str, Any],
    functions: Mapping[str, Any] | None = None,
) -> Question:
    """Return the question of a plan.

    Args:
        plan: Which trials.
        metrics: What they are measured by.
        stopper: Ends trials early.
        parts: What of it can change the numbers, as text.
        told: What the journal tells of it besides.
        functions: Functions of the user that decide on numbers, by what they are.
    """
    judge = own_copy("stopper", stop.make_stopper(stopper, metrics))

    def decide(report: Report, standing: Standing) -> Decision:
        return checked(judge, report, standing)

    return Question(
        plan=dataclasses.replace(plan, judge=decide),
        metrics=metrics.watching(stop.watched_by(judge)),
        trials=plan.trials,
        parts=parts,
        meta={
            **told,
            "verb": "ablate",
            "params": dict(plan.params),
            "seeds": list(plan.seeds),
            "trials": plan.trials,
        },
        seeds=plan.seeds,
        functions=functions or {},
        restated=lambda before: restated(before, told["arms"]),
    )


def restated(before: Mapping[str, Any], arms: Iterable[Mapping[str, Any]]) -> Restated | None:
    """Return a question as a journal has it, with what is said of its arms now; None if that is the same.

    Whether runs are pairs may be said once it is asked for. It changes no trial, only how they are tested.
    """
    now = {one["name"]: {name: one.get(name) for name in ("paired", "says")} for one in arms}
    planned = [{**one, **now.get(one["name"], {})} for one in before.get("arms") or []]
    others = [
        new["name"]
        for old, new in zip(before.get("arms") or [], planned, strict=True)
        if (old.get("paired"), old.get("says")) != (new.get("paired"), new.get("says"))
    ]
    if not others:
        return None
    return Restated({**before, "arms": planned}, f"What is said of {', '.join(others)} is new, and holds from now on.")


def sizes_of(arms: Iterable[tuple[str, int | None]]) -> dict[str, int]:
    """Return how many parameters arms have, of those of which it is known."""
    return {name: n for name, n in arms if n is not None}


def as_plain(one: PlannedArm) -> dict[str, Any]:
    """Return what a study's journal tells of an arm."""
    features = list(one.arm.features.names) if one.arm.features is not None else []
    told = {"name": one.arm.name, "changes": list(one.changes), "rung": one.rung, "parameters": one.parameters}
    told |= {"rebuilt": list(one.rebuilt), "loses": one.loses}
    told |= {"paired": one.paired} if one.paired is not None else {}
    return {**told, "features": features, "variant": one.arm.variant, "taken": list(one.taken), "says": list(one.notes)}
