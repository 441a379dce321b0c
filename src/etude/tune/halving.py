"""Successive halving on reports: at each rung the best go on, and the others stop.

A rung is a number of reports: ``min_steps``, then ``eta`` times as many, and so on. A trial that comes to a rung is
compared with all that came to it before, however those ended; nobody waits for anybody. With a fidelity the same
classes say how trials are promoted instead; that is a plan (``tune/promotion.py``).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from etude.core.errors import ConfigError
from etude.core.history import Trial
from etude.core.lifecycle import FINAL
from etude.core.metrics import check_watched
from etude.core.numbers import whole
from etude.core.plan import GO_ON, Act, Decision, Report, Standing
from etude.tune.ranks import Ranks

ETA: Final = 3
"""One in so many goes on, where nothing else is said."""

NOTHING: Final = array("d")

PROMOTE: Final = ("resume", "anew")
"""How trials can be carried on with a larger budget: from what they kept, or from scratch."""


@final
@dataclass
class ASHA:
    """Let one trial in ``eta`` go on at each rung, without waiting for the others.

    At a rung a trial goes on if it is among the best 1/eta of all that have come to that rung, itself included; the
    best one always does. NaN is worse than any number.

    Args:
        min_steps: After how many reports the first rung is; with a fidelity ``budget=`` says that.
        eta: One in so many goes on, and the next rung is so many times as far.
        metric: Which metric it watches, where there are several.
        promote: How a trial is promoted, where there is a fidelity. ``"resume"``: it goes on from what the trial before
            it kept (``run.keep``), if it kept anything; the default. ``"anew"``: it starts from scratch. Either says
            that it has to work by promotion, which takes a fidelity.

    Source:
        Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", arXiv:1810.05934. The form that stops
        is the one of its appendix and of ``optuna.pruners.SuccessiveHalvingPruner``.
    """

    min_steps: int = 1
    eta: int = ETA
    metric: str | None = None
    promote: str | None = None

    def __post_init__(self) -> None:
        check_options(self.min_steps, self.eta, self.promote, name="ASHA")
        check_watched(self.metric)
        self._bracket = Bracket(self.min_steps, self.eta)

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Return that the trial stops if it is on a rung and not among the best there."""
        return self._bracket.decide(report, standing)


