"""The driver: a machine without wires.

It is told events and answers with commands. It owns no socket, thread, clock, file or random
generator: time comes with each event, and whoever holds the wires carries the commands out, in
order. Everything that changes the study's state leaves as ``Persist(fact)``, and every command
that follows from it comes later in the list.

What the driver knows is a ``History``, the fold of the facts it gave out. What it decides is
here: who works on what, what a failure means, when the study is over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from etude.core.errors import StudyError
from etude.core.events import (
    AnyCommand,
    AnyEvent,
    AnyFact,
    Assign,
    Assigned,
    Cancelled,
    Closed,
    End,
    Ended,
    Fail,
    How,
    Joined,
    Judged,
    Left,
    Opened,
    Outcome,
    Params,
    Pause,
    Persist,
    Quarantined,
    Queued,
    Release,
    Reported,
    Retire,
    Settled,
    Stop,
    Suggest,
    Suggested,
    Ticked,
    WaitUntil,
)
from etude.core.history import History, Trial, Worker, identity
from etude.core.lifecycle import FINAL, State, Turn
from etude.core.plan import Act, Done, Halt, Plan, Promote, Propose, Report, Wait

MAX_REDRAWS: Final = 8
"""How often a configuration that is already taken is drawn anew before it is reused."""

QUARANTINE_AFTER: Final = 3
"""A worker that lost this many trials which then did well elsewhere gets no more."""

TURN_OF: Final = {
    How.FINISHED: Turn.FINISHED,
    How.STOPPED: Turn.STOP_SEEN,
    How.PAUSED: Turn.PAUSED,
    How.INVALID: Turn.REFUSED,
    How.UNUSABLE: Turn.GIVEN_UP,
    How.TIMED_OUT: Turn.GIVEN_UP,  # the same limit would cut it off again
}
"""Ends that mean the same whatever happened before; the others go through ``_after_failure``."""

WENT_WELL: Final = frozenset({State.FINISHED, State.STOPPED, State.PAUSED})
"""A trial in one of these shows that the experiment's functions work."""

TURN_OF_FOLLOWER: Final = {
    State.FINISHED: Turn.REUSED,
    State.STOPPED: Turn.STOP_SEEN,
    State.FAILED: Turn.GIVEN_UP,
    State.INVALID: Turn.REFUSED,
}
"""What the end of a trial means for a later one with the same configuration."""


class Limits(msgspec.Struct, frozen=True):
    """How patient the driver is. These may change from one run of a study to the next.

    Attributes:
        workers: How many workers there will be, whether they have joined yet or not.
        retries: How many lost attempts a trial may have before it is given up.
        backoff_s: Seconds that a worker waits after its second failure in a row; doubled for each
            further one.
        max_backoff_s: The longest such wait, in seconds.
    """

    workers: int = 1
    retries: int = 2
    backoff_s: float = 0.1
    max_backoff_s: float = 5.0


