"""What the plan wants and is no trial yet: proposals that the sampler thinks about, and answers that came too early.

Which of two equal configurations is the first is no matter of timing: trials are made in the order in which the plan
wanted them, and an answer waits here for its predecessors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from etude.core.events import Params, Queued, Suggest, Suggested
from etude.core.history import History, first_key
from etude.core.pace import Pace
from etude.core.plan import Propose

MAX_REDRAWS: Final = 8
"""How often a configuration that is taken already, or ruled out, is drawn anew before it becomes a trial anyway."""


class Made(NamedTuple):
    """A proposal that has become a trial.

    Attributes:
        fact: The trial that is queued now.
        forbidden: Why it is not run all the same; None if it may.
    """

    fact: Queued
    forbidden: str | None = None


class Proposals:
    """What is asked for, and what was answered.

    Args:
        workers: How many trials run at once.
    """

    def __init__(self, workers: int) -> None:
        self._asked: dict[int, Propose] = {}
        self._early: dict[int, Suggested] = {}
        self._pace = Pace(workers)

    def __len__(self) -> int:
        """How many trials are on their way."""
        return len(self._asked)

    @property
    def pending(self) -> list[Propose]:
        """What the plan wants and has not got, in its order."""
        return list(self._asked.values())

    @property
    def in_hand(self) -> int:
        """How many there should be beyond what idle workers can take."""
        return self._pace.in_hand

    def want(self, wanted: Propose, k: int, *, at: float) -> Suggest | None:
        """Take in what is to become trial ``k``; return what the sampler is to be asked, if that is needed."""
        self._asked[k] = wanted
        return self._suggest(k, 0, at) if wanted.params is None else None

    def answer(self, event: Suggested) -> bool:
        """Take in what the sampler proposes; False if nobody waits for it."""
        if event.k not in self._asked:
            return False
        self._pace.answered(event.k, event.at, thought=event.upto is not None)
        self._early[event.k] = event
        return True

    def attempt_ended(self, at: float) -> None:
        """Take in that a worker became free: how many proposals are to be in hand hangs on how often that happens."""
        self._pace.ended(at)

    def next(
        self, history: History, *, at: float, alike: Callable[[Params, int], int | None] | None = None
    ) -> Made | Suggest | None:
        """Return the next trial, if its proposal is there.

        Args:
            history: The study so far.
            at: When it is.
            alike: Returns the first trial that is the same as one with this configuration and seed, though its
                configuration may be written otherwise; None if there is none.

        Returns:
            The trial; or what the sampler is to be asked once more, because that configuration is taken already or
            ruled out; None if the next trial is not known yet.
        """
        k = len(history.trials)
        wanted = self._asked.get(k)
        if wanted is None:
            return None
        if wanted.params is not None:
            given = {**wanted.params, **wanted.fixed}
            del self._asked[k]
            return Made(
                Queued(
                    at=at,
                    trial=k,
                    params=given,
                    seed=wanted.seed,
                    promotes=wanted.promotes,
                    because=wanted.because,
                    start=wanted.start,
                    probe=wanted.probe,
                    arm=wanted.arm,
                    tunes=wanted.tunes,
                )
            )
        answer = self._early.pop(k, None)
        if answer is None:
            return None
        params = {**answer.params, **wanted.fixed}
        first = history.first_with.get(first_key(params, wanted.arm))
        if first is None and alike is not None:
            first = alike(params, wanted.seed)
        if (first is not None or answer.forbidden is not None) and answer.redraw < MAX_REDRAWS:
            return self._suggest(k, answer.redraw + 1, at)
        del self._asked[k]
        fact = Queued(
            at=at,
            trial=k,
            params=params,
            seed=wanted.seed,
            upto=answer.upto,
            redraw=answer.redraw,
            same_as=first,
            arm=wanted.arm,
            tunes=wanted.tunes,
        )
        return Made(fact, answer.forbidden if first is None else None)

    def check(self, history: History) -> None:
        """Assert that nothing is waited for that has come."""
        taken = len(history.trials)
        assert all(k >= taken for k in self._asked), "a proposal that was answered is not waited for"

    def _suggest(self, k: int, redraw: int, at: float) -> Suggest:
        self._pace.asked(k, at)
        return Suggest(k, redraw)
