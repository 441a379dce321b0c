"""What every stopper and every sampler promises, as checks that anybody can run on their own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from etude.core.errors import SpaceError
from etude.core.events import AnyFact, Assigned, Joined, Judged, Outcome, Params, Queued, Reported, Settled
from etude.core.events import How as HowEnded
from etude.core.exact import exact
from etude.core.history import History, identity
from etude.core.lifecycle import Turn
from etude.core.metrics import Metrics, Mode
from etude.core.plan import Act, Decision, Report
from etude.core.signature import plain
from etude.core.text import brief
from etude.tune.sampler import Request, Sampler, Told, needs_process, recalls
from etude.tune.spaces import Space
from etude.tune.stop import Stopper
from etude.tune.values import plain_value

METRIC: Final = "metric"


def check_stopper(make: Callable[[], Stopper], reports: Sequence[Report], *, mode: Mode = "min") -> list[Decision]:
    """Check what every stopper promises; a third-party stopper runs this in its own tests.

    It is asked about each report three times: by a stopper that was there from the start, by another one, and by one
    that is made for this report alone, as in a study that is resumed. An attempt that starts over withdraws what it
    reported, so a stopper that keeps numbers of trials that still run has to look at their curves again; what it keeps
    of trials that have ended stays true.

    The reports are put to it in a study of their own. A trial starts with its first report and finishes
    with its last one, unless it was stopped or paused before: then it ends there, and its later reports never come.

    Args:
        make: Returns a new stopper each time.
        reports: Of any number of trials, in order of arrival; each trial counts its steps from 1. A trial whose next
            report is its first one again has been lost in between, and starts over.
        mode: Whether less of the metric is better, or more.

    Returns:
        What the stopper decided, for each report that came.

    Raises:
        AssertionError: A promise was broken; the message says which.

    Example:
        >>> from etude import NeverStop, Report
        >>> check_stopper(NeverStop, [Report(trial=0, step=1, value=0.5, elapsed_s=1.0)])
        [Decision(act=<Act.GO_ON: 'go on'>, reason='')]
    """
    first, again = make(), make()
    _check_methods("stopper", first, ("decide",))
    decisions: list[Decision] = []
    for report, history in _played(reports, decisions, mode):
        before = _seen(history)
        decision = first.decide(report, history)
        assert isinstance(decision, Decision), f"a stopper answers with a Decision, and this one with {decision!r}"
        assert decision.act is Act.GO_ON or decision.reason, (
            f"{decision.act.value} needs a reason, for the study's table"
        )
        assert _seen(history) == before, "a stopper changes nothing of what it is shown"
        assert again.decide(report, history) == decision, "equal reports and histories get equal answers"
        assert make().decide(report, history) == decision, (
            f"a stopper that is made in the middle, when a study is resumed, decides as one that was there from "
            f"the start: here it did not, on {report}"
        )
        decisions.append(decision)
    return decisions


def check_sampler(
    make: Callable[[], Sampler],
    space: Space | Mapping[str, object],
    *,
    proposals: int = 25,
    metrics: int = 1,
    seed: int = 0,
) -> list[Params]:
    """Check what every sampler promises; a third-party sampler runs this in its own tests.

    Args:
        make: Returns a new sampler each time.
        space: What it searches, as ``tune`` takes it.
        proposals: How many to ask for.
        metrics: How many metrics the study has.
        seed: The seed of the search.

    Returns:
        What it proposed.

    Raises:
        AssertionError: A promise was broken; the message says which.

    Example:
        >>> from etude import Random, uniform
        >>> len(check_sampler(Random, {"lr": uniform(0, 1)}, proposals=5))
        5
    """
    space = space if isinstance(space, Space) else Space.of(space)
    sampler = make()
    _check_methods("sampler", sampler, ("tell", "suggest"))
    made: list[Params] = []
    story: list[Told | Request] = []
    for k in range(proposals):
        request, redraw = (Request(k, n, space, seed, metrics) for n in (0, 1))
        resumed = make()
        _retell(resumed, story if recalls(sampler) else _shuffled(story, k))
        params = _proposal(sampler, request)
        assert _same(_proposal(resumed, request), params), (
            f"told the same trials, and asked the same unless it does not recall, it gives the same proposal {k}"
        )
        if not needs_process(sampler, k):
            assert _same(_proposal(make(), request), params), (
                f"it said that proposal {k} needs nothing that came before it, and it does"
            )
        story.append(request)
        if k % 5 == 1:  # as if the first one had been taken already
            params = _proposal(sampler, redraw)
            story.append(redraw)
        made.append(params)
        news = [Told(k, params), *([_end(k, params, metrics)] if k % 4 else [])]  # every fourth one never ends
        for told in news:
            sampler.tell(told)
        story += news
    return made


def _check_methods(kind: str, thing: object, methods: Sequence[str]) -> None:
    for method in methods:
        assert callable(getattr(thing, method, None)), (
            f"a {kind} has {' and '.join(methods)}, and {type(thing).__qualname__} has no {method}"
        )


def _retell(sampler: Sampler, story: Sequence[Told | Request]) -> None:
    for told in story:
        if isinstance(told, Request):
            sampler.suggest(told)
        else:
            sampler.tell(told)


def _shuffled(story: Sequence[Told | Request], seed: int) -> list[Told | Request]:
    """Return the trials alone, ended in another order: that must make no difference to who does not recall."""
    told = [one for one in story if isinstance(one, Told)]
    ends = [one for one in told if one.state != "running"]
    random.Random(seed).shuffle(ends)
    return [*(one for one in told if one.state == "running"), *ends]


def _played(reports: Sequence[Report], decisions: list[Decision], mode: Mode) -> Iterator[tuple[Report, History]]:
    """Yield each report that comes, and the study as it stands then; ``decisions`` grow in between."""
    history = History(Metrics.read(METRIC, mode))
    last = {report.trial: nth for nth, report in enumerate(reports)}
    numbers: dict[int, int] = {}  # a trial as it was given -> its number here, where there are no gaps
    stopped: set[int] = set()
    for number, report in enumerate(reports):
        at = float(number)
        if report.trial in stopped:
            continue
        if report.trial not in numbers:
            numbers[report.trial] = trial = len(numbers)
            worker = f"worker-{trial}"
            params: Params = {"trial": trial}
            _fold(
                history,
                Joined(at=at, worker=worker),
                Queued(at=at, trial=trial, params=params, seed=0),
                Assigned(at=at, trial=trial, attempt=1, worker=worker),
            )
        trial = numbers[report.trial]
        attempt = history.trials[trial].attempt
        if report.step == 1 and history.trials[trial].curve:
            worker = f"worker-{trial}"
            _fold(
                history, Settled(at=at, trial=trial, turn=Turn.LOST, attempt=attempt, outcome=Outcome(HowEnded.KILLED))
            )
            attempt += 1
            _fold(history, Assigned(at=at, trial=trial, attempt=attempt, worker=worker))
        metrics = {METRIC: report.value}
        _fold(history, Reported(at=at, trial=trial, attempt=attempt, step=report.step, metrics=metrics))
        assert len(history.trials[trial].curve) == report.step, f"each trial counts its steps from 1: {report}"
        yield msgspec.structs.replace(report, trial=trial), history
        act, reason = decisions[-1].act, decisions[-1].reason
        if act is not Act.GO_ON:
            stopped.add(report.trial)
        if act in (Act.STOP, Act.ENOUGH):
            asked, enough = Turn.STOP_ASKED, act is Act.ENOUGH
            _fold(history, Judged(at=at, trial=trial, attempt=attempt, turn=asked, reason=reason, enough=enough))
            turn, how = (Turn.FINISHED, HowEnded.FINISHED) if enough else (Turn.STOP_SEEN, HowEnded.STOPPED)
            outcome = Outcome(how, value=report.value)
            _fold(history, Settled(at=at, trial=trial, turn=turn, attempt=attempt, outcome=outcome))
        elif act is Act.GO_ON and number == last[report.trial]:
            outcome = Outcome(HowEnded.FINISHED, value=report.value)
            _fold(history, Settled(at=at, trial=trial, turn=Turn.FINISHED, attempt=attempt, outcome=outcome))


def _fold(history: History, *facts: AnyFact) -> None:
    for fact in facts:
        history.apply(fact)


def _seen(history: History) -> Any:
    """Return what a stopper could change, in a form that compares: NaN is like NaN."""
    trials = [(t.number, t.state, repr(t.curve), dict(t.params)) for t in history.trials]
    return trials, [t.number for t in history.finished]


def _proposal(sampler: Sampler, request: Request) -> Params:
    """Ask for a proposal and check it; it is returned as ``tune`` takes it, numbers of numpy as those of Python."""
    proposed: object = sampler.suggest(request)
    assert isinstance(proposed, Mapping), f"a proposal is a dict, and this one is {brief(proposed)}"
    try:
        params: Params = {name: plain_value(plain(value)) for name, value in proposed.items()}
    except SpaceError as error:
        raise AssertionError(f"a proposal is made of plain values: {error}") from None
    _check_proposal(params, request.space)
    return params


def _check_proposal(params: Params, space: Space) -> None:
    fault = space.why_not(params)
    assert fault is None, f"a proposal lies in the space, and {params} does not: {fault}"
    sent = exact(msgspec.msgpack.decode(msgspec.msgpack.encode(params)))
    assert _same(sent, params), f"a proposal is made of plain values, and {params} comes back as {sent}"


def _same(one: Params, other: Params) -> bool:
    return identity(one) == identity(other)


def _end(k: int, params: Params, metrics: int) -> Told:
    """Return an end for trial ``k``; over time there are ends of every kind, good, bad and NaN ones."""
    draw = random.Random(k)
    state = draw.choice(["finished", "finished", "finished", "stopped", "failed"])
    some = [draw.random(), draw.random(), float("nan"), float("inf")]
    losses = () if state == "failed" else tuple(draw.choice(some) for _ in range(metrics))
    return Told(k, params, state, losses, 3 if losses else 0)
