"""What the callbacks of XGBoost and LightGBM share: the booster so far, and what was measured after each of its rounds.

A round is a turn. Its booster is kept as the library writes it, which is bytes for us, together with all that was
measured so far: whoever goes on is told of the earlier rounds again, so that an early stopping counts as it would have.

To write a booster takes the longer the more rounds it has had, and a round takes no longer than the one before. So a
booster is saved when it has grown by a tenth: all that is written is then in proportion to the rounds that there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from etude.core.errors import ConfigError

if TYPE_CHECKING:
    from etude.frameworks.callbacks import Turns

Measured = Sequence[tuple[str, str, float]]
"""Of one round: evaluation set, metric, value."""


PART: Final = 10
"""A booster is saved when it has grown by one part in so many."""


class Boosted:
    """A booster between two rounds: its own handle (``frameworks.kinds``).

    Attributes:
        model: As an attempt before this one has written it; empty if there was none.
        write: Writes the booster of this attempt, as the library does.
        log: What was measured after each round, as the callback has it.
        more: What else the callback needs to go on.
        began: What tells it from boosters that were set up otherwise; None if nobody can tell.
    """

    def __init__(self) -> None:
        self.model = b""
        self.write: Callable[[], bytes] = lambda: self.model
        self._saved = 0  # after how many rounds it was saved last
        self.log: list[Any] = []
        self.more: dict[str, Any] = {}
        self.began: str | None = None

    @property
    def done(self) -> int:
        """How many rounds it has had."""
        return len(self.log)

    @property
    def due(self) -> bool:
        """Whether it has grown enough to be saved again."""
        return self.done - self._saved >= max(1, self.done // PART)

    def weights(self) -> Any:
        """Return nothing: a booster is no weights of a model that the model function makes."""
        return None

    def beginning(self) -> Any:
        """Return what tells it from boosters that were set up otherwise."""
        return self.began

    def rest(self) -> Any:
        """Return all of it."""
        self._saved = self.done
        return {"model": np.frombuffer(self.write(), np.uint8), "log": list(self.log), "more": dict(self.more)}

    def bring_back(self, weights: Any, rest: Mapping[str, Any]) -> None:
        """Be what another one was."""
        self._saved = len(rest["log"])
        self.model, self.log, self.more = np.asarray(rest["model"]).tobytes(), list(rest["log"]), dict(rest["more"])


def keep(turns: Turns, library: str, what: str, *, began: str | None = None) -> Boosted:
    """Have the booster of a run kept.

    Args:
        turns: The turns of the run.
        library: What it is kept as.
        what: What is trained, for the message.
        began: What tells it from boosters that were set up otherwise.

    Raises:
        ConfigError: The run keeps one already.
    """
    kept = turns.run.keeper.kept
    if kept is not None and library in vars(kept):
        refuse_another(library, what)
    boosted = Boosted()
    boosted.began = began
    turns.run.keep(**{library: boosted})
    return boosted


def refuse_another(library: str, what: str) -> NoReturn:
    """Refuse a second training.

    Raises:
        ConfigError: Always.
    """
    raise ConfigError(
        f"etude.callback({library!r}, run) was given to a second training of one run, and a run keeps one {what}. Give "
        "it to one of them. Where there are several, such as one for each fold, train them in a loop of your own, "
        "for fold in run.epochs(n), without it, and call run.report after each."
    )


def end(turns: Turns, boosted: Boosted, measured: Measured) -> bool:
    """Report a round, and end it; return whether the run has another one."""
    report(turns, measured)
    turns.run.keeper.due = boosted.due
    try:
        return turns.end()
    finally:
        turns.run.keeper.due = True


def report(turns: Turns, measured: Measured) -> None:
    """Report what was measured after a round: ``valid-logloss``, or ``logloss`` if there is one evaluation set alone.

    ``names=`` knows a metric by either name.
    """
    alone = len({which for which, _, _ in measured}) == 1
    found = {}
    for which, metric, value in measured:
        whole = f"{which}-{metric}"
        found[whole if whole in turns.names or not alone else metric] = value
    turns.report(found)