@final
@dataclass
class Hyperband:
    """Spread the trials over brackets of ASHA, the first rung of each ``eta`` times as far as that of the one before.

    Where early reports say little about late ones, the later brackets save what ASHA would stop. A trial's bracket
    hangs on its number alone; the shares are those of the paper.

    Args:
        min_steps: After how many reports the first rung of the first bracket is; with a fidelity ``budget=`` says
            that.
        eta: One in so many goes on, and the next rung is so many times as far.
        brackets: How many there are; with a fidelity its budgets say that.
        metric: Which metric it watches, where there are several.
        promote: As with ``ASHA``.

    Source:
        Li et al. 2018, "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization", arXiv:1603.06560.
        Our departure where it works on reports: within a bracket nobody waits, as in ASHA.
    """

    min_steps: int = 1
    eta: int = ETA
    brackets: int = 3
    metric: str | None = None
    promote: str | None = None

    def __post_init__(self) -> None:
        check_options(self.min_steps, self.eta, self.promote, name="Hyperband")
        check_watched(self.metric)
        whole("brackets", self.brackets, 1, "there would be none to put trials into")
        sizes = shares(self.brackets, self.eta)
        self._turns = in_turns(sizes)
        self._of = [
            Bracket(self.min_steps * self.eta**nth, self.eta, name=f" of bracket {nth + 1}", holds=self._holds(nth))
            for nth in range(self.brackets)
        ]

    def bracket(self, trial: int) -> int:
        """Return the bracket of a trial, from 0: the first one stops earliest.

        Args:
            trial: The trial's number.
        """
        return self._turns[trial % len(self._turns)]

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Return that the trial stops if it is on a rung of its bracket and not among the best there."""
        return self._of[self.bracket(report.trial)].decide(report, standing)

    def _holds(self, nth: int) -> Callable[[int], bool]:
        return lambda trial: self.bracket(trial) == nth


class Bracket:
    """Successive halving that does not wait, over all trials or some of them.

    Args:
        first: How many reports it takes to the first rung.
        eta: One in so many goes on, and the next rung is so many times as far.
        name: What is said of a rung to tell it from those of others.
        holds: Whether a trial, by its number, belongs here.
    """

    def __init__(
        self, first: int, eta: int, *, name: str = "", holds: Callable[[int], bool] = lambda trial: True
    ) -> None:
        self._first = first
        self._eta = eta
        self._name = name
        self._holds = holds
        self._seen = 0
        self._rungs: list[tuple[int, Ranks]] = []
        """Step of each rung that somebody has come to, and the losses there."""
        self._known: dict[int, tuple[int, array[float]]] = {}
        """Trial that has not ended -> its attempt, and what of it stands in the rungs."""
        self._done = bytearray()
        """For each trial, whether it has ended and all of it stands there."""

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Return that the trial stops if it is on a rung and not among the best there."""
        if not self._is_rung(report.step):
            return GO_ON
        for number in standing.moved[self._seen :]:
            self._look_at(standing.trials[number], standing)
        self._seen = len(standing.moved)
        self._look_at(standing.trials[report.trial], standing)
        losses = next(losses for step, losses in self._rungs if step == report.step)
        rank, there = 1 + losses.below(standing.metrics.loss(report.value)), len(losses)
        best = max(1, there // self._eta)
        if rank <= best:
            return GO_ON
        goes = "goes" if best == 1 else f"{best} go"
        reason = f"{ordinal(rank)} of {there} at rung {report.step}{self._name}, of which the best {goes} on"
        return Decision(Act.STOP, reason)

    def _is_rung(self, step: int) -> bool:
        rung = self._first
        while rung < step:
            rung *= self._eta
        return rung == step

    def _look_at(self, trial: Trial, standing: Standing) -> None:
        """Let the rungs hold what this trial has reported there, and nothing of an earlier attempt."""
        if len(self._done) <= trial.number:
            self._done.extend(bytes(trial.number + 1))
        if self._done[trial.number] or not self._holds(trial.number):
            return
        attempt, known = self._known.get(trial.number, (trial.attempt, NOTHING))
        if attempt != trial.attempt:  # it started over, and with that withdrew its reports
            for (_, losses), loss in zip(self._rungs, known, strict=False):
                losses.remove(loss)
            known = NOTHING
        curve = trial.curve
        while (step := self._first * self._eta ** len(known)) <= len(curve):
            loss = standing.metrics.loss(curve[step - 1])
            if len(self._rungs) == len(known):
                self._rungs.append((step, Ranks()))
            self._rungs[len(known)][1].add(loss)
            known = known + array("d", [loss])
        self._done[trial.number] = trial.state in FINAL
        if known and trial.state not in FINAL:
            self._known[trial.number] = trial.attempt, known
        else:
            self._known.pop(trial.number, None)


def shares(brackets: int, eta: int) -> list[int]:
    """Return how many configurations begin in each bracket of one full set, the one that halves most first.

    Example:
        >>> shares(4, 3)
        [27, 12, 6, 4]
    """
    return [math.ceil(brackets * eta**s / (s + 1)) for s in reversed(range(brackets))]


def in_turns(sizes: list[int]) -> list[int]:
    """Return one full set of turns, in which each comes as often as its size says and as evenly as can be.

    Example:
        >>> in_turns([3, 1])
        [0, 0, 1, 0]
    """
    given = [0] * len(sizes)
    turns = []
    for nth in range(1, sum(sizes) + 1):
        behind = [size * nth / sum(sizes) - had for size, had in zip(sizes, given, strict=True)]
        turns.append(behind.index(max(behind)))
        given[turns[-1]] += 1
    return turns


def check_options(min_steps: int, eta: int, promote: str | None, *, name: str) -> None:
    """Refuse options that no form of halving can have."""
    whole("min_steps", min_steps, 1, "no trial has reported by then")
    whole("eta", eta, 2, "everybody would go on")
    if promote is not None and promote not in PROMOTE:
        raise ConfigError(f"{name}(promote={promote!r}) is not known. Pass 'resume' or 'anew', or leave it out.")


def ordinal(n: int) -> str:
    """Return ``1st``, ``2nd``, ``11th``, ...

    Example:
        >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 112)]
        ['1st', '2nd', '3rd', '4th', '11th', '12th', '13th', '21st', '112th']
    """
    teens = 10 < n % 100 < 20  # noqa: PLR2004
    return f"{n}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"
