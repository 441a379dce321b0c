"""Feed a journal again, in its recorded order, and see whether the same is proposed and decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from etude.core.events import AnyFact, Judged, Queued, Reported, Settled
from etude.core.history import History
from etude.core.lifecycle import FINAL, State, Turn
from etude.core.plan import Act, Plan, Report
from etude.tune.sampler_link import as_told
from etude.tune.samplers import Sampler, Told


def check_decisions(facts: Iterable[AnyFact], plan: Plan, *, metric: str) -> int:
    """Check that ``plan`` decides on each report as the journal says it did.

    Returns:
        How many trials it stopped or paused.
    """
    history = History(metric)
    expected: Judged | None = None
    judged = 0
    for fact in facts:
        if expected is not None:
            assert isinstance(fact, Judged), f"{expected} was expected, and {fact} came"
            assert (fact.trial, fact.turn, fact.reason) == (expected.trial, expected.turn, expected.reason)
            expected = None
            judged += 1
        else:
            assert not isinstance(fact, Judged), f"{fact} came, and nothing was expected"
        history.apply(fact)
        if isinstance(fact, Reported) and metric in fact.metrics:
            expected = _judge(fact, plan, history)
    return judged


def _judge(fact: Reported, plan: Plan, history: History) -> Judged | None:
    trial = history.trials[fact.trial]
    if trial.state is not State.RUNNING:
        return None
    elapsed_s = fact.at - (trial.started_at or fact.at)
    decision = plan.decide(Report(fact.trial, len(trial.curve), fact.metrics[history.metric], elapsed_s), history)
    if decision.act is Act.GO_ON or (decision.act is Act.PAUSE and trial.pausing):
        return None
    turn = Turn.STOP_ASKED if decision.act is Act.STOP else Turn.PAUSED
    return Judged(at=fact.at, trial=fact.trial, attempt=fact.attempt, turn=turn, reason=decision.reason)


def check_proposals(facts: Sequence[AnyFact], make: Callable[[], Sampler], *, metric: str, mode: str) -> int:
    """Check that a new sampler, told what the old one was, proposes what the journal says it did.

    Returns:
        How many proposals needed a history.
    """
    with_history = 0
    for fact in facts:
        if isinstance(fact, Queued):
            sampler = make()
            if fact.upto is not None:
                with_history += 1
                _tell(sampler, facts[: fact.upto], metric=metric, mode=mode)
            proposed = sampler.suggest(fact.trial, fact.redraw)
            assert proposed == fact.params, f"proposal {fact.trial}: {proposed}, and the journal has {fact.params}"
    return with_history


def _tell(sampler: Sampler, facts: Iterable[AnyFact], *, metric: str, mode: str) -> None:
    history = History(metric)
    for fact in facts:
        history.apply(fact)
        if isinstance(fact, Queued):
            sampler.tell(Told(fact.trial, fact.params))
        elif isinstance(fact, Settled) and history.trials[fact.trial].state in FINAL:
            sampler.tell(as_told(history.trials[fact.trial], mode=mode))
