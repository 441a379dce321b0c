"""A question is asked: within the budget, once if that is enough, and never if the answer is known already."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from etude.core.clock import Clock
from etude.core.errors import BackendError
from etude.mage.asking.budget import Budget, Spending, Spent
from etude.mage.asking.retrying import next_wait
from etude.mage.backends.caching import ReplyCache, digest_of_question
from etude.mage.backends.protocol import Backend, Message, Reply, Request, Usage

SMALL: Final = Request(
    system="",
    messages=(Message(role="user", text="This only tests whether you can be reached. Answer with the word ready."),),
    most_tokens=64,
)
"""The smallest question that shows that key, model and address are right."""


@runtime_checkable
class ByVariant(Protocol):
    """A backend that has to know for which variant it is asked, and which answer to the same words is wanted."""

    def for_variant(self, variant: str, nth: int = 0) -> Backend:
        """Return it as it answers for a variant."""
        ...


@dataclass(frozen=True)
class Answered:
    """An answer, and how it came about.

    Attributes:
        reply: The answer.
        from_cache: Whether it was known already, and cost nothing.
        attempts: How often it was asked; 0 if it was known.
        waited_s: How long it waited between them: this is no working time.
        spending: What it took, all attempts together.
        digest: That of the question.
    """

    reply: Reply
    from_cache: bool = False
    attempts: int = 0
    waited_s: float = 0.0
    spending: Spending = field(default_factory=Spending)
    digest: str = ""


class Asker:
    """Asks a backend, and keeps account of what that takes.

    Args:
        backend: Who is asked.
        budget: What may be spent.
        cache: Where answers are kept.
        clock: Tells how long a call took.
        sleep: Waits for some seconds.
        draw: Gives a number from 0 up to 1, for waits.
        say: Tells a person that there is a wait, and why.
        spent: What the study has spent before.
    """

    def __init__(
        self,
        backend: Backend,
        budget: Budget,
        *,
        cache: ReplyCache,
        clock: Clock,
        sleep: Callable[[float], None],
        draw: Callable[[], float],
        say: Callable[[str], None],
        spent: Spent = Spent(),  # noqa: B008 - it is frozen
    ) -> None:
        self.backend = backend
        self.budget = budget
        self.spent = spent
        self._cache = cache
        self._clock = clock
        self._sleep = sleep
        self._draw = draw
        self._say = say
        self._last = Spending()

    def ask(self, request: Request, *, variant: str = "", nth: int = 0) -> Answered:
        """Return the answer to a question.

        An answer that is known costs nothing, so it is given even when the budget is spent.

        Args:
            request: The question.
            variant: For which variant; empty for none.
            nth: Which of several answers to the very same question is wanted: a draft that begins anew asks for
                number 1, and would get the first one back otherwise.

        Raises:
            BudgetSpent: It could take more than is left; it was not asked, or not asked again.
            BackendError: There is no answer; another attempt would not help, or has not.
        """
        digest = digest_of_question(self.backend, request, variant=variant, nth=nth)
        known = self._cache.get(digest)
        if known is not None:
            return Answered(known, from_cache=True, digest=digest)
        attempt, waited_s, spending = 0, 0.0, Spending()
        while True:
            attempt += 1
            try:
                reply, took = self._attempt(request, variant, nth)
            except BackendError as error:
                wait_s = next_wait(error, attempt, waited_s=waited_s, draw=self._draw)
                if wait_s is None:
                    raise
                self._say(f"{error} Asking again in {wait_s:.1f} s (attempt {attempt + 1}).")
                self._sleep(wait_s)
                waited_s += wait_s
                spending += self._last
                continue
            self._cache.put(digest, reply)
            return Answered(reply, attempts=attempt, waited_s=waited_s, spending=spending + took, digest=digest)

    def _attempt(self, request: Request, variant: str, nth: int) -> tuple[Reply, Spending]:
        reserved = self.budget.reserve(request, spent=self.spent, backend=self.backend.name, variant=variant)
        backend = self._backend_for(variant, nth)
        began_s, usage = self._clock.now_s(), None  # until it is answered, all that was reserved may have been taken
        try:
            reply = backend.ask(request)
            usage = reply.usage
        except BackendError as error:
            if was_for_nothing(error):
                usage = Usage(input=0, output=0)
            raise
        finally:  # whoever interrupts it has asked, too
            wall_s = self._clock.now_s() - began_s
            self._last = self.budget.settle(reserved, usage, backend=self.backend.name, wall_s=wall_s)
            self.spent = self.spent.plus(variant, self._last)
        return reply, self._last

    def _backend_for(self, variant: str, nth: int) -> Backend:
        """Return the backend as it is asked for a variant, with no more time than is left."""
        backend = self.backend
        if isinstance(backend, ByVariant):
            backend = backend.for_variant(variant, nth)
        left_s = self.budget.left_s(spent=self.spent, variant=variant)
        limit_s = getattr(backend, "timeout_s", None)
        if left_s is not None and limit_s is not None and left_s < limit_s:
            backend = copy.copy(backend)
            backend.timeout_s = left_s  # type: ignore[attr-defined]
        return backend


def was_for_nothing(error: BackendError) -> bool:
    """Say whether a call that failed cost no tokens, for certain: the service itself turned it down."""
    if error.code in ("refused host", "not installed", "key"):
        return True
    return error.status is not None and error.status >= 400  # noqa: PLR2004 - HTTP's own border
