"""What every shell of a driver does in the same way, whether its workers are real or simulated.

It sorts the driver's commands, makes the proposals that need no thinking, and asks the constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from etude.core.clock import Clock
from etude.core.events import AnyCommand, AnyFact, Params, Persist, Suggest, Suggested
from etude.core.history import History
from etude.tune.question import Question
from etude.tune.sampler import checked, needs_process, plainly, request_of


@dataclass
class Desk:
    """The driver's commands, sorted.

    Attributes:
        question: What the study is to find out.
        clock: The driver's clock.
        facts: What is to be written down, in order.
        orders: For workers, and for the shell itself.
        questions: For a sampler that thinks: the number of the proposal, and which redraw.
    """

    question: Question
    clock: Clock
    facts: list[AnyFact] = field(default_factory=list)
    orders: list[AnyCommand] = field(default_factory=list)
    questions: list[tuple[int, int]] = field(default_factory=list)

    def sort(self, commands: Iterable[AnyCommand], *, answer: Callable[[Suggested], None]) -> None:
        """Take in what the driver said; proposals that need no history are answered at once."""
        for command in commands:
            if type(command) is Persist:
                self.facts.append(command.fact)
            elif type(command) is not Suggest:
                self.orders.append(command)
            elif self._needs_history(command.k):
                self.questions.append((command.k, command.redraw))
            else:  # pure, so it needs nothing on disk, and nobody waits for it
                answer(self._propose(command.k, command.redraw))

    def suggested(self, k: int, redraw: int, params: Params, upto: int | None) -> Suggested:
        """Return the event that a proposal was made, and whether the constraint rules it out."""
        try:
            forbidden = self.question.forbids(params)
        except Exception as error:
            forbidden = f"constraint raised {type(error).__name__}: {error}"
        return Suggested(at=self.clock.now_s(), k=k, params=params, redraw=redraw, upto=upto, forbidden=forbidden)

    def _needs_history(self, k: int) -> bool:
        return self.question.sampler is not None and needs_process(self.question.sampler, k)

    def _propose(self, k: int, redraw: int) -> Suggested:
        sampler, space = self.question.sampler, self.question.space
        assert sampler is not None
        assert space is not None
        n = len(self.question.metrics.names)
        request = request_of(sampler, k, redraw, space, seed=self.question.seed, metrics=n)
        return self.suggested(k, redraw, checked(sampler.suggest(plainly(request)), sampler, request), upto=None)


def thinks(question: Question) -> bool:
    """Say whether a sampler has to be told what happens, since one of its proposals at least hangs on that."""
    sampler = question.sampler
    if sampler is None or question.set_up is None:
        return False
    return any(needs_process(sampler, k) for k in range(question.trials))


def wanted_workers(history: History, *, trials: int, workers: int) -> int:
    """Return how many workers there should be: no more than there are trials left to run."""
    left = history.unsettled + trials - len(history.trials)
    return max(1, min(workers, left))
