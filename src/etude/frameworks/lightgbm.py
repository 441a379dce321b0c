"""LightGBM: reported, saved and resumed by a callback, under ``lightgbm.train`` and its estimators.

LightGBM goes on from another booster (``init_model``), and counts its rounds on from there. What it cannot be told is
how its other callbacks stood: those get a shell of ours, which tells them of the earlier rounds first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import lightgbm

from etude.core.errors import ConfigError
from etude.core.numbers import whole
from etude.frameworks import boosting

if TYPE_CHECKING:
    from etude.frameworks.callbacks import Turns

ORDER: Final = 25
"""Callbacks are called by this number: after those that record (20), and before an early stopping ends it all (30)."""

BEGAN: Final = "began"
"""Under this name is kept how many rounds the booster had that the user began with."""


def callback(turns: Turns) -> Any:
    """Return the callback."""
    return Callback(turns)


class Callback:
    """Goes through a run's epochs, one for each round.

    Attributes:
        order: When it is called, among the callbacks.
        before_iteration: Whether that is before a round.
    """

    def __init__(self, turns: Turns) -> None:
        self.order = ORDER
        self.before_iteration = False
        self._turns = turns
        self._boosted: boosting.Boosted | None = None
        self._left = 0
        self._began = False
        self._beside: list[Beside] = []

    def rounds(self, n: int) -> int:
        """Return how many rounds are left of ``n``, after what is kept was brought back.

        For ``lightgbm.train(params, rows, callback.rounds(200), ...)`` and ``LGBMClassifier(callback.rounds(200))``.

        Raises:
            ConfigError: It is no whole number, or a training of this run was asked for before.
        """
        n = whole("n", n, 1, "a training has a round at least")
        if self._boosted is not None:
            boosting.refuse_another("lightgbm", "booster")
        self._boosted = boosting.keep(self._turns, "lightgbm", "booster")
        self._turns.begin(n)
        self._turns.again()
        self._left = n - self._boosted.done
        return self._left

    def init_model(self) -> Any:
        """Return the booster to go on from; None in a first attempt. For ``init_model=``.

        Raises:
            ConfigError: ``rounds`` was not called before.
        """
        boosted = self._asked()
        return lightgbm.Booster(model_str=boosted.model.decode()) if boosted.model else None

    def beside(self, other: Callable[[Any], Any]) -> Any:
        """Return another callback, such as ``lightgbm.early_stopping(10)``, that is told of earlier rounds first."""
        beside = Beside(self, other)
        self._beside.append(beside)
        return beside

    def __call__(self, env: Any) -> None:
        """Report a round, and save."""
        boosted = self._asked()
        if not self._began:
            self._begin(env)
        self.catch_up(env)
        boosted.write = lambda: env.model.model_to_string(num_iteration=-1).encode()
        rows = [list(row[:4]) for row in env.evaluation_result_list or []]
        boosted.log.append([[which, metric, float(value), bool(more)] for which, metric, value, more in rows])
        measured = [(which, metric, float(value)) for which, metric, value, _ in rows]
        if not boosting.end(self._turns, boosted, measured) and env.iteration + 1 < env.end_iteration:
            raise lightgbm.callback.EarlyStopException(-1, env.evaluation_result_list or [])

    def catch_up(self, env: Any) -> None:
        """Tell callbacks of the earlier rounds, before any of them hears of a later one: there may be none."""
        for beside in self._beside:
            if not beside.before_iteration:
                beside.catch_up(env)

    def _asked(self) -> boosting.Boosted:
        if self._boosted is None:
            raise ConfigError(
                "etude.callback('lightgbm', run) was not asked how many rounds are left, so an attempt that is lost "
                "would start over. Train with lightgbm.train(params, rows, callback.rounds(n), "
                "init_model=callback.init_model(), callbacks=[callback]), and an estimator with "
                "n_estimators=callback.rounds(n) and fit(..., init_model=callback.init_model(), callbacks=[callback])."
            )
        return self._boosted

    def _begin(self, env: Any) -> None:
        """See to it that the trainer goes on as it was told to.

        Raises:
            ConfigError: It does not.
        """
        boosted = self._asked()
        if not isinstance(env.model, lightgbm.Booster):
            raise ConfigError(
                "etude.callback('lightgbm', run) was given to lightgbm.cv, which trains a booster for each fold, and a "
                "run keeps one. Train with lightgbm.train, or report what lightgbm.cv returns: run.report(...)."
            )
        rounds = env.end_iteration - env.begin_iteration
        if rounds != self._left:
            raise ConfigError(
                f"LightGBM trains {rounds} rounds, and callback.rounds(...) returned {self._left}. Pass what it "
                "returned as num_boost_round, or as n_estimators of an estimator, and leave num_iterations out of the "
                "parameters."
            )
        began = boosted.more.setdefault(BEGAN, env.begin_iteration)
        if env.begin_iteration != began + boosted.done:
            raise ConfigError(
                f"LightGBM goes on after {env.begin_iteration} rounds, and the attempt before had trained "
                f"{began + boosted.done}. Pass init_model=callback.init_model() to lightgbm.train, or to fit of an "
                "estimator."
            )
        self._began = True

    def earlier(self, env: Any) -> list[Any]:
        """Return what callbacks were called with after earlier rounds."""
        boosted = self._asked()
        began = boosted.more.get(BEGAN, env.begin_iteration)
        return [_as_of(env, began, began + n, _rows(row)) for n, row in enumerate(boosted.log)]

    def since_the_beginning(self, env: Any) -> Any:
        """Return what a callback is called with, as if the training had begun with the first attempt."""
        began = self._asked().more.get(BEGAN, env.begin_iteration)
        return _as_of(env, began, env.iteration, env.evaluation_result_list)


class Beside:
    """Another callback, told of what an attempt before this one has seen.

    Attributes:
        order: When it is called, as the other one would be.
        before_iteration: Whether that is before a round.
    """

    def __init__(self, ours: Callback, other: Callable[[Any], Any]) -> None:
        self._ours, self._other = ours, other
        self._is_told = False
        self.before_iteration = bool(getattr(other, "before_iteration", False))
        if hasattr(other, "order"):  # else LightGBM orders by the place in the list
            self.order = other.order

    def catch_up(self, env: Any) -> None:
        """Tell it of the earlier rounds, once."""
        if self._is_told:
            return
        self._is_told = True
        for earlier in self._ours.earlier(env):
            try:
                self._other(earlier)
            except lightgbm.callback.EarlyStopException:  # the attempt before was over, and could not say so
                env.model.rollback_one_iter()
                raise

    def __call__(self, env: Any) -> None:
        """Call it."""
        if not self.before_iteration:
            self._ours.catch_up(env)
        self._other(self._ours.since_the_beginning(env))


def _as_of(env: Any, began: int, iteration: int, measured: Any) -> Any:
    return type(env)(
        model=env.model,
        params=env.params,
        iteration=iteration,
        begin_iteration=began,
        end_iteration=env.end_iteration,
        evaluation_result_list=measured,
    )


def _rows(log: Any) -> list[Any]:
    """Return what was measured after a round, as LightGBM has it."""
    row_of = getattr(lightgbm, "EvalResult", None)  # there are such since 4.7
    return [row_of(*row) if row_of is not None else tuple(row) for row in log]
