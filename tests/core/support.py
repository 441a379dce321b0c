"""A stage for the driver: it plays the shell in virtual time, and holds the driver to its promises.

After every event it checks the driver's invariants, that folding what was persisted gives the
driver's own state again, and, command by command, that nothing goes out which should not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec

from etude.core.clock import VirtualClock
from etude.core.driver import Driver
from etude.core.events import (
    USUAL,
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
    Fact,
    How,
    Joined,
    Judged,
    Left,
    Note,
    Opened,
    Origin,
    Outcome,
    Params,
    Pause,
    Persist,
    Quarantined,
    Queued,
    Release,
    Reported,
    Resumed,
    Retire,
    Retune,
    Settled,
    Stop,
    Suggest,
    Suggested,
    Ticked,
    Tuned,
    Unsaved,
    WindDown,
)
from etude.core.exact import exact
from etude.core.history import History, Trial, Worker
from etude.core.lifecycle import FINAL, State, Turn
from etude.core.limits import Limits
from etude.core.memories import Memories, Memory
from etude.core.metrics import Metrics
from etude.core.packed import Loose
from etude.core.packing import Need
from etude.core.plan import GO_ON, Act, Decision, Done, Promote, Propose, Report, Standing, Wait
from etude.core.prefixes import Prefixes
from etude.core.reuse import NOTHING, Reuse
from etude.core.shelf import Held, Shelf
from etude.core.system import Conductor

METRIC = "accuracy"
METRICS = Metrics({METRIC: "max"})
STOP = Decision(Act.STOP, "worse than the others")
ENOUGH = Decision(Act.ENOUGH, "it has converged")
PAUSE = Decision(Act.PAUSE, "let the others catch up")

_encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], AnyFact] = msgspec.msgpack.Decoder(AnyFact).decode


@dataclass
class Script:
    """A plan that is written down beforehand.

    Attributes:
        trials: How many trials it asks for.
        given: Trial -> the configuration that it brings itself; the others are the sampler's.
        verdicts: (trial, step) -> what becomes of that trial then.
        fixed: Parameters that are added to what the sampler proposes.
        carries_on: Trial -> the earlier trial that it promotes, with the configuration in ``given``.
        promotes: Paused trial -> the trial that has to end before it goes on.
        seen: The reports that it was asked about.
        resumes: Whether a trial that promotes another goes on from that one's state.
        never: Trials that are never promoted, as far as is known now.
    """

    trials: int
    given: Mapping[int, Params] = field(default_factory=dict)
    verdicts: Mapping[tuple[int, int], Decision] = field(default_factory=dict)
    fixed: Params = field(default_factory=dict)
    carries_on: Mapping[int, int] = field(default_factory=dict)
    promotes: Mapping[int, int] = field(default_factory=dict)
    seen: list[Report] = field(default_factory=list)
    resumes: bool = False
    never: list[int] = field(default_factory=list)

    def ask(self, standing: Standing, *, pending: Sequence[Propose]) -> Propose | Promote | Wait | Done:
        asked = len(standing.trials) + len(pending)
        states = [trial.state for trial in standing.trials]
        for paused, awaited in self.promotes.items():
            if states[paused:] and states[paused] is State.PAUSED and states[awaited] in FINAL:
                return Promote(paused)
        if asked < self.trials:
            return Propose(7, self.given.get(asked), self.fixed, self.carries_on.get(asked))
        if any(states[t] not in FINAL for t in self.promotes if t < len(states)):
            return Wait()
        return Done("all trials ended")

    def never_promoted(self, standing: Standing) -> Sequence[int]:
        return self.never

    def decide(self, report: Report, standing: Standing) -> Decision:
        self.seen.append(report)
        return self.verdicts.get((report.trial, report.step), GO_ON)


Sampler = Callable[[int, int], Params]


def all_different(k: int, redraw: int) -> Params:
    """Propose configurations of which no two are equal."""
    return {"x": k, "redraw": redraw}


class Stage:
    """Tells a driver events, and keeps what it says.

    Args:
        plan: The driver's plan.
        limits: Its patience; two workers if not given.
        sampler: Answers its questions at once; None if the test answers by itself.
        forbids: Says why a configuration is ruled out.
        lingers: Whether the shell takes its time to wind down; the test cancels by itself then.
        need: Predicts the memory that trials need.
        prefixes: How trials may share their beginnings.
        reuse: What trials of other studies give.
        conductor: Decides on the settings of machines.

    Attributes:
        facts: What was persisted, in order, by all drivers that stood on this stage.
        told: All other commands, in order.
        hands: Worker -> the attempt that it was given and has not ended.
        waiting: What the sampler has been asked and the test has not answered, in order.
        files: Those of checkpoints that are there.
    """

    def __init__(
        self,
        plan: Script | int,
        *,
        limits: Limits | None = None,
        metrics: Metrics = METRICS,
        sampler: Sampler | None = all_different,
        forbids: Callable[[Params], str | None] = lambda params: None,
        lingers: bool = False,
        need: Need | None = None,
        prefixes: Prefixes | None = None,
        reuse: Reuse = NOTHING,
        conductor: Conductor | None = None,
    ) -> None:
        self.conductor = conductor
        self.need = need
        self.reuse = reuse
        self.prefixes = prefixes
        self.lingers = lingers
        self.clock = VirtualClock()
        self.plan = Script(plan) if isinstance(plan, int) else plan
        self.limits = limits or Limits(workers=2)
        self.metrics = metrics
        self.sampler = sampler
        self.forbids = forbids
        self.facts: list[AnyFact] = []
        self.told: list[AnyCommand] = []
        self.hands: dict[str, tuple[int, int]] = {}
        self.waiting: list[Suggest] = []
        self.files: set[tuple[int, str]] = set()  # of checkpoints, on a disk that is none
        self._unsaved: Checkpoint | None = None
        self._here: set[str] = set()
        self._attempts: dict[int, int] = {}
        self._finished: set[int] = set()
        self._replayed = History(metrics)
        self.keep = USUAL
        self.driver = Driver(
            self.plan,
            History(metrics),
            self.limits,
            need=need,
            prefixes=prefixes,
            reuse=reuse,
            conductor=conductor,
        )

    # --- what a test says ---------------------------------------------------------------------

    def open(self) -> list[AnyCommand]:
        """Let the driver take the study up."""
        epoch = 1 + sum(isinstance(fact, Opened) for fact in self.facts)
        return self.tell(Opened(at=self.now, driver=f"driver {epoch}", epoch=epoch, keep=self.keep))

    def join(
        self, *workers: str, machine: str = "", memory_mb: float = 0.0, gpus_mb: Mapping[str, float] | None = None
    ) -> list[AnyCommand]:
        """Let workers of a machine come, and open the study before if that is still to do."""
        said = [] if self.driver.history.epoch else self.open()
        for worker in workers:
            self._here.add(worker)
            said += self.tell(
                Joined(at=self.now, worker=worker, machine=machine, memory_mb=memory_mb, gpus_mb=dict(gpus_mb or {}))
            )
        return said

    def leave(self, worker: str, reason: str = "") -> list[AnyCommand]:
        """Let a worker be gone, with whatever it held."""
        self._here.discard(worker)
        self.hands.pop(worker, None)
        return self.tell(Left(at=self.now, worker=worker, reason=reason))

    def report(self, trial: int, value: float, *, step: int = 0, attempt: int = 0, metric: str = METRIC) -> list[Any]:
        """Let a trial's newest attempt report its next step, unless told otherwise."""
        known = self.trial(trial)
        return self.tell(
            Reported(
                at=self.now,
                trial=trial,
                attempt=attempt or known.attempt,
                step=step or len(known.curve) + 1,
                metrics={metric: value},
            )
        )

    def save(
        self,
        trial: int,
        epoch: int,
        *,
        step: int | None = None,
        attempt: int = 0,
        batch: int = 0,
        sizes: tuple[int, int] = (10, 30),
        ranks: int = 1,
        lost: bool = False,
    ) -> Checkpoint:
        """Let a trial's newest attempt save its state after an epoch and some batches, unless told which.

        Where it is in shards of several ranks, one of them may be lost.
        """
        known = self.trial(trial)
        step = known.reports if step is None else step
        digest = f"{trial}/{epoch}/{batch}"
        digests = (digest, digest) * ranks
        checkpoint = Checkpoint(attempt or known.attempt, 0, epoch, step, digests, sizes * ranks, batch)
        self.files |= {(trial, name) for name in checkpoint.names()}
        if lost:
            self._unsaved = checkpoint
        self.tell((Unsaved if lost else Checkpointed)(at=self.now, trial=trial, checkpoint=checkpoint))
        return checkpoint

    def resume(self, trial: int, checkpoint: Checkpoint | None, *, source: int | None = None) -> None:
        """Let a trial's newest attempt go on from a checkpoint, of an earlier trial if that is named, or start over."""
        key, step = (checkpoint.key, checkpoint.step) if checkpoint is not None else (None, 0)
        attempt = self.trial(trial).attempt
        self.tell(Resumed(at=self.now, trial=trial, attempt=attempt, origin=Origin(key, step, source=source)))

    def end(
        self,
        trial: int,
        how: How = How.FINISHED,
        *,
        value: float = 0.5,
        extra: Mapping[str, float] = MappingProxyType({}),
        reason: str = "",
        traceback: str = "",
        raised_in: str = "",
        attempt: int = 0,
        worker: str | None = None,
    ) -> list[AnyCommand]:
        """Let a trial's newest attempt end, unless told which."""
        attempt = attempt or (self.driver.history.trials[trial].attempt if trial < len(self.trials) else 1)
        holder = next((name for name, held in self.hands.items() if held == (trial, attempt)), "")
        self.hands.pop(holder, None)
        outcome = Outcome(
            how,
            value=value if how is How.FINISHED else None,
            extra=dict(extra),
            reason=reason,
            traceback=traceback,
            raised_in=raised_in,
        )
        event = Ended(
            at=self.now, worker=holder if worker is None else worker, trial=trial, attempt=attempt, outcome=outcome
        )
        return self.tell(event)

    def suggest(self, k: int, params: Params, *, redraw: int = 0) -> list[AnyCommand]:
        """Let the sampler answer."""
        upto = len(self.facts)
        forbidden = self.forbids(params)
        return self.tell(Suggested(at=self.now, k=k, params=params, redraw=redraw, upto=upto, forbidden=forbidden))

    def wait(self, seconds: float) -> list[AnyCommand]:
        """Let time go by, and the driver notice."""
        self.clock.advance(seconds)
        return self.tell(Ticked(at=self.now))

    def cancel(self, reason: str = "interrupted by hand") -> list[AnyCommand]:
        """Ask for the study to wind down."""
        return self.tell(Cancelled(at=self.now, reason=reason))

    def take_over(self, plan: Script | int | None = None, *, open_it: bool = True) -> list[AnyCommand]:
        """Put a new driver over what was persisted; the workers of the old one are gone."""
        if plan is not None:
            self.plan = Script(plan) if isinstance(plan, int) else plan
        history = History(self.metrics)
        self.driver = Driver(
            self.plan,
            history,
            self.limits,
            need=self.need,
            prefixes=self.prefixes,
            reuse=self.reuse,
            conductor=self.conductor,
        )
        for fact in self.facts:  # as a shell does: it reads the journal when it has a driver
            history.apply(through_the_journal(fact))
        self.hands.clear()
        self.waiting.clear()
        self._here.clear()
        return self.open() if open_it else []

    def run_out(self) -> None:
        """Let every attempt that is given out finish, until none is."""
        while self.hands:
            for trial, _ in list(self.hands.values()):
                self.end(trial)

    # --- what a test asks ---------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.clock.now_s()

    @property
    def trials(self) -> list[Trial]:
        return self.driver.history.trials

    def trial(self, number: int) -> Trial:
        return self.trials[number]

    @property
    def states(self) -> list[State]:
        return [trial.state for trial in self.trials]

    def story(self, trial: int) -> list[str]:
        """Return what happened to a trial since it was queued, in words."""
        words: list[str] = []
        for fact in self.facts:
            match fact:
                case Assigned(trial=number, worker=worker) if number == trial:
                    words.append(f"assigned to {worker}")
                case Judged(trial=number, turn=turn) | Settled(trial=number, turn=turn) if number == trial:
                    words.append("pause_asked" if isinstance(fact, Judged) and turn is Turn.PAUSED else turn.value)
        return words

    def last(self, kind: type[Fact]) -> Any:
        """Return the newest fact of a kind."""
        return next(fact for fact in reversed(self.facts) if isinstance(fact, kind))

    # --- promises -----------------------------------------------------------------------------

    def tell(self, event: AnyEvent) -> list[AnyCommand]:
        """Tell the driver an event, watch what it says, and return the commands that are no Persist."""
        said = []
        for command in self.driver.handle(event):
            if isinstance(command, Persist):
                self.facts.append(command.fact)
                self._replayed.apply(through_the_journal(command.fact))
                if isinstance(command.fact, Settled) and command.fact.turn in (Turn.FINISHED, Turn.REUSED):
                    self._finished.add(command.fact.trial)
            else:
                self._watch(command)
                said.append(command)
        self.driver.check()
        assert_same_state(self.driver.history, self._replayed)
        self.told += said
        for question in [command for command in said if isinstance(command, Suggest)]:
            if self.sampler is None:
                self.waiting.append(question)
            else:
                said += self.suggest(question.k, self.sampler(question.k, question.redraw), redraw=question.redraw)
        for order in [command for command in said if isinstance(command, WindDown) and not self.lingers]:
            said += self.tell(Cancelled(at=self.now, reason=order.reason, limit=order.limit))
        return said

    def _watch(self, command: AnyCommand) -> None:
        """Assert that a command may go out, and that the fact it follows from is written down."""
        match command:
            case Assign(worker=worker, trial=trial, attempt=attempt, points=points, source=source):
                assert worker in self._here, f"{worker} is not here"
                assert worker not in self.hands, f"{worker} has its hands full"
                assert trial not in [held for held, _ in self.hands.values()], f"trial {trial} runs already"
                assert trial not in self._finished, f"trial {trial} has finished"
                assert attempt == self._attempts.get(trial, 0) + 1, "attempts count up by one"
                assert self.last(Assigned).trial == trial
                assert self.last(Assigned).worker == worker
                whose = trial if source is None else source
                needed = {(whose, name) for point in points for name in point.names()}
                assert needed <= self.driver.history.shelf.files, "it finds what it is to go on from"
                self._attempts[trial] = attempt
                self.hands[worker] = (trial, attempt)
            case Stop(worker=worker, trial=trial, attempt=attempt) | Pause(worker=worker, trial=trial, attempt=attempt):
                assert self.hands[worker] == (trial, attempt)
                judged = self.last(Judged)
                assert (judged.trial, judged.attempt) == (trial, attempt)
                assert judged.turn is (Turn.STOP_ASKED if isinstance(command, Stop) else Turn.PAUSED)
            case Retune(worker=worker, trial=trial, attempt=attempt, order=order):
                assert self.hands[worker] == (trial, attempt)
                assert self.last(Tuned).order == order, "it is written down"
            case Release(trial=trial, attempt=attempt):
                if trial < len(self.trials) and attempt == self._attempts.get(trial):
                    assert self._replayed.trials[trial].worker is None, "the outcome is written down"
            case Discard(files=files):
                assert not set(files) & self.driver.history.shelf.files, "what is kept stays"
                self.files -= set(files)
            case Note(worker=worker, trial=trial, checkpoint=checkpoint):
                assert self.hands[worker] == (trial, checkpoint.attempt)
                is_there = checkpoint != self._unsaved
                assert not is_there or self.last(Checkpointed).checkpoint == checkpoint, "it is written down"
                assert self.files == self.driver.history.shelf.files, "what is surplus is gone before more may come"
            case Retire(worker=worker):
                assert worker in self._here
                assert self.last(Quarantined).worker == worker
            case End(complete=complete):
                limit = self.last(Closed).limit
                assert self.facts[-1] == Closed(at=self.now, reason=command.reason, complete=complete, limit=limit)
                assert complete <= all(state in FINAL for state in self.states)


def through_the_journal(fact: AnyFact) -> AnyFact:
    """Return a fact as it comes back from the disk."""
    read = _decode(_encode(fact))
    return msgspec.structs.replace(read, params=exact(read.params)) if isinstance(read, Queued) else read


def folded(facts: Iterable[AnyFact], metrics: Metrics = METRICS) -> History:
    """Return the state that a journal with these facts means."""
    history = History(metrics)
    for fact in facts:
        history.apply(through_the_journal(fact))
    return history


def assert_same_state(one: History, other: History) -> None:
    """Assert that two histories are equal in every field, those of their trials and workers included."""
    for name in vars(one):
        if name != "_fold":
            mine, theirs = _plain(getattr(one, name)), _plain(getattr(other, name))
            # NaN is not equal to itself, and no difference either.
            assert mine == theirs or repr(mine) == repr(theirs), f"{name}: {mine} is not {theirs}"


def _plain(value: Any) -> Any:
    if isinstance(value, Trial | Worker | Memory | Memories | Loose | Shelf | Held):
        return [_plain(getattr(value, name)) for name in value.__slots__]
    if isinstance(value, dict):
        return [(key, _plain(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
