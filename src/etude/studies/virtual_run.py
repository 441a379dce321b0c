"""A driver at work in virtual time: one event after the other, and each of its commands carried out at once.

The driver, the plan, the sampler and the stopper are those of a real study. Whoever has a run says what becomes of its
facts: a simulated study writes them down, a forecast has no use for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from etude.core.clock import VirtualClock
from etude.core.driver import Driver
from etude.core.errors import StudyError
from etude.core.events import (
    AnyCommand,
    AnyEvent,
    AnyFact,
    Assign,
    Cancelled,
    Discard,
    End,
    Fail,
    Note,
    Pause,
    Release,
    Retire,
    Stop,
    WaitUntil,
    WindDown,
)
from etude.core.history import History
from etude.core.limits import Limits
from etude.engines.curves import CurveSource
from etude.engines.simulated import Simulated
from etude.engines.virtual import VirtualCrew
from etude.studies.desk import Desk, thinks, wanted_workers
from etude.tune.flat import boundaries
from etude.tune.question import Question
from etude.tune.sampler import recalls
from etude.tune.sampler_at_hand import SamplerAtHand


class VirtualRun:
    """One run of a study in virtual time.

    Args:
        question: What the study is to find out.
        limits: How patient the driver is.
        fail: Takes the reason why the study cannot go on.
        thought: Called after each proposal that took real time.

    Attributes:
        history: The study as it stands.
        clock: The virtual clock.
    """

    def __init__(
        self,
        question: Question,
        limits: Limits,
        *,
        fail: Callable[[BaseException], None],
        thought: Callable[[], None] = lambda: None,
    ) -> None:
        self.history = History(question.metrics)
        self.clock = VirtualClock()
        self._question = question
        self._fail = fail
        self._thought = thought
        self._driver = Driver(question.plan, self.history, limits, prefixes=question.prefixes)
        self._desk = Desk(question, self.clock)
        self._events: deque[AnyEvent] = deque()
        self._crew: VirtualCrew
        self._sampler: SamplerAtHand | None = None
        if thinks(question):
            assert question.sampler is not None
            assert question.set_up is not None
            self._sampler = SamplerAtHand(question.set_up, self.history, recalls=recalls(question.sampler))

    @property
    def over(self) -> bool:
        """Whether the driver has ended its work."""
        return self._driver.over

    @property
    def unwritten(self) -> int:
        """How many facts there are to take."""
        return len(self._desk.facts)

    def take_up(self, fact: AnyFact) -> None:
        """Take in a fact of an earlier run."""
        self.history.apply(fact)
        self.clock.move_to(max(self.clock.now_s(), fact.at))
        self._tell([fact])

    def hire(self, engine: Simulated, curves: CurveSource, *, workers: int, **rest: Any) -> None:
        """Say how the workers are; ``rest`` is further options of ``VirtualCrew``."""
        saves = boundaries(self._question.space) if self._question.space is not None else frozenset()
        self._crew = VirtualCrew(
            engine,
            curves,
            clock=self.clock,
            metrics=self._question.metrics,
            workers=workers,
            saves=saves,
            saves_last=bool(saves) or self._question.plan.resumes,
            wanted=lambda most: wanted_workers(self.history, trials=self._question.trials, workers=most),
            **rest,
        )

    def open(self, event: AnyEvent) -> None:
        """Let the driver take the study up, and the workers come."""
        self.take_in(event)
        self._crew.open()

    def go_on(self) -> None:
        """Let the next thing happen.

        Raises:
            StudyError: Nothing will.
        """
        event = self._crew.next()
        if event is None:
            raise StudyError(
                "Nothing will happen in virtual time any more, and the study has not come to an end. That is a mistake "
                "of Étude's; please report it with the call."
            )
        self.take_in(event)

    def take_in(self, event: AnyEvent) -> None:
        """Let the driver handle an event and what follows from it, and carry out at once what it wants."""
        desk, events = self._desk, self._events
        events.append(event)
        while events or desk.questions:
            if not events:
                self._ask()
            known = len(desk.facts)
            desk.sort(self._driver.handle(events.popleft()), answer=events.append)
            if self._sampler is not None:
                self._tell(desk.facts[known:])
            if desk.orders:
                orders, desk.orders = desk.orders, []
                for order in orders:
                    self._carry_out(order)

    def cancel(self, event: AnyEvent) -> None:
        """Let the driver wind down, whatever it has asked for."""
        self._desk.questions.clear()
        self._events.clear()
        self.take_in(event)

    def take_facts(self) -> list[AnyFact]:
        """Return what was not taken before, in order."""
        facts, self._desk.facts = self._desk.facts, []
        return facts

    def _carry_out(self, command: AnyCommand) -> None:
        match command:
            case Assign():
                self._crew.assign(command)
            case Stop(worker=worker, trial=trial, attempt=attempt):
                self._crew.stop(worker, trial, attempt)
            case Pause(worker=worker, trial=trial, attempt=attempt):
                self._crew.pause(worker, trial, attempt)
            case Release() | Discard() | Note():
                pass  # nobody keeps an outcome, nor the states of what was not trained
            case Retire(worker=worker):
                self._crew.retire(worker)
            case WaitUntil(at=at):
                self._crew.wake(at)
            case WindDown(reason=reason, limit=limit):
                self._desk.questions.clear()
                self._crew.tell_last(Cancelled(at=self.clock.now_s(), reason=reason, limit=limit))
            case End():
                pass  # the driver is over, and whoever lets this run go on sees that
            case Fail(error=error):
                self._fail(error)

    def _ask(self) -> None:
        """Ask for one proposal: the next is asked for when the driver knows what became of this one."""
        assert self._sampler is not None
        question = min(self._desk.questions)  # in order: one that is asked for again goes before those after it
        self._desk.questions.remove(question)
        params, upto = self._sampler.ask(*question)
        self._events.append(self._desk.suggested(*question, params, upto))
        self._thought()

    def _tell(self, facts: Iterable[AnyFact]) -> None:
        if self._sampler is not None:
            self._sampler.tell(facts)
