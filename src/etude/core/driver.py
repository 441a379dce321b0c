"""The driver: a machine without wires.

It is told events and answers with commands. It owns no socket, thread, clock, file or random
generator: time comes with each event, and whoever holds the wires carries the commands out, in
order. Everything that changes the study's state leaves as ``Persist(fact)``, and every command
that follows from it comes later in the list.

What the driver knows is a ``History``, the fold of the facts it gave out. What happens next is
decided here: what an event means, who works on what, when the study is over. It asks others for
what can be said of one thing alone: ``fates`` what becomes of a trial, ``trust`` who may have it,
``packing`` what may run beside it, ``proposals`` what is to become one, ``reuse`` whether it has been run
elsewhere.
"""

from __future__ import annotations

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
    Checkpoint,
    Checkpointed,
    Closed,
    Discard,
    End,
    Ended,
    Fail,
    Freed,
    How,
    Joined,
    Judged,
    Left,
    Measured,
    Note,
    Opened,
    Outcome,
    Pause,
    Persist,
    Quarantined,
    Release,
    Reported,
    Resumed,
    Retire,
    Retune,
    Room,
    Shared,
    StoodStill,
    Stop,
    Suggest,
    Suggested,
    Ticked,
    Tuned,
    Unsaved,
    WaitUntil,
    WindDown,
)
from etude.core.fates import Doubt, Fate, after_end, of_follower, of_taken, settled, went_well, when_interrupted
from etude.core.history import NO_CURVE, History, Trial, Worker
from etude.core.lifecycle import FINAL, State, Turn
from etude.core.limits import Limits
from etude.core.packing import Need, Packing
from etude.core.plan import Act, Done, Halt, Plan, Promote, Propose, Report, Wait
from etude.core.prefix_book import PrefixBook, Source, Waits
from etude.core.prefixes import Prefixes
from etude.core.proposals import Made, Proposals
from etude.core.reuse import NOTHING, Reuse
from etude.core.system import Conductor
from etude.core.trust import rested_at, why_quarantined, worker_for

FREES_NOBODY: Final = frozenset({Reported, Checkpointed, Unsaved, Resumed, Measured})
"""What is told of an attempt at work; after a report alone there may be more to do, if it was judged, and after others
if somebody waits for a state."""

AHEAD: Final = 1000
"""So many trials are queued beforehand where it matters in which order they are handed out."""

WAITS_FOR_NOTHING: Final = (
    "The plan waits, and there is nothing that it could wait for: no trial runs or is queued, and no proposal is under "
    "way. A plan that has no more trials answers Done; one that has, Propose or Promote."
)


