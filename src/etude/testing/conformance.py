"""What every stopper and every sampler promises, as checks that anybody can run on their own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from etude.core.events import AnyFact, Assigned, Joined, Outcome, Params, Queued, Reported, Settled
from etude.core.events import How as HowEnded
from etude.core.exact import exact
from etude.core.history import History, identity
from etude.core.lifecycle import Turn
from etude.core.plan import Act, Decision, Report
from etude.tune.samplers import Sampler, Told
from etude.tune.spaces import Space
from etude.tune.stop import Stopper

METRIC: Final = "metric"


def check_stopper(make: Callable[[], Stopper], reports: Sequence[Report]) -> list[Decision]:
    """Check what every stopper promises; a third-party stopper runs this in its own tests.

    The reports are put to it in a study of their own. A trial starts with its first report and finishes
    with its last one, unless it was stopped or paused before: then its later reports never come.

    Args:
        make: Returns a new stopper each time.
        reports: Of any number of trials, in order of arrival; each trial counts its steps from 1.

    Returns:
        What the stopper decided, for each report that came.

    Raises:
        AssertionError: A promise was broken; the message says which.

    Example:
        >>> from etude.tune.stop import NeverStop
        >>> check_stopper(NeverStop, [Report(trial=0, step=1, value=0.5, elapsed_s=1.0)])
        [Decision(act=<Act.GO_ON: 'go on'>, reason='')]
    """
    first, again = make(), make()
    decisions: list[Decision] = []
    for report, history in _played(reports, decisions):
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


def check_sampler(make: Callable[[], Sampler], space: Space, *, proposals: int = 25) -> list[Params]:
    """Check what every sampler promises; a third-party sampler runs this in its own tests.

    Args:
        make: Returns a new sampler each time, for ``space`` and always the same seed.
        space: What it searches.
        proposals: How many to ask for.

    Returns:
        What it proposed.

    Raises:
        AssertionError: A promise was broken; the message says which.

    Example:
        >>> from etude.tune.samplers import Random
        >>> from etude.tune.domains import uniform
        >>> space = Space.of({"lr": uniform(0, 1)})
        >>> len(check_sampler(lambda: Random(space, seed=0), space, proposals=5))
        5
    """
    sampler = make()
    made: list[Params] = []
    ends: list[Told] = []
    for k in range(proposals):
        needs_history = sampler.needs_history(k)
        assert isinstance(needs_history, bool), f"needs_history says True or False, and here {needs_history!r}"
        params = sampler.suggest(k, 0)
        _check_proposal(params, space)
        _check_proposal(sampler.suggest(k, 1), space)
        assert _same(sampler.suggest(k, 0), params), f"asked again for proposal {k}, it gives the same"
        if not needs_history:
            assert _same(make().suggest(k, 0), params), f"it said that proposal {k} needs no history, and it does"
        resumed = make()
        for number, earlier in enumerate(made):
            resumed.tell(Told(number, earlier))
        for told in random.Random(k).sample(ends, len(ends)):
            resumed.tell(told)
        assert _same(resumed.suggest(k, 0), params), (
            f"told the same trials, ended in another order, and never asked before, it gives the same proposal {k}"
        )
        made.append(params)
        sampler.tell(Told(k, params))
        if k % 4:  # every fourth one goes on running for good
            ends.append(_end(k, params))
            sampler.tell(ends[-1])
    return made


def _played(reports: Sequence[Report], decisions: list[Decision]) -> Iterator[tuple[Report, History]]:
    """Yield each report that comes, and the study as it stands then; ``decisions`` grow in between."""
    history = History(METRIC)
    last = {report.trial: report.step for report in reports}
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
        metrics = {METRIC: report.value}
        _fold(history, Reported(at=at, trial=trial, attempt=1, step=report.step, metrics=metrics))
        assert len(history.trials[trial].curve) == report.step, f"each trial counts its steps from 1: {report}"
        yield msgspec.structs.replace(report, trial=trial), history
        if decisions[-1].act is not Act.GO_ON:
            stopped.add(report.trial)
        elif report.step == last[report.trial]:
            outcome = Outcome(HowEnded.FINISHED, value=report.value)
            _fold(history, Settled(at=at, trial=trial, turn=Turn.FINISHED, attempt=1, outcome=outcome))


def _fold(history: History, *facts: AnyFact) -> None:
    for fact in facts:
        history.apply(fact)


def _seen(history: History) -> Any:
    """Return what a stopper could change, in a form that compares: NaN is like NaN."""
    trials = [(t.number, t.state, repr(t.curve), dict(t.params)) for t in history.trials]
    return trials, [t.number for t in history.finished]


def _check_proposal(params: Params, space: Space) -> None:
    fault = space.why_not(params)
    assert fault is None, f"a proposal lies in the space, and {params} does not: {fault}"
    sent = exact(msgspec.msgpack.decode(msgspec.msgpack.encode(params)))
    assert _same(sent, params), f"a proposal is made of plain values, and {params} comes back as {sent}"


def _same(one: Params, other: Params) -> bool:
    return identity(one) == identity(other)


def _end(k: int, params: Params) -> Told:
    """Return an end for trial ``k``; over time there are ends of every kind, good, bad and NaN ones."""
    draw = random.Random(k)
    state = draw.choice(["finished", "finished", "finished", "stopped", "failed"])
    loss = None if state == "failed" else draw.choice([draw.random(), draw.random(), float("nan"), float("inf")])
    return Told(k, params, state, loss, 0 if loss is None else 3)
