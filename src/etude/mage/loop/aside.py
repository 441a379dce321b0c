"""Questions beside the variants (whether somebody answers, what is to be planned, what was found): asked as any other.

They are asked again where that may help, count as all others do, and stand in the journal: what is known is free.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

from etude.core.errors import ConfigError, EtudeError
from etude.mage.asking import prompts
from etude.mage.asking.asker import SMALL, Asker
from etude.mage.asking.preview import refuse_too_large
from etude.mage.backends.caching import digest_of_question
from etude.mage.backends.naming import capability_for
from etude.mage.backends.protocol import Backend, Message, Reply, Request, StopReason
from etude.mage.facts import Facts
from etude.mage.loop.book import Answers, Book, Did, Record, Setup
from etude.mage.plan.replying import schema
from etude.mage.tree import Tree

T = TypeVar("T")


class Aside:
    """Asks somebody what is about no variant.

    Args:
        book: Where it is written.
        asks: Asks, and keeps its answers in that book.
        answers: Where it keeps them.
    """

    def __init__(self, book: Book, asks: Asker, answers: Answers) -> None:
        self.backend = asks.backend
        self._book = book
        self._asks = asks
        self._answers = answers

    def ask(self, request: Request, *, nth: int = 0) -> Reply:
        """Return the answer to a question; what it took is written down, whether or not there is one.

        Raises:
            BackendError: There is none.
            BudgetSpent: It could take more than is left.
        """
        if (known := known_reply(self._book.record, self.backend, request, nth=nth)) is not None:
            return known
        self._book.write(Did.ASKED, request=request, backend=self.backend.name)
        self._answers.variant = ""
        try:
            return self._asks.ask(request, nth=nth).reply
        finally:
            self._book.write(Did.SPENT, spent=self._asks.spent)

    def see_whether_it_answers(self) -> None:
        """Ask the smallest question, once in a study: before anything long is begun, and a failure is cheap.

        Raises:
            BackendError: There is no answer, so there would be none to what is wanted either.
        """
        self.ask(SMALL)

    def ask_for_text(self, text: str, *, most_tokens: int) -> str:
        """Return the answer to a plain question."""
        words = (Message(role="user", text=text),)
        return self.ask(Request(system="", messages=words, most_tokens=most_tokens)).text

    def ask_for_plan(self, request: Request, read: Callable[[str], T], *, sent: Sequence[str]) -> T:
        """Return what was read of an answer to the question for a plan: of one that is known, or of a new one.

        Args:
            request: The question.
            read: Makes of it what is wanted, or raises.
            sent: The files whose contents go.

        Raises:
            ConfigError: The question is too large, or the new answer is no plan that can be taken.
        """
        if (known := known_plan(self._book.record, self.backend, request, read)) is not None:
            return known
        context = capability_for(self.backend).context
        refuse_too_large({"the plan": request}, context=context, backend=self.backend.name, sent=sent)
        nth = len(_known(self._book.record, self.backend, request))
        reply = self.ask(request, nth=nth)
        if reply.stop is StopReason.CUT_OFF:
            raise ConfigError(
                f"The plan that came back from {self.backend.name} was cut off at {request.most_tokens:,} tokens, so "
                "nothing was planned. Give fewer or shorter hints and documents, and ask again."
            )
        if reply.stop is StopReason.REFUSED:
            raise ConfigError(f"{self.backend.name} refused to plan. Nothing was planned. Name another --planner.")
        return read(reply.text)


def plan_question(tree: Tree, sent: Sequence[str], setup: Setup, *, base: Facts | None, backend: Backend) -> Request:
    """Return the question for a plan of a project.

    Args:
        tree: Its files.
        sent: Those whose contents go.
        setup: How its study is prepared.
        base: What the untouched program did.
        backend: Who would be asked.
    """
    shared = prompts.shared_of(tree, sent, tag=setup.tag, entry=setup.entry, docs=setup.docs, base=base)
    most = capability_for(backend).answer
    return prompts.plan_request(shared, schema=schema(), columns=setup.columns, most_tokens=most)


def known_reply(record: Record, backend: Backend, request: Request, *, nth: int = 0) -> Reply | None:
    """Return the answer to a question about no variant that is in a journal; None if there is none."""
    return record.replies.get(digest_of_question(backend, request, nth=nth))


def known_plan(record: Record, backend: Backend, request: Request, read: Callable[[str], T]) -> T | None:
    """Return what is read of the first known answer that can be read; None if there is none."""
    for reply in _known(record, backend, request):
        try:
            return read(reply.text)
        except EtudeError:
            continue
    return None


def _known(record: Record, backend: Backend, request: Request) -> list[Reply]:
    every = (known_reply(record, backend, request, nth=nth) for nth in itertools.count())
    return list(itertools.takewhile(lambda one: one is not None, every))  # type: ignore[arg-type]