class Driver:
    """Decides what happens next in a study.

    Args:
        plan: Which trials to run.
        history: The study so far; the driver goes on from there and folds its facts into it.
        limits: How patient it is.
    """

    def __init__(self, plan: Plan, history: History, limits: Limits | None = None) -> None:
        self.plan = plan
        self.history = history
        self.limits = limits or Limits()
        self.over = False
        self._open = False  # before that, all that can come are leftovers of an earlier driver
        self._asked: dict[int, Propose] = {}  # by number: what the plan wants and is no trial yet
        self._early: dict[int, Suggested] = {}  # answers that came before their predecessors'
        self._no_more: str | None = None  # why the plan has no more trials
        self._doubt: tuple[int, Outcome] | None = None  # a trial that ended as all would, and how; see `_give_up`
        self._out: list[AnyCommand] = []
        self._handlers = {
            Opened: self._on_opened,
            Joined: self._on_joined,
            Left: self._on_left,
            Reported: self._on_reported,
            Suggested: self._on_suggested,
            Ended: self._on_ended,
            Ticked: self._on_ticked,
            Cancelled: self._on_cancelled,
        }

    def handle(self, event: AnyEvent) -> list[AnyCommand]:
        """Take one event in and return what is to be done, in order."""
        out: list[AnyCommand] = []
        self._out = out
        if not self.over:
            self._handlers[type(event)](event)  # type: ignore[operator]
            if not (type(event) is Reported and len(out) == 1):  # a report alone frees nobody
                self._go_on(event.at)
        elif type(event) is Ended:
            self._release(event)
        return out

    def check(self) -> None:
        """Assert the driver's invariants; the tests call it after each event."""
        self.history.check()
        taken = len(self.history.trials)
        assert all(k >= taken for k in self._asked), "a proposal that was answered is not waited for"
        assert self.history.closed is None or self.over or not self._open

    # --- what events mean -------------------------------------------------------------------------

    def _on_opened(self, event: Opened) -> None:
        held = [t for t in self.history.trials if t.state in (State.RUNNING, State.STOPPING)]
        self._tell(event)
        self._open = True
        self._doubt = None  # what an earlier driver left behind may be mended by now
        for trial in held:
            self._interrupt(event.at, trial, "its driver ended")

    def _on_joined(self, event: Joined) -> None:
        if event.worker not in self.history.workers:
            self._tell(event)

    def _on_left(self, event: Left) -> None:
        worker = self.history.workers.get(event.worker)
        if worker is None:
            return
        if worker.trial is not None:
            trial = self.history.trials[worker.trial]
            reason = f"worker {event.worker} left" + (f": {event.reason}" if event.reason else "")
            self._after_failure(event.at, trial, Outcome(how=How.LOST, reason=reason))
        self._tell(event)

    def _on_reported(self, event: Reported) -> None:
        trial = self._holder(event.trial, event.attempt)
        if trial is None:
            return  # a late word of an attempt that is over
        value = event.metrics.get(self.history.metrics.watched)
        if value is not None and event.step <= len(trial.curve):
            return  # said twice
        self._tell(event)
        if value is None or trial.state is not State.RUNNING:
            return
        started_at = event.at if trial.started_at is None else trial.started_at
        report = Report(trial.number, len(trial.curve), value, event.at - started_at)
        try:
            decision = self.plan.decide(report, self.history)
        except Exception as error:  # a user's stopper; raised from here, it would take the report along
            self._out.append(Fail(error))
            return
        if decision.act is Act.GO_ON or (decision.act is Act.PAUSE and trial.pausing):
            return
        assert trial.worker is not None
        pauses = decision.act is Act.PAUSE
        self._tell(
            Judged(
                at=event.at,
                trial=trial.number,
                attempt=trial.attempt,
                turn=Turn.PAUSED if pauses else Turn.STOP_ASKED,
                reason=decision.reason,
                enough=decision.act is Act.ENOUGH,
            )
        )
        command = Pause if pauses else Stop
        self._out.append(command(trial.worker, trial.number, trial.attempt))

    def _on_suggested(self, event: Suggested) -> None:
        if event.k not in self._asked:
            return
        self._early[event.k] = event
        self._take_proposals(event.at)

    def _on_ended(self, event: Ended) -> None:
        trial = self._holder(event.trial, event.attempt)
        if trial is not None and (holder := trial.worker) is not None:
            turn = TURN_OF.get(event.outcome.how)
            if turn is Turn.STOP_SEEN and trial.state is State.RUNNING:
                turn = None  # nobody had asked it to stop: whatever this is, it is no result
            if turn is None:
                self._after_failure(event.at, trial, event.outcome)
            elif event.outcome.how is How.UNUSABLE:
                self._give_up(event.at, trial, event.outcome)
            else:
                reason = event.outcome.reason if event.outcome.how is not How.STOPPED else ""
                self._settle(event.at, trial, turn, outcome=event.outcome, reason=reason)
            self._look_at_losses(event.at, [holder])
        self._release(event)

    def _on_ticked(self, event: Ticked) -> None:
        """Time alone changes nothing; ``handle`` looks afterwards who may work again."""

    def _on_cancelled(self, event: Cancelled) -> None:
        for trial in list(self.history.live()):
            self._interrupt(event.at, trial, "interrupted")
        self._end(event.at, event.reason)

    def _interrupt(self, at: float, trial: Trial, reason: str) -> None:
        """End a live attempt that nobody is to blame for; why a trial was to stop stays its reason."""
        self._settle(at, trial, Turn.LOST, reason=reason if trial.state is State.RUNNING else "")

    # --- what failures mean -----------------------------------------------------------------------

    def _after_failure(self, at: float, trial: Trial, outcome: Outcome) -> None:
        if trial.state is State.STOPPING and outcome.how is not How.RAISED:
            self._settle(at, trial, Turn.LOST, outcome=outcome)  # it was not wanted any more
        elif outcome.how is How.RAISED:
            if trial.state is State.STOPPING or not self._worth_another_worker(trial):
                self._give_up(at, trial, outcome)
            else:
                self._settle(at, trial, Turn.LOST, outcome=outcome, reason=outcome.reason)
        elif trial.losses < self.limits.retries:
            self._settle(at, trial, Turn.LOST, outcome=outcome, reason=outcome.reason, charged=True)
        else:
            times = "once" if trial.losses == 0 else f"{trial.losses + 1} times"
            reason = f"lost {times}, the last time: {outcome.reason or outcome.how.value}"
            self._settle(at, trial, Turn.GIVEN_UP, outcome=outcome, reason=reason, charged=True)

    def _worth_another_worker(self, trial: Trial) -> bool:
        """Whether an exception may be the worker's fault: a broken node must not fail a study."""
        worker = self.history.workers.get(trial.worker or "")
        if worker is None or worker.good_ends or trial.raised_on:
            return False
        others = (w for w in self.history.workers.values() if w is not worker)
        return self.limits.workers > 1 or any(not w.quarantined for w in others)

    def _give_up(self, at: float, trial: Trial, outcome: Outcome) -> None:
        """End a trial that failed by its own fault; or doubt all of them, if it tells of them as well."""
        doubtful = outcome.how is How.UNUSABLE or outcome.raised_in == "data"
        if doubtful and trial.state is State.RUNNING and not self._anything_went_well():
            self._settle(at, trial, Turn.LOST, outcome=outcome, reason=outcome.reason)
            self._doubt = self._doubt or (trial.number, outcome)
        else:
            self._settle(at, trial, Turn.GIVEN_UP, outcome=outcome, reason=outcome.reason)

    def _anything_went_well(self) -> bool:
        return any(trial.state in WENT_WELL for trial in self.history.trials)

    def _end_in_doubt(self, at: float, number: int, outcome: Outcome) -> None:
        raised = outcome.raised_in == "data"
        what = f"data() raised in trial {number}" if raised else f"Trial {number} gave no result"
        said = f"{what}: {outcome.reason.rstrip('.')}."
        problem = (
            f"{outcome.traceback if raised else ''}{said} No trial has gone well so far, so all would most likely end "
            "like this, and the study ends here. Mend it and call again. If only some configurations cannot be, raise "
            "etude.Invalid(reason) for those."
        )
        self._out.append(Fail(StudyError(problem)))
        self._end(at, said)

    # --- what an end means for others -------------------------------------------------------------

    def _settle(
        self,
        at: float,
        trial: Trial,
        turn: Turn,
        *,
        outcome: Outcome | None = None,
        reason: str = "",
        charged: bool = False,
    ) -> None:
        attempt = trial.attempt if trial.worker is not None else None
        if turn in (Turn.STOP_SEEN, Turn.LOST) and trial.enough and (said := self.history.said_last(trial)) is not None:
            turn, reason, charged = Turn.FINISHED, trial.reason, False  # however it ended: that was enough
            outcome = msgspec.structs.replace(outcome or Outcome(How.STOPPED), value=said[0], extra=said[1])
        self._tell(
            Settled(
                at=at,
                trial=trial.number,
                turn=turn,
                attempt=attempt,
                outcome=outcome,
                reason=reason,
                charged=charged,
            )
        )
        if trial.state in WENT_WELL:
            self._doubt = None
        if trial.state in FINAL:
            for number in list(self.history.followers.get(trial.number, ())):
                self._follow(at, self.history.trials[number], trial)
            if trial.state is State.FINISHED:
                self._look_at_losses(at, trial.tried_on)

    def _follow(self, at: float, trial: Trial, first: Trial) -> None:
        """Settle a trial whose configuration was tried before: equal identity is one trial."""
        turn = TURN_OF_FOLLOWER[first.state]
        reason = f"same configuration as trial {first.number}"
        self._settle(at, trial, turn, outcome=first.outcome, reason=reason)

    def _look_at_losses(self, at: float, names: Sequence[str]) -> None:
        """Let workers go that keep losing what does well elsewhere, once they hold nothing."""
        for name in dict.fromkeys(names):
            worker = self.history.idle.get(name)
            if worker is None or not self._open:
                continue
            elsewhere = sorted(n for n in worker.hurt if self.history.trials[n].state is State.FINISHED)
            if len(elsewhere) >= QUARANTINE_AFTER:
                reason = f"it lost trials {elsewhere}, which finished on other workers"
                self._tell(Quarantined(at=at, worker=name, reason=reason))
                self._out.append(Retire(name))

    # --- going on ---------------------------------------------------------------------------------

    def _go_on(self, at: float) -> None:
        """Hand out what can be handed out, ask for more, and see whether that was all."""
        if self.over or not self._open:
            return
        if self._doubt is not None:  # nothing more is started, until one of those at work has gone well
            if not any(True for _ in self.history.live()):
                self._end_in_doubt(at, *self._doubt)
            return
        self._hand_out(at)
        while self._wants_more(at) and self._ask(at):
            self._hand_out(at)
        self._wake_up_in_time(at)
        if self._no_more is None or self._asked:
            return
        if self.history.unsettled == 0:
            self._end(at, self._no_more, complete=True)
        elif not self.history.ready and not any(True for _ in self.history.live()):
            for trial in self.history.trials:
                if trial.state is State.PAUSED:
                    self._settle(at, trial, Turn.STUDY_ENDED)
            self._end(at, self._no_more, complete=True)

    def _wants_more(self, at: float) -> bool:
        """One proposal is always in hand beyond what the idle workers can take."""
        idle, ready = self.history.idle, self.history.ready
        if idle and ready:  # what is left waits for other workers; those that may work want something new
            return len(self._asked) < sum(self._rested_at(worker) <= at for worker in idle.values())
        return len(self._asked) + len(ready) < len(idle) + 1

    def _ask(self, at: float) -> bool:
        """Ask the plan for one more trial; False if it has none for now."""
        number = len(self.history.trials) + len(self._asked)
        self._no_more = None
        match self.plan.ask(self.history, pending=list(self._asked.values())):
            case Propose(params=params) as wanted:
                self._asked[number] = wanted
                if params is None:
                    self._out.append(Suggest(number))
                else:
                    self._take_proposals(at)
            case Promote(trial=paused):
                self._settle(at, self.history.trials[paused], Turn.PROMOTED)
            case Wait():
                return False
            case Halt(problem=problem):  # the shell winds the study down, and what runs goes back into the queue
                self._out.append(Fail(StudyError(problem)))
                return False
            case Done(reason=reason):
                self._no_more = reason
                return False
        return True

    def _take_proposals(self, at: float) -> None:
        """Make trials of proposals, in order of k: which of two equal ones is first is no matter of timing."""
        while (k := len(self.history.trials)) in self._asked:
            wanted = self._asked[k]
            answer = self._early.pop(k, None)
            if wanted.params is not None:
                given = {**wanted.params, **wanted.fixed}
                self._tell(Queued(at=at, trial=k, params=given, seed=wanted.seed, promotes=wanted.promotes))
            elif answer is not None:
                params = {**answer.params, **wanted.fixed}
                first = self.history.first_with.get(identity(params))
                if first is not None and answer.redraw < MAX_REDRAWS:
                    self._out.append(Suggest(k, answer.redraw + 1))
                    return
                self._queue(at, answer, params, seed=wanted.seed, first=first)
            else:
                return
            del self._asked[k]

    def _queue(self, at: float, answer: Suggested, params: Params, *, seed: int, first: int | None) -> None:
        self._tell(
            Queued(
                at=at,
                trial=answer.k,
                params=params,
                seed=seed,
                upto=answer.upto,
                redraw=answer.redraw,
                same_as=first,
            )
        )
        trial = self.history.trials[answer.k]
        if first is not None and self.history.trials[first].state in FINAL:
            self._follow(at, trial, self.history.trials[first])
        elif first is None and answer.forbidden is not None:
            self._settle(at, trial, Turn.REFUSED, reason=answer.forbidden)

    def _hand_out(self, at: float) -> None:
        """Give ready trials to idle workers: earlier trials first, and not where they failed."""
        for number in list(self.history.ready):
            if not self.history.idle:
                return
            trial = self.history.trials[number]
            worker = self._worker_for(trial, at)
            if worker is None:
                continue
            attempt = trial.attempt + 1
            self._tell(Assigned(at=at, trial=number, attempt=attempt, worker=worker.name))
            self._out.append(Assign(worker.name, number, attempt, trial.params, trial.seed))

    def _worker_for(self, trial: Trial, at: float) -> Worker | None:
        spurned: Worker | None = None
        for worker in self.history.idle.values():
            if self._rested_at(worker) > at:
                continue
            if worker.name not in trial.tried_on:
                return worker
            spurned = spurned or worker
        elsewhere = (w for w in self.history.workers.values() if w.name not in trial.tried_on)
        return None if any(not w.quarantined for w in elsewhere) else spurned

    def _wake_up_in_time(self, at: float) -> None:
        """See to it that a worker which waits gets what is ready as soon as it may."""
        if self.history.ready:
            rests = [t for t in map(self._rested_at, self.history.idle.values()) if t > at]
            if rests:
                self._out.append(WaitUntil(min(rests)))

    def _rested_at(self, worker: Worker) -> float:
        return worker.last_fail_at + self._backoff_s(worker)

    def _backoff_s(self, worker: Worker) -> float:
        if worker.fails <= 1:  # anybody may fail once
            return 0.0
        return min(self.limits.max_backoff_s, self.limits.backoff_s * math.pow(2, worker.fails - 2))

    # --- small change -----------------------------------------------------------------------------

    def _tell(self, fact: AnyFact) -> None:
        self.history.apply(fact)
        self._out.append(Persist(fact))

    def _holder(self, trial: int, attempt: int) -> Trial | None:
        """Return the trial if this attempt of it is live; late words of earlier ones are fenced off."""
        if not 0 <= trial < len(self.history.trials):
            return None
        found = self.history.trials[trial]
        return found if found.worker is not None and found.attempt == attempt else None

    def _release(self, event: Ended) -> None:
        self._out.append(Release(event.worker, event.trial, event.attempt))

    def _end(self, at: float, reason: str, *, complete: bool = False) -> None:
        self._tell(Closed(at=at, reason=reason, complete=complete))
        self.over = True
        self._out.append(End(reason, complete))
