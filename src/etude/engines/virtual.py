"""Workers in virtual time: one heap of what will happen next, and no process, thread or clock of their own."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from etude.core.clock import VirtualClock
from etude.core.errors import Invalid, ResultError
from etude.core.events import (
    AnyEvent,
    Assign,
    Checkpoint,
    Checkpointed,
    Ended,
    How,
    Joined,
    Left,
    Origin,
    Outcome,
    Params,
    Reported,
    Resumed,
    Ticked,
    Usage,
)
from etude.core.metrics import Metrics
from etude.core.spending import HOUR_S
from etude.core.streams import stream
from etude.core.text import count
from etude.engines.curves import CurveSource
from etude.engines.simulated import Simulated
from etude.engines.steps import read_step
from etude.worker.attempt import is_memory_error, one_line, whole_traceback
from etude.worker.result import read_result

NEVER: Final = math.inf

QUIET: Final = 1_000
"""So many things happen of which the driver hears nothing, until it is told the time all the same."""

STALLED: Final = 10_000
"""A trial whose curve yields so many steps in a row that take no time would never end: it fails."""

LONGEST: Final = 1_000_000
"""Steps that are counted for the length of a curve, which may have no end."""


class VirtualCrew:
    """The workers of a simulated study.

    ``next`` moves the clock on to the next thing that the driver hears of. What a worker does in between happens
    here: it goes along the course of its trial, and ends where a real one would.

    Args:
        engine: How they are.
        source: What trials report, and when.
        clock: The driver's clock; this is what moves it.
        metrics: What the study measures.
        defaults: Values of parameters that a configuration leaves out.
        workers: How many there are, where the engine does not say.
        wanted: Given how many there could be, how many are needed, as things stand.
        started: How many were started in earlier runs of this study.
        timeout_s: Seconds after which an attempt is ended; None for no limit.
        grace_s: Seconds that an attempt has to see a stop.
        saves: After how many epochs a trial saves its state; each report of the watched metric ends an epoch.
        saves_last: Whether it saves its state after its last epoch as well.
    """

    def __init__(
        self,
        engine: Simulated,
        source: CurveSource,
        *,
        clock: VirtualClock,
        metrics: Metrics,
        defaults: Params,
        workers: int,
        wanted: Callable[[int], int],
        started: int = 0,
        timeout_s: float | None = None,
        grace_s: float = NEVER,
        saves: Collection[int] = (),
        saves_last: bool = False,
    ) -> None:
        self._engine = engine
        self._source = source
        self._clock = clock
        self._metrics = metrics
        self._defaults = defaults
        self._schedule = engine.schedule(workers)
        self._wanted = wanted
        self._started = started
        self._timeout_s = NEVER if timeout_s is None else timeout_s
        self._grace_s = grace_s
        self._saves = saves
        self._saves_last = saves_last
        self._level = 0  # how many workers the schedule allows now
        self._workers: dict[str, _Worker] = {}
        self._due: deque[AnyEvent] = deque()
        self._heap: list[tuple[float, int, Callable[[Any, int], None], Any]] = []
        self._pushed = 0
        self._wakes: set[float] = set()

    def open(self) -> None:
        """Start the workers that there are now; later ones follow as the schedule says."""
        now = self._clock.now_s()
        for at, n in self._schedule:
            if at <= now:
                self._level = n
            else:
                self._push(at, self._rescale, n)
        self._start(self._wanted(self._level) if self._level else 0)

    def next(self) -> AnyEvent | None:
        """Let time go by until the driver hears something, and return that; None if nothing will happen any more.

        Where nothing is heard for long, it hears what time it is: whoever lets time go by has other things to look at.
        """
        due, heap = self._due, self._heap
        quiet = 0
        while not due:
            if not heap:
                return None
            if quiet == QUIET:
                return Ticked(at=self._clock.now_s())
            quiet += 1
            at, nth, act, subject = heapq.heappop(heap)
            self._clock.move_to(at)
            act(subject, nth)
        return due.popleft()

    # --- what the driver wants --------------------------------------------------------------------

    def assign(self, order: Assign) -> None:
        """Have a worker run an attempt."""
        worker = self._workers.get(order.worker)
        if worker is not None:  # else it is gone, and the driver will hear of it
            worker.attempt = attempt = _Attempt(order, worker)
            self._next_is(attempt, self._clock.now_s() + self._engine.handout_s, self._begin)

    def stop(self, worker: str, trial: int, number: int) -> None:
        """Tell an attempt to stop at its next report, and end it when its grace is over."""
        attempt = self._attempt(worker, trial, number)
        if attempt is not None:
            attempt.halted_at = self._clock.now_s() + self._engine.report_s
            self._cut(attempt, attempt.halted_at + self._grace_s, How.STOPPED)

    def pause(self, worker: str, trial: int, number: int) -> None:
        """Tell an attempt to pause at its next report."""
        attempt = self._attempt(worker, trial, number)
        if attempt is not None:
            attempt.held_at = self._clock.now_s() + self._engine.report_s

    def retire(self, name: str) -> None:
        """Let a worker go, and start another in its place."""
        if (worker := self._workers.get(name)) is not None:
            self._leave(worker, "let go")
            self._replace()

    def tell_last(self, event: AnyEvent) -> None:
        """Let the driver hear this after all that is to happen at this moment."""
        self._push(self._clock.now_s(), self._arrive, event)

    def wake(self, at: float) -> None:
        """Tell the driver when it is ``at``."""
        if at not in self._wakes:
            self._wakes.add(at)
            self._push(at, self._tick, None)

    # --- workers come and go ----------------------------------------------------------------------

    def _start(self, n: int) -> None:
        now = self._clock.now_s()
        for _ in range(n):
            nth = self._started
            self._started += 1
            worker = _Worker(nth, self._engine.slowness(nth))
            self._workers[worker.name] = worker
            self._push(now + self._engine.startup_s, self._join, worker)
            if self._engine.preemptions_per_hour:
                draws = stream(self._engine.seed, "preemption", nth)
                lives_s = draws.expovariate(self._engine.preemptions_per_hour / HOUR_S)
                self._push(now + lives_s, self._preempt, worker)

    def _join(self, worker: _Worker, nth: int) -> None:
        if worker.name in self._workers:
            worker.joined = True
            self._due.append(Joined(at=self._clock.now_s(), worker=worker.name))

    def _preempt(self, worker: _Worker, nth: int) -> None:
        if worker.name in self._workers:
            self._leave(worker, "preempted")
            self._replace()

    def _rescale(self, n: int, nth: int) -> None:
        """Let there be ``n`` workers: idle ones leave first, and then the newest."""
        self._level = n
        newest = list(reversed(self._workers.values()))
        surplus = sorted(newest, key=lambda worker: worker.attempt is not None)[: max(0, len(newest) - n)]
        for worker in surplus:
            self._leave(worker, "there are fewer workers now")
        self._replace()

    def _replace(self) -> None:
        self._start(max(0, self._wanted(self._level) - len(self._workers)) if self._level else 0)

    def _leave(self, worker: _Worker, reason: str) -> None:
        del self._workers[worker.name]
        if worker.attempt is not None:
            worker.attempt.turn = -1  # whatever it was about to do
        if worker.joined:
            self._say(Left(at=self._clock.now_s() + self._engine.report_s, worker=worker.name, reason=reason))

    def _tick(self, _: None, nth: int) -> None:
        now = self._clock.now_s()
        self._wakes.discard(now)
        self._due.append(Ticked(at=now))

    # --- an attempt -------------------------------------------------------------------------------

    def _begin(self, attempt: _Attempt, nth: int) -> None:
        if attempt.turn != nth:
            return
        now = self._clock.now_s()
        attempt.began_at = now
        params = {**self._defaults, **attempt.order.params}
        seed = attempt.order.seed
        try:
            attempt.course, behind_s = self._taken_up(attempt, params)
        except Exception as error:
            attempt.course = iter(())
            self._fail(attempt, error)
            return
        if self._engine.failures:
            draws = stream(self._engine.seed, "failure", attempt.order.trial, attempt.order.attempt)
            if draws.random() < self._engine.failures:
                lasts_s = (self._length(params, seed) - behind_s) * attempt.worker.slowness
                self._cut(attempt, now + draws.random() * lasts_s, How.KILLED)
        self._cut(attempt, now + self._timeout_s, How.TIMED_OUT)
        self._go_on(attempt)

    def _taken_up(self, attempt: _Attempt, params: Params) -> tuple[Iterator[Any], float]:
        """Return what is left of an attempt's course from the state that it goes on from, and how long that took."""
        order = attempt.order
        for point in order.points:
            course, behind_s, last = iter(self._source(params, order.seed)), 0.0, dict[str, float]()
            epochs = 0
            for step in course:
                if epochs == point.epoch:
                    attempt.step, attempt.last = point.step, last
                    self._say_taken_up(order, point, last)
                    return Rest(step, course), behind_s
                seconds, metrics = read_step(step)
                behind_s += seconds
                last.update(metrics)
                epochs += self._metrics.watched in metrics
        if order.points:
            self._say_taken_up(order, None, {})
        return iter(self._source(params, order.seed)), 0.0

    def _say_taken_up(self, order: Assign, point: Checkpoint | None, last: dict[str, float]) -> None:
        key, step = (point.key, point.step) if point is not None else (None, 0)
        origin = Origin(key, step, last=dict(last), source=order.source)
        at = self._clock.now_s() + self._engine.report_s
        self._say(Resumed(at=at, trial=order.trial, attempt=order.attempt, origin=origin))

    def _length(self, params: Params, seed: int) -> float:
        """Return how many seconds a trial takes, up to where its curve raises."""
        lasts_s = 0.0
        try:
            for step in itertools.islice(self._source(params, seed), LONGEST):
                lasts_s += read_step(step)[0]
        except Exception:  # it will raise there again, when its time has come
            return lasts_s
        return lasts_s

    def _step(self, attempt: _Attempt, nth: int) -> None:
        """Report, see a stop or a pause, and go on to the next step."""
        if attempt.turn != nth:
            return
        metrics = attempt.metrics
        if metrics:
            now = self._clock.now_s()
            order = attempt.order
            attempt.last.update(metrics)
            if self._metrics.watched in metrics:
                attempt.step += 1
            self._say(
                Reported(
                    at=now + self._engine.report_s,
                    trial=order.trial,
                    attempt=order.attempt,
                    step=attempt.step,
                    metrics=metrics,
                )
            )
            if self._metrics.watched in metrics and attempt.step in self._saves:
                self._save(attempt)
            if attempt.halted_at <= now:
                self._end(attempt, How.STOPPED)
                return
            if attempt.held_at <= now:
                self._next_is(attempt, now + self._engine.checkpoint_s, self._paused)
                return
        self._go_on(attempt)

    def _save(self, attempt: _Attempt) -> None:
        """Save the state after an epoch: it takes no time, since real ones are written while training goes on."""
        order, at = attempt.order, self._clock.now_s() + self._engine.report_s
        attempt.saved = attempt.step
        checkpoint = Checkpoint(order.attempt, 0, attempt.step, attempt.step, ("", ""), (0, 0))
        self._say(Checkpointed(at=at, trial=order.trial, checkpoint=checkpoint))

    def _go_on(self, attempt: _Attempt) -> None:
        try:
            seconds, attempt.metrics = read_step(next(attempt.course))
        except StopIteration as over:
            self._finish(attempt, over.value)
        except Exception as error:
            self._fail(attempt, error)
        else:
            now = self._clock.now_s()
            at = now + seconds * attempt.worker.slowness
            attempt.stalled = attempt.stalled + 1 if at == now else 0
            if attempt.stalled == STALLED:
                self._fail(attempt, ResultError(TAKES_NO_TIME))
            elif at <= attempt.cut_at:
                self._next_is(attempt, at, self._step)
            else:
                self._next_is(attempt, attempt.cut_at, self._cut_off)

    def _cut(self, attempt: _Attempt, at: float, how: How) -> None:
        """Let an attempt end at ``at`` in any case, unless it does before."""
        if at < attempt.cut_at:
            attempt.cut_at, attempt.cut_how = at, how
            if at < attempt.next_at and attempt.course is not NOT_BEGUN:
                self._next_is(attempt, max(at, self._clock.now_s()), self._cut_off)

    def _cut_off(self, attempt: _Attempt, nth: int) -> None:
        if attempt.turn == nth:
            self._end(attempt, attempt.cut_how, reason=REASONS.get(attempt.cut_how, "").format(self._timeout_s))

    def _paused(self, attempt: _Attempt, nth: int) -> None:
        if attempt.turn == nth:
            self._end(attempt, How.PAUSED)

    def _finish(self, attempt: _Attempt, returned: Any) -> None:
        try:
            value, extra = read_result(returned, metrics=self._metrics.names, reported=attempt.last)
        except ResultError as error:
            self._fail(attempt, error)
        else:
            if self._saves_last and attempt.step > attempt.saved:
                self._save(attempt)
            self._end(attempt, How.FINISHED, value=value, extra=extra)

    def _fail(self, attempt: _Attempt, error: Exception) -> None:
        """End an attempt whose curve raised, as one whose training function did."""
        if isinstance(error, Invalid):
            self._end(attempt, How.INVALID, reason=str(error))
        elif isinstance(error, ResultError):
            self._end(attempt, How.UNUSABLE, reason=str(error), traceback=whole_traceback(error))
        else:
            how = How.OUT_OF_MEMORY if is_memory_error(error) else How.RAISED
            self._end(attempt, how, reason=one_line(error), traceback=whole_traceback(error), raised_in="train")

    def _end(self, attempt: _Attempt, how: How, **told: Any) -> None:
        now = self._clock.now_s()
        attempt.turn = -1
        attempt.worker.attempt = None
        order = attempt.order
        outcome = Outcome(how, usage=Usage(wall_s=now - attempt.began_at), **told)
        self._say(
            Ended(
                at=now + self._engine.report_s,
                worker=order.worker,
                trial=order.trial,
                attempt=order.attempt,
                outcome=outcome,
            )
        )

    # --- small change -----------------------------------------------------------------------------

    def _attempt(self, worker: str, trial: int, number: int) -> _Attempt | None:
        """Return an attempt if its worker still holds it."""
        found = self._workers.get(worker)
        attempt = found.attempt if found is not None else None
        if attempt is None or (attempt.order.trial, attempt.order.attempt) != (trial, number):
            return None
        return attempt

    def _say(self, event: AnyEvent) -> None:
        """Let the driver hear something when it has arrived."""
        if self._engine.report_s:
            self._push(event.at, self._arrive, event)
        else:
            self._due.append(event)

    def _arrive(self, event: AnyEvent, nth: int) -> None:
        self._due.append(event)

    def _next_is(self, attempt: _Attempt, at: float, act: Callable[[_Attempt, int], None]) -> None:
        """Let this be what an attempt does next; whatever else it was to do, it will not."""
        attempt.next_at = at
        attempt.turn = self._push(at, act, attempt)

    def _push(self, at: float, act: Callable[[Any, int], None], subject: Any) -> int:
        self._pushed = nth = self._pushed + 1  # of two things at the same moment, the one that was set first
        heapq.heappush(self._heap, (at, nth, act, subject))
        return nth


