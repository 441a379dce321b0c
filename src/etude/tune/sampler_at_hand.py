"""A sampler that thinks where it stands: for a simulation, whose time does not go by meanwhile."""

from __future__ import annotations

import traceback
from collections.abc import Iterable

from etude.core.errors import StudyError
from etude.core.events import AnyFact, Params
from etude.core.history import History
from etude.tune.sampler import Request, Sampler, checked, plainly, request_of, tell
from etude.tune.sampling import Ask, SetUp
from etude.tune.spaces import Space
from etude.tune.story import Story


class SamplerAtHand:
    """The same sampler as in a process of its own, told and asked the same in the same order.

    Args:
        set_up: How to make it.
        history: The study, as the facts make it.
        recalls: Whether its state hangs on its own proposals.
    """

    def __init__(self, set_up: SetUp, history: History, *, recalls: bool) -> None:
        self._set_up = set_up
        self._story = Story(history, recalls=recalls)
        self._sampler: Sampler | None = None
        self._space = Space.from_dict(set_up.space)
        self._upto = 0

    def tell(self, facts: Iterable[AnyFact]) -> None:
        """Tell it what facts, which the history knows already, mean for trials."""
        for fact in facts:
            self._story.add(fact)
        if self._sampler is not None:
            self._go_on(self._sampler)

    def ask(self, k: int, redraw: int) -> tuple[Params, int]:
        """Return a proposal, and the number of the last fact that was known when this trial was first asked for.

        Raises:
            ConfigError: What it returned is no configuration.
            StudyError: It failed.
        """
        try:
            if self._sampler is None:
                sampler = self._set_up.make()
                self._go_on(sampler)
                self._sampler = sampler
            request = self._request(self._sampler, k, redraw)
            if not redraw:
                self._upto = self._story.seq
            made = self._sampler.suggest(plainly(request))
        except Exception as error:
            raise StudyError(f"The sampler failed on proposal {k}:\n{traceback.format_exc()}") from error
        return checked(made, self._sampler, request), self._upto

    def _go_on(self, sampler: Sampler) -> None:
        for message in self._story.tell():
            if isinstance(message, Ask):
                sampler.suggest(plainly(self._request(sampler, message.k, message.redraw)))
            else:
                tell(sampler, message.told, self._space)

    def _request(self, sampler: Sampler, k: int, redraw: int) -> Request:
        of = self._set_up
        return request_of(sampler, k, redraw, self._space, seed=of.seed, metrics=of.metrics)
