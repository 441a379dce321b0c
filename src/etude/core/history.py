"""The state of a study: a fold over its facts.

``History().apply(fact)`` for each fact, in order, is all there is to it. The driver folds what it
decides, a resumed driver folds the journal, and so does a reader that has none of the user's code.
No rule lives here: a fact already says what it meant.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from etude.core.events import (
    AnyFact,
    Assigned,
    Checkpointed,
    Closed,
    Freed,
    How,
    Joined,
    Judged,
    Left,
    Opened,
    Outcome,
    Params,
    Prepared,
    Quarantined,
    Queued,
    Reported,
    Resumed,
    Settled,
    Shared,
    StoodStill,
    Tuned,
    Value,
)
from etude.core.lifecycle import FINAL, LIVE, State, Turn, after
from etude.core.memories import Memories, Site
from etude.core.metrics import Metrics
from etude.core.packed import NOTHING, Loose, Packed, slim
from etude.core.removal import Arm
from etude.core.shares import Shares
from etude.core.shelf import POINTS, Files, Rank, Shelf
from etude.core.spending import Spending

GOOD_ENDS: Final = frozenset({How.FINISHED, How.STOPPED, How.PAUSED, How.INVALID})
"""Ways for an attempt to end that speak for its worker."""

NO_CURVE: Final = array("d")
"""Shared by all that have none; never changed."""

TRIALS_FAULT: Final = frozenset({How.UNUSABLE, How.TIMED_OUT})
"""Ways that speak neither for nor against it."""


class Trial:
    """A trial as it stands.

    Attributes:
        number: Its number in the study, from 0.
        params: Its configuration.
        seed: Its training seed.
        state: Where it stands.
        attempt: Number of its newest attempt, from 1; 0 before the first.
        worker: Who holds its live attempt; None if nobody does.
        losses: How many of its attempts were lost and charged to it.
        tried_on: Workers on which an attempt of it raised or was lost.
        raised_on: Those of them on which it raised.
        alone: Whether it runs with no other trial on its machine.
        pausing: Whether its live attempt was asked to pause.
        enough: Whether it was asked to stop because it has shown what it can.
        last: The newest value of each metric that the attempt reported, where the study has several.
        reason: Why it stands where it stands, for people.
        same_as: The earlier trial with the same configuration, if there is one.
        taken_from: The study and the trial whose outcome it has, where that is another study's.
        promotes: The earlier trial that it carries on with a larger budget, if there is one.
        start: The weights that it begins with; None if they are random.
        probe: How much of a run it is, if it is none.
        arm: What is taken away; None if nothing but settings is.
        tunes: Whether it is one of a search within the study, which chooses with what others are run.
        because: Why the plan decided on it, where that was a decision.
        redraw: How many proposals before this one were already taken.
        upto: The last fact that the sampler had seen when it proposed this trial.
        withdrawn: The curve of the attempt before the newest one, which may go on from there; ``NO_CURVE`` once that
            is settled.
    """

    __slots__ = (
        "_ends",
        "alone",
        "arm",
        "attempt",
        "because",
        "enough",
        "last",
        "losses",
        "number",
        "params",
        "pausing",
        "probe",
        "promotes",
        "raised_on",
        "reason",
        "redraw",
        "same_as",
        "seed",
        "start",
        "state",
        "taken_from",
        "tried_on",
        "tunes",
        "upto",
        "withdrawn",
        "worker",
    )  # fmt: skip

    def __init__(self, fact: Queued) -> None:
        self.number = fact.trial
        self.params: Params = fact.params
        self.seed = fact.seed
        self.state = State.QUEUED
        self.attempt = 0
        self.worker: str | None = None
        self.losses = 0
        self.tried_on: tuple[str, ...] = ()
        self.raised_on: tuple[str, ...] = ()
        self.alone = False
        self.pausing = False
        self.enough = False
        self.last: Mapping[str, float] = NOTHING
        self.reason = ""
        self.same_as = fact.same_as
        self.taken_from: tuple[str, int] | None = None
        self.promotes = fact.promotes
        self.because = fact.because
        self.redraw = fact.redraw
        self.upto = fact.upto
        self.withdrawn = NO_CURVE
        self.start = fact.start
        self.probe = fact.probe
        self.arm = fact.arm
        self.tunes = fact.tunes
        self._ends: Loose | Packed = Loose(fact.at)

    @property
    def is_plain(self) -> bool:
        """Whether its configuration and its seed say all of it: no weights are given, it is no probe and no arm."""
        return self.start is None and self.probe is None and (self.arm is None or self.arm.empty)

    @property
    def curve(self) -> array[float]:
        """The watched metric at steps 1, 2, ... of the newest attempt. Once the trial has ended, a copy each time."""
        return self._ends.curve

    @property
    def reports(self) -> int:
        """How long the curve is, without making it."""
        return self._ends.reports

    @property
    def queued_at(self) -> float:
        """When it was queued."""
        return self._ends.queued_at

    @property
    def started_at(self) -> float | None:
        """When its newest attempt was handed out; None before the first."""
        return self._ends.started_at

    @property
    def ended_at(self) -> float | None:
        """When something ended for it last; None before that."""
        return self._ends.ended_at

    @property
    def outcome(self) -> Outcome | None:
        """What its last ended attempt left behind."""
        return self._ends.outcome

    @property
    def value(self) -> float | None:
        """The final main metric; None unless the trial finished."""
        return self._ends.value if self.state is State.FINISHED else None

    @property
    def extra(self) -> dict[str, Any]:
        """What the training function returned beside the metric."""
        outcome = self.outcome
        return outcome.extra if outcome is not None else {}

    def begin(self, at: float) -> None:
        """Note that an attempt was handed out."""
        assert isinstance(self._ends, Loose), "what has ended starts no more"
        self._ends.started_at = at
        if self.withdrawn is NO_CURVE:  # else the attempt before ended without a word of where it went on from
            self.withdrawn = self._ends.curve
        self._ends.curve = array("d")  # an attempt that starts over withdraws what was reported before

    def follow(self, curve: array[float]) -> None:
        """Note that the attempt may go on from another trial's state, and with that from its reports."""
        self.withdrawn = curve

    def resume(self, step: int) -> None:
        """Note that the attempt goes on after that many reports of those before it."""
        assert isinstance(self._ends, Loose), "what has ended goes on no more"
        self._ends.curve = self.withdrawn[:step]

    def settle(self) -> None:
        """Note that what earlier attempts reported is of no use any more."""
        self.withdrawn = NO_CURVE

    def end(self, at: float, outcome: Outcome | None) -> None:
        """Note that something ended for it, and what an attempt left behind, if it was one."""
        assert isinstance(self._ends, Loose), "what has ended ends no more"
        self._ends.ended_at = at
        if outcome is not None:
            self._ends.outcome = slim(outcome)

    def pack(self) -> None:
        """Keep it in little room: nothing changes any more."""
        assert isinstance(self._ends, Loose)
        self._ends = self._ends.packed()
        self.settle()