class Driver:
    """Decides what happens next in a study.

    Args:
        plan: Which trials to run.
        history: The study so far; the driver goes on from there and folds its facts into it.
        limits: How patient it is.
        need: Predicts the memory that trials need; None if machines are not packed by it.
        prefixes: How trials may share their beginnings; None if they do not.
        reuse: What trials of other studies give; a trial that has finished there is not run.
        conductor: Decides on the settings of machines while trials run; None if they are left alone.
    """

    def __init__(
        self,
        plan: Plan,
        history: History,
        limits: Limits | None = None,
        *,
        need: Need | None = None,
        prefixes: Prefixes | None = None,
        reuse: Reuse = NOTHING,
        conductor: Conductor | None = None,
    ) -> None:
        self.plan = plan
        self.history = history
        self.limits = limits or Limits()
        self.over = False
        self._open = False  # before that, all that can come are leftovers of an earlier driver
        self._proposals = Proposals(self.limits.workers)
        self._packing = Packing(history, need)
        self._prefixes = prefixes
        self._reuse = reuse
        self._conductor = conductor
        self._book: PrefixBook | None = None  # there is none before the study is open, and its history whole
        self._following = 0  # trials that wait for the state of another, when the queue was last gone through
        self._no_more: str | None = None  # why the plan has no more trials
        self._waits = False  # whether that is what the plan answered last
        self._winds_down = False  # the shell has been asked to
        self._room: int | None = None  # trials that may run at a time, where others leave no more
        self._doubt: Doubt | None = None
        self._note: Note | None = None  # what is to be told last
        self._out: list[AnyCommand] = []
        self._handlers = {
            Opened: self._on_opened,
            Joined: self._on_joined,
            Left: self._on_left,
            StoodStill: self._on_stood_still,
            Reported: self._on_reported,
            Checkpointed: self._on_checkpointed,
            Unsaved: self._on_unsaved,
            Resumed: self._on_resumed,
            Measured: self._on_measured,
            Suggested: self._on_suggested,
            Ended: self._on_ended,
            Room: self._on_room,
            Ticked: self._on_ticked,
            Cancelled: self._on_cancelled,
        }

    def handle(self, event: AnyEvent) -> list[AnyCommand]:
        """Take one event in and return what is to be done, in order."""
        out: list[AnyCommand] = []
        self._out = out
        if not self.over:
            self._handlers[type(event)](event)  # type: ignore[operator]
            if type(event) is Reported:
                has_more = len(out) != 1
            else:
                has_more = type(event) not in FREES_NOBODY or self._following > 0
            if has_more:
                self._go_on(event.at)
            self._free_shared(event.at)
            if self._note is not None:  # when all is gone that is surplus: it may write the next then
                out.append(self._note)
                self._note = None
        elif type(event) is Ended:
            self._release(event)
        return out

    def check(self) -> None:
        """Assert the driver's invariants; the tests call it after each event."""
        self.history.check()
        self._proposals.check(self.history)
        if self._book is not None and not self.over:
            self._book.check()
        assert self.history.closed is None or self.over or not self._open

    # --- what events mean -------------------------------------------------------------------------

    def _on_opened(self, event: Opened) -> None:
        held = [t for t in self.history.trials if t.state in (State.RUNNING, State.STOPPING)]
        self._tell(event)
        self._open = True
        if self._prefixes is not None:
            self._book = PrefixBook(self._prefixes, self.history)
        self._doubt = None  # what an earlier driver left behind may be mended by now
        if self._conductor is not None:
            self._recall_settings(self._conductor)
        for trial in held:
            self._interrupt(event.at, trial, "its driver ended")
        for number in list(self.history.ready):
            self._take_over(event.at, self.history.trials[number])
        self._mind_the_ceiling(event.at)

    def _on_joined(self, event: Joined) -> None:
        if event.worker not in self.history.workers:
            self._tell(event)
            self._mind_the_ceiling(event.at)

    def _on_left(self, event: Left) -> None:
        worker = self.history.workers.get(event.worker)
        if worker is None:
            return
        if worker.trial is not None:
            trial = self.history.trials[worker.trial]
            if event.began:
                reason = f"worker {event.worker} left" + (f": {event.reason}" if event.reason else "")
                self._end_attempt(event.at, trial, Outcome(how=How.LOST, reason=reason))
            else:
                self._interrupt(event.at, trial, f"worker {event.worker} was gone before the attempt reached it")
        self._tell(event)

    def _on_stood_still(self, event: StoodStill) -> None:
        self._tell(event)
        self._mind_the_ceiling(event.at)

    def _on_reported(self, event: Reported) -> None:
        trial = self._holder(event.trial, event.attempt)
        if trial is None:
            return  # a late word of an attempt that is over
        value = event.metrics.get(self.history.metrics.watched)
        if value is not None and event.step <= trial.reports:
            return  # said twice
        self._tell(event)
        if value is None or trial.state is not State.RUNNING:
            return
        started_at = event.at if trial.started_at is None else trial.started_at
        report = Report(trial.number, trial.reports, value, event.at - started_at)
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

    def _on_checkpointed(self, event: Checkpointed) -> None:
        trial = self._holder(event.trial, event.checkpoint.attempt)
        known = self.history.shelf.points(event.trial)
        if trial is None or trial.worker is None:  # of an attempt that is over
            self._discard(event.trial, event.checkpoint)
            return
        if known and event.checkpoint.key <= known[0].key:
            return  # said twice
        self._tell(event)
        if self._book is not None and self._book.wants(trial.number, event.checkpoint):
            self._tell(Shared(at=event.at, trial=trial.number, epoch=event.checkpoint.epoch))
        self._note = Note(trial.worker, trial.number, event.checkpoint)

    def _on_unsaved(self, event: Unsaved) -> None:
        self._discard(event.trial, event.checkpoint)
        trial = self._holder(event.trial, event.checkpoint.attempt)
        if trial is not None and trial.worker is not None:
            self._note = Note(trial.worker, trial.number, event.checkpoint)

    def _discard(self, trial: int, checkpoint: Checkpoint) -> None:
        """Have the files of a checkpoint removed, but for those that are kept."""
        kept = self.history.shelf.files_of(trial)
        self._out.append(Discard(tuple((trial, name) for name in checkpoint.names() if name not in kept)))

    def _on_resumed(self, event: Resumed) -> None:
        trial = self._holder(event.trial, event.attempt)
        if trial is None or trial.withdrawn is NO_CURVE:
            return  # said twice
        self._tell(event)
        source = event.origin.source
        if event.origin.key is None and source is not None and (held := self.history.shelf.shared(source)):
            self._tell(Freed(at=event.at, states=tuple((source, epoch) for epoch in sorted(held))))  # nor to others

    def _on_measured(self, event: Measured) -> None:
        trial = self._holder(event.trial, event.attempt)
        if trial is None or trial.worker is None or self._conductor is None:
            return
        number, attempt, machine = trial.number, trial.attempt, self.history.workers[trial.worker].machine
        order = self._conductor.next(number, machine, event.taken)
        self._tell(Tuned(at=event.at, trial=number, attempt=attempt, machine=machine, taken=event.taken, order=order))
        self._out.append(Retune(trial.worker, number, attempt, order))

    def _recall_settings(self, conductor: Conductor) -> None:
        """Let who decides on settings know again what earlier drivers of this study were told."""
        facts = [fact for told in self.history.tuned.values() for fact in told]
        for fact in sorted(facts, key=lambda fact: fact.at):
            conductor.next(fact.trial, fact.machine, fact.taken)
        for number in self.history.tuned:
            conductor.ended(number)

    def _on_suggested(self, event: Suggested) -> None:
        if self._proposals.answer(event):
            self._take_proposals(event.at)

    def _on_ended(self, event: Ended) -> None:
        trial = self._holder(event.trial, event.attempt)
        if trial is not None and (holder := trial.worker) is not None:
            self._proposals.attempt_ended(event.at)
            self._end_attempt(event.at, trial, event.outcome)
            self._look_at_losses(event.at, [holder])
        self._release(event)

    def _on_room(self, event: Room) -> None:
        self._room = event.trials

    def _on_ticked(self, event: Ticked) -> None:
        """Time alone changes nothing; ``handle`` looks afterwards who may work again."""

    def _on_cancelled(self, event: Cancelled) -> None:
        for trial in list(self.history.live()):
            self._interrupt(event.at, trial, "interrupted")
        self._end(event.at, event.reason, limit=event.limit)

    # --- what an end means for others -------------------------------------------------------------

    def _end_attempt(self, at: float, trial: Trial, outcome: Outcome) -> None:
        if self._conductor is not None:
            self._conductor.ended(trial.number)
        fate = after_end(trial, outcome, self.history, self.limits)
        self._settle(at, trial, fate, outcome)
        if fate.doubtful and self._doubt is None:
            self._doubt = Doubt(trial.number, outcome)

    def _interrupt(self, at: float, trial: Trial, reason: str) -> None:
        """End a live attempt that nobody is to blame for."""
        self._settle(at, trial, when_interrupted(trial, reason))

    def _settle(self, at: float, trial: Trial, fate: Fate, outcome: Outcome | None = None) -> None:
        self._tell(settled(at, trial, fate, outcome, self.history, resumable=self.plan.resumes))
        if went_well(trial):
            self._doubt = None
        if trial.state in FINAL:
            for number in list(self.history.followers.get(trial.number, ())):
                self._settle(at, self.history.trials[number], of_follower(trial), trial.outcome)
            if trial.state is State.FINISHED:
                self._look_at_losses(at, trial.tried_on)
            self._free_states(at)

    def _free_states(self, at: float) -> None:
        """Let the states go of trials that are never carried on."""
        if self.plan.resumes and self.history.shelf.used:
            held = tuple(n for n in self.plan.never_promoted(self.history) if self.history.shelf.points(n))
            if held:
                self._tell(Freed(at=at, trials=held))

    def _free_shared(self, at: float) -> None:
        """Let the states go that no trial will go on from which agrees so far."""
        if self._book is not None and (surplus := self._book.surplus()):
            self._tell(Freed(at=at, states=surplus))

    def _look_at_losses(self, at: float, names: Sequence[str]) -> None:
        """Let workers go that keep losing what does well elsewhere, once they hold nothing."""
        for name in dict.fromkeys(names):
            worker = self.history.idle.get(name)
            if worker is None or not self._open:
                continue
            reason = why_quarantined(worker, self.history)
            if reason is not None:
                self._tell(Quarantined(at=at, worker=name, reason=reason))
                self._out.append(Retire(name))

    # --- going on ---------------------------------------------------------------------------------

    def _go_on(self, at: float) -> None:
        """Hand out what can be handed out, ask for more, and see whether that was all."""
        if self.over or not self._open:
            return
        in_doubt = self._doubt is not None  # nothing more is started, until one of those at work has gone well
        if self._doubt is not None and not self.history.busy:
            self._out.append(Fail(StudyError(self._doubt.problem)))
            self._end(at, self._doubt.said)
            return
        if self._at_a_limit(at) or in_doubt:
            return
        self._hand_out(at)
        while self._wants_more(at) and self._ask(at):
            self._hand_out(at)
        self._wake_up_in_time(at)
        self._end_if_that_was_all(at)

    def _end_if_that_was_all(self, at: float) -> None:
        if self._proposals or self.history.ready or self.history.busy:
            return
        if self._waits:
            self._waits = False
            self._out.append(Fail(StudyError(WAITS_FOR_NOTHING)))
        elif self._no_more is not None:
            for trial in self.history.trials:
                if trial.state is State.PAUSED:
                    self._settle(at, trial, Fate(Turn.STUDY_ENDED))
            self._end(at, self._no_more, complete=True)

    def _at_a_limit(self, at: float) -> bool:
        """Whether a limit is reached that is in the way; the shell is asked, once, to wind the study down."""
        reached = self.limits.ceiling.reached(self.history.spending, failed=self.history.failed, now_s=at)
        if reached is None or self._nothing_is_left():
            return False
        if not self._winds_down:
            self._winds_down = True
            limit, said = reached
            self._out.append(WindDown(f"{said}. A larger {limit} {self.limits.larger}", limit))
        return True

    def _nothing_is_left(self) -> bool:
        """Whether all has been run that the plan wants: then no limit keeps the study from being complete."""
        if self.history.unsettled or self._proposals:
            return False
        return isinstance(self.plan.ask(self.history, pending=[]), Done)

    def _mind_the_ceiling(self, at: float) -> None:
        """See to it that a limit is noticed when it is reached, as things stand now."""
        moment = self.limits.ceiling.next_at(self.history.spending, now_s=at)
        if moment is not None:
            self._out.append(WaitUntil(moment))

    def _wants_more(self, at: float) -> bool:
        """Some proposals are in hand beyond what the idle workers can take."""
        idle, ready = self.history.idle, self.history.ready
        if self._is_full:
            return False
        if self._following >= self.limits.workers and self._book is not None and not self._book.foresees:
            return False  # a sampler that learns would be asked for all of them before it has learned anything
        if self._book is not None and self._book.looks_ahead and len(self._proposals) + len(ready) < AHEAD:
            return True
        if idle and ready:  # what is left waits for other workers; those that may work want something new
            free = filter(self._packing.awaits_nobody, idle.values())
            could_work = sum(rested_at(worker, self.limits) <= at for worker in free)
            # What finds no room either would wait beside the others: there need be no more of these than idle workers.
            return len(self._proposals) < min(could_work, len(idle) - self._packing.waiting)
        wanted = len(idle) + self._proposals.in_hand
        if not self.history.busy:  # nothing at work could teach the sampler more, as before the first worker is there
            wanted = max(1, wanted)
        return len(self._proposals) + len(ready) < wanted

    def _ask(self, at: float) -> bool:
        """Ask the plan for one more trial; False if it has none for now."""
        self._no_more, self._waits = None, False
        match self.plan.ask(self.history, pending=self._proposals.pending):
            case Propose() as wanted:
                suggest = self._proposals.want(wanted, len(self.history.trials) + len(self._proposals), at=at)
                if suggest is not None:
                    self._out.append(suggest)
                else:
                    self._take_proposals(at)
            case Promote(trial=paused):
                self._settle(at, self.history.trials[paused], Fate(Turn.PROMOTED))
            case Wait():
                self._waits = True
                return False
            case Halt(problem=problem):  # the shell winds the study down, and what runs goes back into the queue
                self._out.append(Fail(StudyError(problem)))
                return False
            case Done(reason=reason):
                self._no_more = reason
                if self._book is not None:
                    self._book.close()
                return False
        return True

    def _take_proposals(self, at: float) -> None:
        """Make trials of the proposals that are there."""
        alike = self._book.alike if self._book is not None else None
        while (proposed := self._proposals.next(self.history, at=at, alike=alike)) is not None:
            if isinstance(proposed, Suggest):
                self._out.append(proposed)
                return
            self._queue(at, proposed)

    def _queue(self, at: float, made: Made) -> None:
        self._tell(made.fact)
        trial = self.history.trials[made.fact.trial]
        if trial.same_as is not None:
            first = self.history.trials[trial.same_as]
            if first.state in FINAL:
                self._settle(at, trial, of_follower(first), first.outcome)
        elif made.forbidden is not None:
            self._settle(at, trial, Fate(Turn.REFUSED, made.forbidden))
        else:
            self._take_over(at, trial)

    def _take_over(self, at: float, trial: Trial) -> None:
        """Settle a trial that has finished in another study already."""
        if (found := self._reuse.find(trial)) is not None:
            self._settle(at, trial, of_taken(found), found.outcome)

    def _hand_out(self, at: float) -> None:
        """Give ready trials to idle workers: earlier trials first, and not where they failed."""
        self._packing.begin()
        self._following = 0
        if self._book is not None and self._book.looks_ahead and self._proposals:
            return  # they will be there in a moment
        for number in list(self.history.ready):
            if not self.history.idle or self._is_full:
                return
            trial = self.history.trials[number]
            way = self._way(trial)
            if isinstance(way, Waits):
                self._following += 1
                continue
            worker = worker_for(trial, self.history, self.limits, self._packing, at=at)
            if worker is None:
                self._packing.wait(trial)
                continue
            self._assign(at, trial, worker, way)
            self._packing.given(worker)

    @property
    def _is_full(self) -> bool:
        """Whether as many trials run as others on the machine leave room for."""
        return self._room is not None and self.history.at_work >= self._room

    def _way(self, trial: Trial) -> Source | Waits | None:
        """Return whose shared state a trial goes on from, or that it waits for one; None if neither."""
        if self._book is None or self.history.source_of(trial) is not None:
            return None
        return self._book.way(trial)

    def _assign(self, at: float, trial: Trial, worker: Worker, way: Source | None) -> None:
        attempt, shelf = trial.attempt + 1, self.history.shelf
        assigned = Assigned(at=at, trial=trial.number, attempt=attempt, worker=worker.name)
        if way is not None:
            source: int | None = way.trial
            points: tuple[Checkpoint, ...] = (shelf.shared(way.trial)[way.epoch],)
            assigned = msgspec.structs.replace(assigned, source=way.trial, epoch=way.epoch)
        else:
            source = self.history.source_of(trial)
            points = shelf.points(trial.number if source is None else source)
        self._tell(assigned)
        given = (trial.params, trial.seed, points, source, trial.start, trial.probe, trial.arm)
        order = None
        if self._conductor is not None:
            order = self._conductor.begin(trial.number, worker.machine, trial.promotes)
        self._out.append(Assign(worker.name, trial.number, attempt, *given, order=order))

    def _wake_up_in_time(self, at: float) -> None:
        """See to it that a worker which waits gets what is ready as soon as it may."""
        if self.history.ready:
            idle = self.history.idle.values()
            rests = [t for worker in idle if (t := rested_at(worker, self.limits)) > at]
            if rests:
                self._out.append(WaitUntil(min(rests)))

    # --- small change -----------------------------------------------------------------------------

    def _tell(self, fact: AnyFact) -> None:
        self.history.apply(fact)
        self._out.append(Persist(fact))
        if self._book is not None:
            self._book.take_in(fact)
        if self.history.surplus:
            self._out.append(Discard(self.history.surplus))

    def _holder(self, trial: int, attempt: int) -> Trial | None:
        """Return the trial if this attempt of it is live; late words of earlier ones are fenced off."""
        if not 0 <= trial < len(self.history.trials):
            return None
        found = self.history.trials[trial]
        return found if found.worker is not None and found.attempt == attempt else None

    def _release(self, event: Ended) -> None:
        self._out.append(Release(event.worker, event.trial, event.attempt))

    def _end(self, at: float, reason: str, *, complete: bool = False, limit: str = "") -> None:
        self._tell(Closed(at=at, reason=reason, complete=complete, limit=limit))
        self.over = True
        self._out.append(End(reason, complete))
