"""What a search is to find out: the part of a call of ``tune`` that makes one study another study than the next."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etude.core.errors import ConfigError
from etude.core.events import Params
from etude.core.metrics import Fidelity, Metrics
from etude.core.numbers import whole
from etude.core.plan import Plan
from etude.core.signature import Definition, plain
from etude.core.text import brief
from etude.tune import stop
from etude.tune.constraint import Constraint
from etude.tune.fidelity import read_fidelity, split
from etude.tune.halving import ASHA, Hyperband
from etude.tune.plan import SearchPlan
from etude.tune.promotion import AsyncHalving, Brackets, full_set
from etude.tune.sampler import Sampler, size
from etude.tune.samplers import SAMPLERS, make_sampler
from etude.tune.sampling import SetUp
from etude.tune.spaces import Space
from etude.tune.stop import STOPPERS, Given, NeverStop, make_stopper


@dataclass(frozen=True)
class Question:
    """What a study is to find out.

    Attributes:
        plan: Which trials it runs.
        metrics: What it measures.
        trials: How many trials there will be, at most.
        parts: All of it that can change the numbers, as text that can be compared.
        meta: All of it as plain data, to put the question again.
        sampler: Proposes what needs no history; None if the plan has all configurations.
        space: What it proposes from.
        seed: The seed of its draws.
        set_up: How to make the same sampler in a process of its own.
        forbids: Says why ``constraint=`` rules a configuration out; None if it does not.
        functions: What counts beside the experiment's functions, by role: a constraint, a sampler of the user's own.
    """

    plan: Plan
    metrics: Metrics
    trials: int
    parts: Mapping[str, str] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    sampler: Sampler | None = None
    space: Space | None = None
    seed: int = 0
    set_up: SetUp | None = None
    forbids: Callable[[Params], str | None] = lambda params: None
    functions: Mapping[str, Any] = field(default_factory=dict)


def search(
    experiment: Definition,
    space: Space,
    *,
    trials: int | None,
    sampler: str | Sampler,
    stopper: Given,
    seed: int,
    start: Sequence[Mapping[str, Any]],
    constraint: Callable[..., Any] | None,
    fidelity: str | None = None,
    budget: Sequence[Any] | None = None,
    eta: int | None = None,
) -> Question:
    """Return the question that a call of ``tune`` puts.

    Raises:
        ConfigError: It cannot be put; the message says why, and what can.
    """
    metrics = experiment.metrics
    proposer = make_sampler(sampler, space, metrics=len(metrics.names))
    judge = make_stopper(stopper, metrics)
    rule_of_promotion, judge_of_reports = split(judge, eta=eta, fidelity=fidelity is not None)
    if eta is None and rule_of_promotion is not None:
        eta = rule_of_promotion.eta
    budgets = read_fidelity(fidelity, budget, eta, signature=experiment.signature, space=space)
    metrics = metrics.watching(stop.watched_by(judge)).at(budgets)
    rule = _constraint(constraint, experiment, space, seed)
    first = tuple(_started(params, space, experiment, rule) for params in start)
    points = size(proposer, space)
    if points is not None and budgets is not None and rule_of_promotion is not None:
        raise ConfigError(
            f"sampler={SAMPLERS.describe(proposer)} cannot be used with promotion: it numbers its points, and promoted "
            "trials take some of the numbers, so points would be missing. Use 'random', 'qmc' or 'tpe', or a stopper "
            "that goes by reports."
        )
    if trials is None and budgets is not None and rule_of_promotion is not None and type(rule_of_promotion) is not ASHA:
        trials = full_set(len(budgets.rungs), rule_of_promotion.eta if eta is None else eta)
    most = _how_many(trials, points, space.size, len(first), sampler=SAMPLERS.describe(proposer))
    stateful = experiment.signature.stateful(space)
    own: dict[str, Any] = {"constraint": constraint} if constraint is not None else {}
    own |= {} if SAMPLERS.has(proposer) else {"sampler of its own": proposer}  # with its class, and its options
    strange = [one for one in stop.members(judge) if not STOPPERS.has(one)]
    own |= {f"stopper {n + 1} of its own": one for n, one in enumerate(strange)}
    needs = stopper is not None and not isinstance(judge_of_reports, NeverStop)
    plan = _plan(
        rule_of_promotion,
        budgets,
        eta,
        trials=most,
        seed=seed,
        stopper=judge_of_reports,
        size=space.size,
        points=points,
        start=first,
        wants_reports=stop.describe(judge_of_reports) if needs else "",
    )
    return Question(
        plan=plan,
        metrics=metrics,
        trials=most,
        parts={
            **{f"space {name}": repr(domain) for name, domain in stateful.items()},
            "space": ", ".join(space),
            "metric": repr(metrics),
            "sampler": SAMPLERS.describe(proposer),
            "stopper": stop.describe(judge),
            "seed": str(seed),
            **({"fidelity": f"{fidelity}={list(budgets.rungs)}"} if budgets is not None else {}),
            **({"start": repr(list(first))} if first else {}),
        },
        meta={
            "space": space.to_dict(),
            "trials": most,
            "sampler": SAMPLERS.to_plain(proposer) or SAMPLERS.describe(proposer),
            "stopper": None if stopper is None else stop.to_plain(judge) or stop.describe(judge),
            "seed": seed,
            "fidelity": fidelity,
            "budget": None if budget is None else [plain(value) for value in budget],
            "eta": eta,
            "start": [dict(params) for params in first],
            "constraint": rule is not None,
        },
        sampler=proposer,
        space=space,
        seed=seed,
        set_up=SetUp.of(proposer, space, seed=seed, metrics=len(metrics.names), path=search_path()),
        forbids=rule.why_not if rule is not None else lambda params: None,
        functions=own,
    )


def _plan(
    rule: ASHA | Hyperband | None, budgets: Fidelity | None, eta: int | None, *, trials: int, **given: Any
) -> Plan:
    """Return the plan: by promotion if there is a rule for that, else so many trials with all that one can have."""
    if rule is None or budgets is None:
        fixed: Params = {budgets.name: budgets.rungs[-1]} if budgets is not None else {}
        return SearchPlan(trials, fixed=fixed, **given)
    kind = AsyncHalving if isinstance(rule, ASHA) else Brackets
    return kind(trials, fidelity=budgets, eta=rule.eta if eta is None else eta, **given)


def _constraint(
    function: Callable[..., Any] | None, experiment: Definition, space: Space, seed: int
) -> Constraint | None:
    if function is None:
        return None
    known = {*experiment.signature.parameters, *space.names}
    constraint = Constraint(function, known=known, defaults=experiment.signature.defaults())
    constraint.try_on(space, seed=seed)
    return constraint


def _started(given: Mapping[str, Any], space: Space, experiment: Definition, rule: Constraint | None) -> Params:
    """Read a configuration that is to be tried first: what it leaves out has the function's default."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"start has {brief(given)}, which is no configuration. Pass dicts: start=[{{...}}].")
    params: Params = {name: value for name, value in experiment.signature.defaults().items() if name in space}
    params |= {name: plain(value) for name, value in given.items()}
    params |= {name: domain.grid(1)[0] for name, domain in space.items() if domain.size == 1}
    problem = space.why_not(params)
    if problem is not None:
        raise ConfigError(
            f"start has {dict(given)}, which is not in the space: {problem}. Give every parameter of the space a value "
            "in its domain; what is left out has the function's default."
        )
    forbidden = rule.why_not(params) if rule is not None else None
    if forbidden is not None:
        raise ConfigError(f"start has {dict(given)}, which the constraint rules out: {forbidden}. Leave it out.")
    return params


def _how_many(trials: int | None, points: int | None, different: int | None, first: int, *, sampler: str) -> int:
    """Return how many trials there will be at most, so that progress can say of how many."""
    most = points if points is not None else different
    if trials is not None:
        wanted = whole("trials", trials, 1, "nothing would be run")
        return wanted if points is None else min(wanted, first + points)
    if most is None:
        raise ConfigError(
            f"trials is missing, and sampler={sampler} never comes to an end. Pass trials=..., how many to run."
        )
    return first + most


def search_path() -> tuple[str, ...]:
    """Return where this process finds modules, as another one can use it."""
    return tuple(str(Path(place).absolute()) if place else os.getcwd() for place in sys.path)