class Worker:
    """A worker as the study knows it."""

    __slots__ = ("fails", "good_ends", "hurt", "last_fail_at", "machine", "name", "quarantined", "site", "trial")

    def __init__(self, name: str, site: Site, machine: str = "") -> None:
        self.name = name
        self.machine = machine
        self.site = site
        self.trial: int | None = None
        self.good_ends = 0
        self.fails = 0  # in a row
        self.last_fail_at = 0.0
        self.hurt: set[int] = set()  # trials that it lost, and did not bring to a good end later
        self.quarantined = False


class History:
    """Everything that is known of a study.

    Args:
        metrics: What the study measures: reports of the watched one make the trials' curves.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.seq = self.epoch = 0
        """Number of the last fact that was folded in; and how many drivers have worked on it."""
        self.trials: list[Trial] = []
        self.workers: dict[str, Worker] = {}
        self.idle: dict[str, Worker] = {}
        """Workers without an attempt, in the order in which they became free."""
        self.memories = Memories()
        """The memories of machines, and of their GPUs, and which trials run there."""
        self.alone: set[int] = set()
        """Unsettled trials that run with no other on their machine."""
        self.out_of_memory: dict[int, int] = {}
        """Trial -> how many of its attempts ran out of memory."""
        self.ready: list[int] = []
        """Trials that wait for a worker, by number."""
        self.finished: list[Trial] = []
        """Trials that finished, in the order in which they did. It only grows."""
        self.ended: list[Trial] = []
        """Trials that have come to a final state, in the order in which they did. It only grows."""
        self.moved = array("q")
        """Trials that were handed out, went on from a state, reported although they were to stop, or ended, one for
        each time."""
        self.first_with: dict[object, int] = {}
        """Configuration, and arm if it is of one (``first_key``) -> the first trial that has it."""
        self.followers: dict[int, list[int]] = {}
        """Unsettled trial -> later trials with the same configuration, which wait for it."""
        self.unsettled = 0
        """How many trials are in no final state."""
        self.failed = 0
        """How many trials have failed."""
        self.taken = 0
        """How many trials have the outcome of one of another study, and were never run here."""
        self.at = 0.0
        """When the last fact happened."""
        self.started_at: float | None = None
        """When the first attempt was handed out; None before."""
        self.shelf = Shelf()
        """The states of trials that are saved."""
        self.tuned: dict[int, list[Tuned]] = {}
        """Trial -> what its epochs took, and how the machine was set for them; of those whose machines are tuned."""
        self.surplus: Files = ()
        """What of these may go since the last fact."""
        self.shares = Shares()
        """What trials have from each other."""
        self.spending = Spending()
        """What the study has taken so far."""
        self.drivers: list[str] = []
        """Every driver that worked on this study, the newest last."""
        self.closed: Closed | None = None
        self._live: dict[int, Trial] = {}
        self._fold: dict[type[Any], Callable[[Any], None]] = {
            Opened: self._opened,
            Joined: self._joined,
            Left: self._left,
            StoodStill: self._stood_still,
            Quarantined: self._quarantined,
            Queued: self._queued,
            Assigned: self._assigned,
            Reported: self._reported,
            Checkpointed: self._checkpointed,
            Shared: self._shared,
            Resumed: self._resumed,
            Judged: self._judged,
            Settled: self._settled,
            Tuned: self._tuned,
            Freed: self._freed,
            Prepared: lambda _: None,
            Closed: self._closed,
        }

    def apply(self, fact: AnyFact) -> None:
        """Fold one fact in."""
        self.seq += 1
        self.surplus = ()
        self._fold[type(fact)](fact)
        self.at = fact.at

    @property
    def distinct(self) -> int:
        """How many different configurations there are among the trials."""
        return len(self.first_with)

    def said_last(self, trial: Trial) -> tuple[float, dict[str, Any]] | None:
        """Return the main metric and the others as the attempt reported them last; None if one never came."""
        main, *others = self.metrics.names
        if not others:
            return (trial.curve[-1], {}) if trial.curve else None
        if any(name not in trial.last for name in self.metrics.names):
            return None
        return trial.last[main], {name: trial.last[name] for name in others}

    def source_of(self, trial: Trial) -> int | None:
        """Return the earlier trial from whose state this one goes on, as long as it has none of its own."""
        earlier = trial.promotes
        if earlier is None or self.shelf.points(trial.number) or not self.shelf.points(earlier):
            return None
        return earlier

    def live(self) -> Iterator[Trial]:
        """Trials of which a worker holds an attempt."""
        return iter(self._live.values())

    @property
    def at_work(self) -> int:
        """How many trials a worker holds an attempt of."""
        return len(self._live)

    @property
    def busy(self) -> bool:
        """Whether any worker holds an attempt."""
        return bool(self._live)

    def _opened(self, fact: Opened) -> None:
        self.spending.end(self.at)  # unless the last driver closed it, its last fact is all that is known of its end
        self.spending.begin(fact.at)
        self.epoch = fact.epoch
        self.drivers.append(fact.driver)
        self.workers.clear()
        self.idle.clear()
        self.memories.clear()
        self._live.clear()
        self.closed = None
        self.surplus = self.shelf.begin(fact.keep)

    def _joined(self, fact: Joined) -> None:
        site = self.memories.come(fact.machine, fact.memory_mb, fact.gpus_mb)
        self.idle[fact.worker] = self.workers[fact.worker] = Worker(fact.worker, site, fact.machine)
        self.spending.come(fact.worker, fact.at)

    def _left(self, fact: Left) -> None:
        self.spending.go(fact.worker, fact.at)
        worker = self.workers.pop(fact.worker, None)
        if worker is None:
            return
        self.idle.pop(fact.worker, None)
        if worker.trial is not None:
            self._live.pop(worker.trial, None)
        if not worker.quarantined:
            self.memories.go(worker.site, worker.trial)

    def _stood_still(self, fact: StoodStill) -> None:
        self.spending.stand_still(fact.seconds)

    def _quarantined(self, fact: Quarantined) -> None:
        worker = self.workers[fact.worker]
        worker.quarantined = True
        self.idle.pop(fact.worker, None)
        self.memories.go(worker.site, worker.trial)

    def _queued(self, fact: Queued) -> None:
        assert fact.trial == len(self.trials), "trials are numbered without gaps"
        trial = Trial(fact)
        self.trials.append(trial)
        self.unsettled += 1
        if fact.same_as is None:
            self.first_with.setdefault(first_key(fact.params, fact.arm), fact.trial)
            self.ready.append(fact.trial)
        else:
            self.followers.setdefault(fact.same_as, []).append(fact.trial)

    def _assigned(self, fact: Assigned) -> None:
        trial = self.trials[fact.trial]
        trial.state = after(trial.state, Turn.ASSIGNED, trial=trial.number)
        del self.ready[bisect_left(self.ready, fact.trial)]
        trial.attempt = fact.attempt
        trial.worker = fact.worker
        trial.pausing = trial.enough = False
        trial.last = NOTHING
        trial.reason = ""
        trial.begin(fact.at)
        if fact.source is not None:
            trial.follow(self.shares.curves[fact.source, fact.epoch])
        elif (source := self.source_of(trial)) is not None:
            trial.follow(self.trials[source].curve)
        if self.started_at is None:
            self.started_at = fact.at
        worker = self.idle.pop(fact.worker)
        worker.trial = fact.trial
        self.memories.hold(worker.site, fact.trial)
        self._live[fact.trial] = trial
        self.moved.append(fact.trial)

    def _reported(self, fact: Reported) -> None:
        trial = self.trials[fact.trial]
        value = fact.metrics.get(self.metrics.watched)
        if value is not None:
            trial.curve.append(value)
            if trial.state is State.STOPPING:
                self.moved.append(fact.trial)
        if len(self.metrics.modes) > 1:
            trial.last = {**trial.last, **fact.metrics}

    def _checkpointed(self, fact: Checkpointed) -> None:
        trial, step = self.trials[fact.trial], fact.checkpoint.step
        trial.settle()  # the next attempt goes on from this one's reports
        value = trial.curve[step - 1] if 0 < step <= trial.reports else None
        loss = self.metrics.loss(value) if value is not None else math.inf
        self.surplus = self.shelf.put(fact.trial, fact.checkpoint, loss)
        self.shares.save(fact.trial, fact.checkpoint)
        self._spare_what_it_carries_on(trial)

    def _shared(self, fact: Shared) -> None:
        self.shelf.share(fact.trial, fact.epoch)
        step = self.shelf.shared(fact.trial)[fact.epoch].step
        self.shares.curves[fact.trial, fact.epoch] = self.trials[fact.trial].curve[:step]

    def _resumed(self, fact: Resumed) -> None:
        trial, origin = self.trials[fact.trial], fact.origin
        if origin.key is not None:
            trial.resume(origin.step)
            if len(self.metrics.modes) > 1:
                trial.last = origin.last
        trial.settle()
        self.moved.append(fact.trial)
        before = self.shelf.shared(fact.trial)
        self.surplus = self.shelf.resume(fact.trial, origin.key if origin.source is None else None)
        dropped = before.keys() - self.shelf.shared(fact.trial).keys()
        self.shares.resume(fact.trial, origin, dropped, promotes=trial.promotes)

    def _judged(self, fact: Judged) -> None:
        trial = self.trials[fact.trial]
        trial.reason = fact.reason
        trial.pausing = fact.turn is Turn.PAUSED
        trial.enough = fact.enough
        if fact.turn is Turn.STOP_ASKED:
            trial.state = after(trial.state, Turn.STOP_ASKED, trial=trial.number)

    def _settled(self, fact: Settled) -> None:
        trial = self.trials[fact.trial]
        was_queued = trial.state is State.QUEUED
        trial.state = after(trial.state, fact.turn, trial=trial.number)
        if fact.reason or fact.turn is Turn.FINISHED:  # what was said of it before is no reason any more
            trial.reason = fact.reason
        trial.losses += fact.charged
        if fact.taken_from is not None:
            trial.taken_from = fact.taken_from
            self.taken += 1
        if fact.alone:
            trial.alone = True
            self.alone.add(trial.number)
        if fact.attempt is not None and fact.outcome is not None and fact.outcome.how is How.OUT_OF_MEMORY:
            self.out_of_memory[trial.number] = self.out_of_memory.get(trial.number, 0) + 1
        trial.end(fact.at, fact.outcome)
        self._free_worker_of(trial, fact)
        if trial.state is State.QUEUED:
            insort(self.ready, trial.number)
        elif trial.state in FINAL:
            self.unsettled -= 1
            self.alone.discard(trial.number)
            rank = self._rank(trial) if trial.state is State.FINISHED else None
            self.surplus = self.shelf.end(trial.number, rank, resumable=fact.resumable)
            self._spare_what_it_carries_on(trial)
            self.failed += trial.state is State.FAILED
            trial.pack()
            self.ended.append(trial)
            self.moved.append(trial.number)
            if was_queued and trial.same_as is None:
                del self.ready[bisect_left(self.ready, trial.number)]
            if trial.same_as is not None:
                self._unfollow(trial.same_as, trial.number)
            if trial.state is State.FINISHED:
                self.finished.append(trial)

    def _rank(self, trial: Trial) -> Rank:
        """Return what orders trials that finished as results do: by budget, then by the main metric."""
        fidelity = self.metrics.fidelity
        rung = fidelity.rung(trial.params) if fidelity is not None else 0
        return (-rung, *self.metrics.rank(trial.value))

    def _tuned(self, fact: Tuned) -> None:
        self.tuned.setdefault(fact.trial, []).append(fact)

    def _freed(self, fact: Freed) -> None:
        self.surplus = self.shelf.free(fact.trials, fact.states)
        self.shares.free(fact.states)

    def _spare_what_it_carries_on(self, trial: Trial) -> None:
        """Let the states of the trial before go, once this one has two of its own, or has ended."""
        if trial.promotes is not None and (trial.state in FINAL or len(self.shelf.points(trial.number)) >= POINTS):
            self.surplus += self.shelf.free([trial.promotes])

    def _unfollow(self, first: int, number: int) -> None:
        waiting = self.followers[first]
        waiting.remove(number)
        if not waiting:
            del self.followers[first]

    def _free_worker_of(self, trial: Trial, fact: Settled) -> None:
        if trial.worker is None:
            return
        self._live.pop(trial.number, None)
        worker, trial.worker = self.workers.get(trial.worker), None
        if worker is None:
            return
        worker.trial = None
        self.memories.free(worker.site, trial.number)
        how = fact.outcome.how if fact.outcome is not None else None
        if how is None or fact.alone:
            pass  # the driver's doing, or that of who ran beside it, and not the worker's
        elif how in GOOD_ENDS:
            worker.fails = 0
            worker.good_ends += 1
            worker.hurt.discard(trial.number)  # it made up for that
        elif how not in TRIALS_FAULT:
            trial.tried_on = (*trial.tried_on, worker.name)
            if how is How.RAISED:
                self._forgive(trial, worker)
                trial.raised_on = (*trial.raised_on, worker.name)
            if fact.turn is Turn.LOST or fact.charged:
                worker.fails += 1
                worker.last_fail_at = fact.at
                worker.hurt.add(trial.number)
        if not worker.quarantined:
            self.idle[worker.name] = worker

    def _forgive(self, trial: Trial, worker: Worker) -> None:
        """Take back what workers were charged with for a trial that raises on another one as well: it is the code."""
        for name in trial.raised_on:
            other = self.workers.get(name)
            if other is not None and other is not worker:
                other.fails = max(0, other.fails - 1)

    def _closed(self, fact: Closed) -> None:
        self.closed = fact
        self.spending.end(fact.at)
        if fact.complete:
            self.surplus = self.shelf.free((trial.number for trial in self.ended), self.shares.curves)
            self.shares.curves.clear()

    def check(self) -> None:
        """Assert what must be true after every fact; the tests call it, a study never does."""
        held = [w.trial for w in self.workers.values() if w.trial is not None]
        assert len(held) == len(set(held)), "a trial has at most one live attempt"
        for worker in self.workers.values():
            if worker.trial is not None:
                trial = self.trials[worker.trial]
                assert trial.worker == worker.name, "trial and worker agree on who holds what"
                assert trial.state in LIVE, "only a live trial is held"
            assert (worker.name in self.idle) == (worker.trial is None and not worker.quarantined)
        for trial in self.trials:
            assert (trial.worker is not None) <= (trial.state in LIVE), "a settled trial is held by nobody"
            in_queue = trial.state is State.QUEUED and trial.same_as is None
            assert (trial.number in self.ready) == in_queue, "every queued trial is in the queue, once"
        assert sorted(self.ready) == self.ready, "earlier trials go first"
        assert self.unsettled == sum(t.state not in FINAL for t in self.trials)
        assert self.failed == sum(t.state is State.FAILED for t in self.trials)
        assert self.taken == sum(t.taken_from is not None for t in self.trials)
        self.memories.check((w.site, w.trial) for w in self.workers.values() if not w.quarantined)
        assert self.alone == {t.number for t in self.trials if t.alone and t.state not in FINAL}
        assert set(self.spending.joined) == (set(self.workers) if self.spending.opened_at is not None else set())
        assert [t for t in self.finished if t.state is not State.FINISHED] == []
        assert sorted(t.number for t in self.ended) == [t.number for t in self.trials if t.state in FINAL]
        assert {t.number for t in self.live()} == set(held), "live trials are those that are held"


def first_key(params: Params, arm: Arm | None) -> object:
    """Return what is equal for trials of one search with equal configurations: each arm that is tuned has its own."""
    return identity(params) if arm is None else (identity(params), arm.name)


def identity(params: Params) -> object:
    """Return a key that is equal for equal configurations, and tells True from 1 and 1 from 1.0.

    It is a digest, since a study of many trials holds as many of them.
    """
    told = repr([(name, _typed(params[name])) for name in sorted(params)])
    return hashlib.blake2b(told.encode(errors="surrogatepass"), digest_size=16).digest()


def _typed(value: Value) -> tuple[str, object]:
    if isinstance(value, tuple):
        return ("tuple", [_typed(v) for v in value])
    return (type(value).__name__, value)
