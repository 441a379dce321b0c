"""XGBoost: reported, saved and resumed by a callback, under ``xgboost.train`` and its estimators.

Whoever goes on begins at round 0, as XGBoost does, and is given the booster of the attempt before. For the rounds that
it has had already nothing is trained, and what was measured then is given out as if it had been measured now. So all
other callbacks, and what XGBoost hands back of its evaluations, come to what they would have come to.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any, Final

import xgboost

from etude.core.errors import ConfigError
from etude.frameworks import boosting

if TYPE_CHECKING:
    from etude.frameworks.callbacks import Turns

FORMAT: Final = "ubj"
"""How a booster is written: all of it, to the last bit."""

REPLACED: Final = ("update", "eval_set")
"""Methods of a booster that are others while it is trained."""


def callback(turns: Turns) -> Any:
    """Return the callback."""
    return Callback(turns)


class Callback(xgboost.callback.TrainingCallback):
    """Goes through a run's epochs, one for each round."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns
        self._boosted: boosting.Boosted | None = None
        self._model = b""  # of an attempt before this one
        self._before = 0  # rounds that it had
        self._reported = 0

    def before_training(self, model: Any) -> Any:
        """Look whether there was an attempt before this one."""
        if not isinstance(model, xgboost.Booster):
            raise ConfigError(
                "etude.callback('xgboost', run) was given to xgboost.cv, which trains a booster for each fold, and a "
                "run keeps one. Train with xgboost.train, or report what xgboost.cv returns: run.report(...)."
            )
        if self._boosted is not None:
            boosting.refuse_another("xgboost", "booster")
        self._boosted = boosting.keep(self._turns, "xgboost", "booster", began=_beginning(model))
        self._turns.begin(math.inf)
        self._turns.again()
        self._model = self._boosted.model
        self._before = self._reported = self._boosted.done
        self._replace(model, self._boosted)
        return model

    def _replace(self, model: Any, boosted: boosting.Boosted) -> None:
        """Have a booster leave out the rounds that it has had, and say again what was measured then."""
        update, eval_set = model.update, model.eval_set

        def update_unless_done(dtrain: Any, iteration: int, fobj: Any = None) -> None:
            if iteration >= self._before:
                self._bring_back(model)
                update(dtrain, iteration, fobj)

        def said(evals: Any, iteration: int = 0, *args: Any, **options: Any) -> str:
            if iteration < self._before:
                return str(boosted.log[iteration])
            boosted.log.append(str(eval_set(evals, iteration, *args, **options)))
            return str(boosted.log[-1])

        vars(model).update(update=update_unless_done, eval_set=said)

    def _bring_back(self, model: Any) -> None:
        """Give a booster the rounds that it has had: only now, since other callbacks count from those it begins with.

        Its settings, and what callbacks have noted on it, are those that it has by now.
        """
        content, self._model = self._model, b""
        if content:
            settings, noted = model.save_config(), model.attributes()
            model.load_model(bytearray(content))
            model.load_config(settings)
            model.set_attr(**noted)

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Report a round, and save."""
        if epoch < self._before:
            return False
        boosted = self._boosted
        assert boosted is not None
        boosted.write = lambda: bytes(model.save_raw(FORMAT))
        self._reported = boosted.done
        return not boosting.end(self._turns, boosted, _measured(boosted.log[-1]))

    def after_training(self, model: Any) -> Any:
        """Leave the booster as if this had not been."""
        self._bring_back(model)
        if self._boosted is not None and self._boosted.done > self._reported:  # another callback has ended it before us
            boosting.report(self._turns, _measured(self._boosted.log[-1]))
        for name in REPLACED:
            vars(model).pop(name, None)
        return model


def _beginning(model: Any) -> str:
    """Return what tells a booster from others, before it has had a round."""
    digest = hashlib.blake2b(model.save_config().encode(), digest_size=16)
    if model.num_boosted_rounds():  # it goes on from another one
        digest.update(bytes(model.save_raw(FORMAT)))
    return digest.hexdigest()


def _measured(said: str) -> boosting.Measured:
    """Return what XGBoost says of a round, ``valid-logloss:0.25`` and so on. A metric may have a ``-`` in its name."""
    found = []
    for word in said.split()[1:]:
        name, _, value = word.rpartition(":")
        which, _, metric = name.partition("-")
        found.append((which, metric, float(value)))
    return found