REASONS: Final[Mapping[How, str]] = {
    How.KILLED: "killed: a simulated failure",
    How.TIMED_OUT: "it took longer than timeout_s={:g}",
}

TAKES_NO_TIME: Final = (
    f"The curve yielded {count(STALLED, 'step')} in a row that take no time, and would never end. Yield seconds above "
    "0, or let it come to an end."
)

NOT_BEGUN: Final[Iterator[Any]] = iter(())


class Rest:
    """A course from a step on. What the course returns at its end, it returns as well."""

    def __init__(self, first: Any, course: Iterator[Any]) -> None:
        self._first = [first]
        self._course = course

    def __iter__(self) -> Rest:
        return self

    def __next__(self) -> Any:
        return self._first.pop() if self._first else next(self._course)


class _Worker:
    __slots__ = ("attempt", "joined", "name", "slowness")

    def __init__(self, nth: int, slowness: float) -> None:
        self.name = f"v{nth}"
        self.slowness = slowness
        self.joined = False
        self.attempt: _Attempt | None = None


class _Attempt:
    __slots__ = (
        "began_at", "course", "cut_at", "cut_how", "halted_at", "held_at", "last", "metrics", "next_at", "order",
        "saved", "stalled", "step", "turn", "worker",
    )  # fmt: skip

    def __init__(self, order: Assign, worker: _Worker) -> None:
        self.order = order
        self.worker = worker
        self.course: Iterator[Any] = NOT_BEGUN
        self.began_at = 0.0
        self.next_at = 0.0
        self.turn = 0  # number of what it does next; anything else in the heap is out of date
        self.step = 0
        self.saved = 0
        self.stalled = 0  # steps in a row that took no time
        self.metrics: dict[str, float] = {}
        self.last: dict[str, float] = {}
        self.halted_at = NEVER
        self.held_at = NEVER
        self.cut_at = NEVER
        self.cut_how = How.KILLED
