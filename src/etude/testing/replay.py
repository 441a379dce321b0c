"""Feed a journal again, in its recorded order, and see whether the same is proposed and decided."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from etude.core.events import AnyFact, Judged, Queued, Reported
from etude.core.history import History
from etude.core.lifecycle import State, Turn
from etude.core.metrics import Metrics
from etude.core.plan import Act, Plan, Report
from etude.tune.sampler import Request, Sampler, checked, plainly, recalls, tell
from etude.tune.sampling import Ask
from etude.tune.story import Story


def check_decisions(facts: Iterable[AnyFact], plan: Plan, *, metrics: Metrics) -> int:
    """Check that ``plan`` decides on each report as the journal says it did.

    Returns:
        How many trials it stopped or paused.
    """
    history = History(metrics)
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
        if isinstance(fact, Reported) and metrics.watched in fact.metrics:
            expected = _judge(fact, plan, history)
    return judged


def _judge(fact: Reported, plan: Plan, history: History) -> Judged | None:
    trial = history.trials[fact.trial]
    if trial.state is not State.RUNNING:
        return None
    elapsed_s = fact.at - (trial.started_at or fact.at)
    decision = plan.decide(
        Report(fact.trial, len(trial.curve), fact.metrics[history.metrics.watched], elapsed_s), history
    )
    if decision.act is Act.GO_ON or (decision.act is Act.PAUSE and trial.pausing):
        return None
    turn = Turn.PAUSED if decision.act is Act.PAUSE else Turn.STOP_ASKED
    return Judged(at=fact.at, trial=fact.trial, attempt=fact.attempt, turn=turn, reason=decision.reason)


def check_proposals(
    facts: Sequence[AnyFact],
    make: Callable[[], Sampler],
    request: Callable[[int, int], Request],
    *,
    metrics: Metrics,
    fixed: Collection[str] = (),
) -> int:
    """Check that a new sampler, told and asked what the old one was, proposes what the journal says it did.

    Args:
        facts: Of the journal, from its start.
        make: Returns a new sampler of the same kind each time.
        request: Returns the request for a number and a redraw.
        metrics: What the study measures.
        fixed: Parameters that were added to what the sampler proposed.

    Returns:
        How many proposals needed a history.
    """
    with_history = 0
    for fact in facts:
        if isinstance(fact, Queued):
            sampler = make()
            if fact.upto is not None:
                with_history += 1
                _retell(sampler, facts[: fact.upto], request, metrics)
                for redraw in range(fact.redraw if recalls(sampler) else 0):
                    sampler.suggest(plainly(request(fact.trial, redraw)))
            asked = request(fact.trial, fact.redraw)
            proposed = checked(sampler.suggest(plainly(asked)), sampler, asked)
            expected = {name: value for name, value in fact.params.items() if name not in fixed}
            assert proposed == expected, f"proposal {fact.trial}: {proposed}, and the journal has {expected}"
    return with_history


def _retell(
    sampler: Sampler, facts: Iterable[AnyFact], request: Callable[[int, int], Request], metrics: Metrics
) -> None:
    history = History(metrics)
    story = Story(history, recalls=recalls(sampler))
    for fact in facts:
        history.apply(fact)
        story.add(fact)
    for said in story.tell():
        if isinstance(said, Ask):
            sampler.suggest(plainly(request(said.k, said.redraw)))
        else:
            tell(sampler, said.told, request(said.told.trial, 0).space)
