"""Prefixes: up to which epoch two trials are one and the same training.

What a parameter may be says so. One that changes at fixed epochs has a value of steps, ``((0, 0.1), (10, 0.01))``:
until the first step in which two trials differ they do the same. One that says how many epochs there are lets two
trials go together until the shorter one is over. All other parameters, the seed and the weights to begin with must be
equal. The epochs at which ways may part are *boundaries*; the state of a trial at one of them is what another trial
may go on from.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeGuard

from etude.core.events import Params, Start
from etude.core.history import identity

Steps = tuple[tuple[int, Any], ...]
"""What holds from which epoch on: (epoch, value), the first from epoch 0."""

DIGEST: Final = 16
"""Bytes of a key."""


def is_steps(value: object) -> TypeGuard[Steps]:
    """Say whether a value is one of steps."""
    return isinstance(value, tuple) and bool(value) and all(map(_is_step, value)) and value[0][0] == 0


def _is_step(step: object) -> bool:
    return isinstance(step, tuple) and len(step) == 2 and type(step[0]) is int  # noqa: PLR2004


def value_at(value: Any, epoch: int) -> Any:
    """Return what holds in an epoch of a parameter that changes at some epochs (``etude.piecewise``).

    Args:
        value: What the training function was given; a plain value holds in every epoch.
        epoch: The epoch, from 0.

    Example:
        >>> lr = ((0, 0.1), (10, 0.01))
        >>> value_at(lr, 9), value_at(lr, 10), value_at(0.1, 25)
        (0.1, 0.01, 0.1)
    """
    if not is_steps(value):
        return value
    return next(held for start, held in reversed(value) if start <= epoch or start == 0)


class Path(NamedTuple):
    """The boundaries of one trial.

    Attributes:
        epochs: How many it has; infinite if nothing says so.
        boundaries: The epochs after which others may go on from its state, each with a key that is equal for all
            trials which are the same until then.
        usable: Those of them after which it may go on from another trial, the last first.
        whole: A key that is equal for all trials which are the same to their end.
    """

    epochs: float
    boundaries: tuple[tuple[int, bytes], ...]
    usable: tuple[tuple[int, bytes], ...]
    whole: bytes


@dataclass(frozen=True)
class Prefixes:
    """How trials of a study may share their beginnings.

    Attributes:
        stepped: Parameters whose values are steps.
        budget: The parameter that says how many epochs a trial has, where such trials go on from each other.
        budgets: All values of it.
        to_come: Yields the configurations of trials from a number on, where it is known which will come; None if it
            is not.
        recur: Whether trials that are not known yet may begin like earlier ones at all: of a continuum, no value comes
            twice.
        seed: The training seed of those to come.
    """

    stepped: frozenset[str] = frozenset()
    budget: str | None = None
    budgets: tuple[int, ...] = ()
    to_come: Callable[[int], Iterable[Params]] | None = None
    recur: bool = True
    seed: int = 0

    def agree(self, one: Params, other: Params) -> float:
        """Return up to which epoch two configurations are the same training: 0 for not at all, infinite for wholly.

        Example:
            >>> prefixes = Prefixes(frozenset({"lr"}), budget="epochs", budgets=(10, 40))
            >>> one = {"lr": ((0, 0.1), (20, 0.01)), "epochs": 40}
            >>> prefixes.agree(one, {"lr": ((0, 0.1), (20, 0.05)), "epochs": 40})
            20
            >>> prefixes.agree(one, {**one, "epochs": 10})
            10
        """
        if identity(self._rest(one)) != identity(self._rest(other)):
            return 0
        parted = [_parted(one[name], other[name]) for name in self._stepped_of(one)]
        ends = {self._epochs(one), self._epochs(other)}
        return min([*parted, *(ends if len(ends) > 1 else ())], default=math.inf)

    def path(self, params: Params, seed: int, start: Start | None = None) -> Path:
        """Return the boundaries of a trial; it takes time in proportion to their number."""
        epochs = self._epochs(params)
        steps = [(begin, name, held) for name in self._stepped_of(params) for begin, held in _steps(params[name])]
        steps.sort(key=lambda step: step[:2])
        places = {begin for begin, _, _ in steps if 0 < begin <= epochs}
        if self.budget is not None:
            places |= {budget for budget in self.budgets if budget <= epochs}
        # A trial that is the same as one with more epochs has its last one to do: its function has to come to its end.
        lasts = {budget - 1 for budget in self.budgets if 1 < budget <= epochs} - places
        began = (identity(self._rest(params)), seed, start and (start.digest, start.shrink, start.perturb))
        key = hashlib.blake2b(repr(began).encode(), digest_size=DIGEST)
        boundaries, taken = [], 0
        for boundary in sorted(places | lasts):
            while taken < len(steps) and steps[taken][0] < boundary:
                key.update(_told(steps[taken]))
                taken += 1
            at = key.copy()
            at.update(b"%d" % boundary)
            boundaries.append((boundary, at.digest()))
        for step in steps[taken:]:
            if step[0] < epochs:
                key.update(_told(step))
        key.update(repr(epochs).encode())
        usable = [
            (at, its) for at, its in reversed(boundaries) if at < epochs and (at not in lasts or at == epochs - 1)
        ]
        return Path(epochs, tuple(boundaries), tuple(usable), key.digest())

    @property
    def names(self) -> frozenset[str]:
        """The parameters in which trials may differ that share a beginning."""
        return self.stepped | {self.budget} if self.budget is not None else self.stepped

    def _rest(self, params: Params) -> Params:
        """Return what has to be equal. What has no steps here, in another branch of a choice say, is part of it."""
        stepped = self._stepped_of(params)
        return {name: value for name, value in params.items() if name not in stepped and name != self.budget} | {
            name: tuple(begin for begin, _ in _steps(params[name])) for name in stepped
        }

    def _stepped_of(self, params: Mapping[str, Any]) -> list[str]:
        return sorted(name for name in self.stepped if is_steps(params.get(name)))

    def _epochs(self, params: Mapping[str, Any]) -> float:
        epochs = params.get(self.budget) if self.budget is not None else None
        return epochs if isinstance(epochs, int) else math.inf


def _steps(value: Any) -> Steps:
    assert is_steps(value)
    return value


def _parted(one: Any, other: Any) -> float:
    """Return from which epoch on two values with steps at the same epochs differ; infinite if they never do."""
    pairs = zip(_steps(one), _steps(other), strict=True)
    return next((mine[0] for mine, theirs in pairs if _told((0, "", mine[1])) != _told((0, "", theirs[1]))), math.inf)


def _told(step: tuple[int, str, Any]) -> bytes:
    """Return a step as text that is the same for equal steps alone: True is not 1, nor is 1.0."""
    begin, name, value = step
    return repr((begin, name)).encode() + bytes(identity({"": value}))  # type: ignore[call-overload,no-any-return]
