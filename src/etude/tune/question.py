"""What a search is to find out: the part of a call of ``tune`` that makes one study another study than the next."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from etude.core.errors import ConfigError
from etude.core.events import Params
from etude.core.history import identity
from etude.core.metrics import Fidelity, Metrics
from etude.core.numbers import whole
from etude.core.plan import Plan
from etude.core.prefixes import Prefixes
from etude.core.signature import Definition, plain
from etude.core.text import brief
from etude.tune import stop
from etude.tune.constraint import Constraint
from etude.tune.fidelity import read_fidelity, split
from etude.tune.first import check_first, check_room, listed
from etude.tune.flat import prefixes_of
from etude.tune.halving import ASHA, Hyperband
from etude.tune.plan import SearchPlan
from etude.tune.promotion import AsyncHalving, Brackets, full_set
from etude.tune.sampler import Request, Sampler, checked, ignores_stopped, needs_process, plainly, size, why_not
from etude.tune.samplers import SAMPLERS, make_sampler
from etude.tune.sampling import SetUp
from etude.tune.spaces import Space
from etude.tune.stop import STOPPERS, FirstOf, Given, NeverStop, make_stopper

T = TypeVar("T")

MOST_FORESEEN: Final = 100_000
"""Of more trials it is not worked out beforehand which will come."""


class Restated(NamedTuple):
    """What is said otherwise than before.

    Attributes:
        meta: All of the question, as it is now.
        note: What of it is another, in a sentence.
    """

    meta: Mapping[str, Any]
    note: str


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
        base: What its proposals are added to.
        seed: The seed of its draws.
        seeds: The training seeds of arms; empty where there are none.
        set_up: How to make the same sampler in a process of its own.
        forbids: Says why ``constraint=`` rules a configuration out; None if it does not.
        functions: What counts beside the experiment's functions, by role: a constraint, a sampler of the user's own.
        files: Trial, and a name in its folder -> a file that it and others begin with (``core.events.START``).
        joins: Whether training functions get the training and the validation part of the data as one.
        notes: What is to be said when the study begins: where the call was taken otherwise than it may read.
        prefixes: How its trials may share their beginnings; None if they do not.
        restated: Its ``meta`` as a study has it that goes on -> with what is said otherwise now, and changes no number;
            None if nothing is.
    """

    plan: Plan
    metrics: Metrics
    trials: int
    parts: Mapping[str, str] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    sampler: Sampler | None = None
    space: Space | None = None
    base: Params = field(default_factory=dict)
    seed: int = 0
    seeds: tuple[int, ...] = ()
    set_up: SetUp | None = None
    forbids: Callable[[Params], str | None] = lambda params: None
    functions: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[tuple[int, str], Path] = field(default_factory=dict)
    joins: bool = False
    notes: tuple[str, ...] = ()
    prefixes: Prefixes | None = None
    restated: Callable[[Mapping[str, Any]], Restated | None] = lambda before: None


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
    stateful = experiment.signature.stateful(space)
    space = Space({**stateful, **space})  # what cannot change the numbers is drawn last, and shifts no other draw
    proposer = own_copy("sampler", make_sampler(sampler, space, metrics=len(metrics.names)))
    judge = own_copy("stopper", make_stopper(stopper, metrics))
    rule_of_promotion, judge_of_reports = split(judge, eta=eta, fidelity=fidelity is not None)
    if eta is None and rule_of_promotion is not None:
        eta = rule_of_promotion.eta
    budgets = read_fidelity(
        fidelity,
        budget,
        eta,
        signature=experiment.signature,
        space=space,
        promotes=rule_of_promotion is not None,
    )
    metrics = metrics.watching(stop.watched_by(judge)).at(budgets)
    rule = _constraint(constraint, experiment, space, seed, budgeted=fidelity)
    given = listed(start)
    for params in given:
        check_first(params, space, defaults=experiment.signature.defaults(), fidelity=fidelity)
    started = [_started(params, space, experiment, rule) for params in given]
    first = tuple({identity(params): params for params in started}.values())  # equal ones are one trial
    points = size(proposer, space)
    if rule_of_promotion is not None:
        _check_promotes(proposer, space, metrics=len(metrics.names))
    different = space.size
    if budgets is not None and rule_of_promotion is not None:
        each = rule_of_promotion.eta if eta is None else eta
        if isinstance(rule_of_promotion, ASHA):
            different = None if different is None else most_with_promoted(different, len(budgets.rungs), each)
        elif trials is None:
            trials = full_set(len(budgets.rungs), each)
    most = _how_many(trials, points, different, len(first), sampler=SAMPLERS.describe(proposer))
    check_room(len(first), most)
    own: dict[str, Any] = {"constraint": constraint} if constraint is not None else {}
    own |= {} if SAMPLERS.has(proposer) else {"sampler of its own": proposer}  # with its class, and its options
    strange = [one for one in stop.members(judge) if not STOPPERS.has(one)]
    own |= {f"stopper {n + 1} of its own": one for n, one in enumerate(strange)}
    going_by = [one for one in stop.members(judge_of_reports) if not isinstance(one, NeverStop)]
    needy = stop.describe(going_by[0] if len(going_by) == 1 else FirstOf(going_by)) if going_by else ""
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
        wants_reports=needy if stopper is not None else "",
    )
    return Question(
        plan=plan,
        metrics=metrics,
        trials=most,
        parts={
            **{f"space {name}": repr(domain) for name, domain in stateful.items()},
            "space": ", ".join(stateful),
            "metric": repr(metrics),
            "sampler": SAMPLERS.describe(proposer),
            "stopper": stop.describe(judge),
            "seed": str(seed),
            **({"fidelity": f"{fidelity}={list(budgets.rungs)}"} if budgets is not None else {}),
            **({"eta": str(eta)} if rule_of_promotion is not None else {}),
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
        set_up=SetUp.of(proposer, space, seed=seed, metrics=len(metrics.names)),
        forbids=rule.why_not if rule is not None else lambda params: None,
        functions=own,
        notes=_notes(budgets, budget, eta) if rule_of_promotion is not None else (),
        prefixes=_prefixes(plan, proposer, space, seed=seed, first=first),
    )


def _prefixes(plan: Plan, sampler: Sampler, space: Space, *, seed: int, first: tuple[Params, ...]) -> Prefixes | None:
    """Return how trials may share their beginnings, with those that will come, where the sampler comes to an end."""
    found = prefixes_of(space)
    points = size(sampler, space)
    if found is None or not isinstance(plan, SearchPlan) or points is None or needs_process(sampler, 0):
        return found if found is None else replace(found, seed=seed)
    trials = min(plan.trials, len(first) + points)
    if trials > MOST_FORESEEN:
        return replace(found, seed=seed)

    def to_come(begin: int) -> Iterator[Params]:
        for k in range(begin, trials):
            if k < len(first):
                yield {**first[k], **plan.fixed}
                continue
            request = Request(k, 0, space, seed)
            yield {**checked(sampler.suggest(plainly(request)), sampler, request), **plan.fixed}

    return replace(found, to_come=to_come, seed=seed)


def _notes(budgets: Fidelity | None, budget: Sequence[Any] | None, eta: int | None) -> tuple[str, ...]:
    """Say which budgets there are, where the smallest one given is none of them."""
    if budgets is None or budget is None or budgets.rungs[0] == budget[0]:
        return ()
    rungs = ", ".join(map(str, budgets.rungs))
    return (f"budget=({budget[0]}, {budget[1]}) with eta={eta}: trials have {budgets.name}={rungs}, and none less.",)


def _check_promotes(sampler: Sampler, space: Space, *, metrics: int) -> None:
    """Refuse a sampler that is no use where trials with small budgets are promoted."""
    why = _why_not_promoted(sampler, space, metrics)
    if why is None:
        return
    made = {name: cls() for name, cls in SAMPLERS.classes.items()}
    fitting = [
        name
        for name, one in made.items()
        if why_not(one, space, metrics) is None and _why_not_promoted(one, space, metrics) is None
    ]
    raise ConfigError(
        f"sampler={SAMPLERS.describe(sampler)} cannot be used with promotion: {why}. Use one of "
        f"{', '.join(map(repr, fitting))}, or a stopper that goes by reports."
    )


def _why_not_promoted(sampler: Sampler, space: Space, metrics: int) -> str | None:
    if size(sampler, space) is not None:
        return "it numbers its points, and promoted trials take some of the numbers, so points would be missing"
    if ignores_stopped(sampler, metrics):
        return "it learns from trials with the largest budget alone, and most never come that far"
    return None


def _plan(
    rule: ASHA | Hyperband | None, budgets: Fidelity | None, eta: int | None, *, trials: int, **given: Any
) -> Plan:
    """Return the plan: by promotion if there is a rule for that, else so many trials with all that one can have."""
    if rule is None or budgets is None:
        fixed: Params = {budgets.name: budgets.rungs[-1]} if budgets is not None else {}
        return SearchPlan(trials, fixed=fixed, **given)
    kind = AsyncHalving if isinstance(rule, ASHA) else Brackets
    each = rule.eta if eta is None else eta
    return kind(trials, fidelity=budgets, eta=each, resumes=rule.promote != "anew", **given)


def _constraint(
    function: Callable[..., Any] | None, experiment: Definition, space: Space, seed: int, *, budgeted: str | None
) -> Constraint | None:
    if function is None:
        return None
    known = {*experiment.signature.parameters, *space.names}
    defaults = experiment.signature.defaults()
    constraint = Constraint(function, known=known, defaults=defaults, budgeted=budgeted)
    constraint.try_on(space, seed=seed)
    return constraint


def _started(given: Mapping[str, Any], space: Space, experiment: Definition, rule: Constraint | None) -> Params:
    """Read a configuration that is to be tried first: what it leaves out has the function's default."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"start has {brief(given)}, which is no configuration. Pass dicts: start=[{{...}}].")
    own = {name: plain(value) for name, value in given.items()}
    params: Params = space.completed(own, experiment.signature.defaults())
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


def most_with_promoted(n: int, rungs: int, eta: int) -> int:
    """Return how many trials there can be at most, promoted ones included, where ``n`` begin.

    Of those that come to a rung the ``eta - 1`` worst are never promoted. All others can be, by whoever waits for
    nobody: each may be the best so far when it ends.

    Example:
        >>> most_with_promoted(9, 3, eta=3)
        21
    """
    return sum(max(0, n - rung * (eta - 1)) for rung in range(rungs))


def own_copy(what: str, thing: T) -> T:
    """Return a copy for this study alone: what it will have seen must not change the object, nor what it is called.

    Raises:
        ConfigError: It cannot be copied.
    """
    try:
        return copy.deepcopy(thing)
    except Exception as error:
        raise ConfigError(
            f"{what}={brief(thing)} cannot be copied ({type(error).__name__}: {error}), and each study works with a "
            "copy of its own. Open what cannot be copied when it is first used, or give it a __deepcopy__."
        ) from error
