"""Callbacks for those who own no loop: a trainer of a library has it, and tells us of its epochs.

A callback does what ``run.epochs`` does for a loop of one's own, and does it by going through it: each epoch of the
trainer is one turn. What is saved is the trainer's own checkpoint, or the content of one; it travels as any state does.
A stop is raised out of the callback, as an exception that no trainer swallows; a pause too, after the save.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Generator, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, Final, Protocol

from etude.core.errors import ConfigError

MODULES: Final = {
    "keras": "etude.frameworks.keras_fit",
    "lightning": "etude.frameworks.lightning",
    "transformers": "etude.frameworks.transformers",
    "xgboost": "etude.frameworks.xgboost",
    "lightgbm": "etude.frameworks.lightgbm",
}
"""Trainer -> our module for it."""


class Keeping(Protocol):
    """What keeps the state of a run."""

    kept: Any
    twice: bool
    due: bool


class Ranks(Protocol):
    """What a run does together with the other ranks of its trial."""

    def stand_back(self, who: str, *, draws_alike: bool = False) -> None:
        """Leave the ranks to a library that sees to them itself."""
        ...


class Running(Protocol):
    """What a callback wants of a run handle."""

    trial: int | None
    logged: set[str]

    @property
    def keeper(self) -> Keeping:
        """What keeps its state."""
        ...

    @property
    def together(self) -> Ranks:
        """What it does together with other ranks."""
        ...

    @property
    def folder(self) -> Path:
        """A folder for this attempt's files."""
        ...

    def report(self, metrics: Mapping[str, float] | None = None, /) -> None:
        """Report metrics."""
        ...

    def keep(self, **things: Any) -> Any:
        """Keep things from one attempt to the next."""
        ...

    def epochs(self, n: int) -> Generator[int, bool | None, None]:
        """Give the epochs; one that is sent True is the last."""
        ...

    def bring_back_again(self) -> None:
        """Bring back once more what was brought back."""
        ...


def callback(trainer: str, run: Any, *, names: Mapping[str, str] | None = None) -> Any:
    """Return a callback that reports each epoch's metrics, and saves and resumes a trainer by its own checkpoints.

    Of boosters a round is an epoch. Give it to the trainer as the last of its callbacks:

    - ``model.fit(..., callbacks=[callback])`` for Keras;
    - ``trainer.fit(..., ckpt_path=callback.ckpt_path(trainer))`` for Lightning;
    - ``trainer.train(resume_from_checkpoint=callback.checkpoint())`` for the Trainer of Transformers;
    - ``xgboost.train(..., callbacks=[callback])`` and ``XGBClassifier(callbacks=[callback])``;
    - ``lightgbm.train(params, rows, callback.rounds(n), init_model=callback.init_model(), callbacks=[callback])``, and
      ``LGBMClassifier(callback.rounds(n)).fit(..., init_model=callback.init_model(), callbacks=[callback])``.

    Args:
        trainer: ``"keras"``, ``"lightning"``, ``"transformers"``, ``"xgboost"`` or ``"lightgbm"``.
        run: The run handle, as the training function got it.
        names: What the trainer calls a metric -> what the study calls it, where that differs.

    Returns:
        A callback of that library. All numbers that the trainer gives are reported.

    Raises:
        ConfigError: There is no such trainer.
        ImportError: The library is not installed.
    """
    if trainer not in MODULES:
        raise ConfigError(
            f"etude.callback({trainer!r}, ...) is for no trainer that is known. There are "
            f"{', '.join(map(repr, MODULES))}. A loop of your own needs none: for epoch in run.epochs(n)."
        )
    try:
        module = importlib.import_module(MODULES[trainer])
    except ModuleNotFoundError as error:
        if error.name not in (trainer, f"pytorch_{trainer}"):
            raise
        raise ImportError(
            f"etude.callback({trainer!r}, ...) needs {trainer}, which is not installed. Install it: "
            f"pip install {trainer}."
        ) from error
    return module.callback(Turns(run, names or {}))


class Turns:
    """The epochs of one training by somebody else's loop.

    Args:
        run: The run handle.
        names: What the trainer calls a metric -> what the study calls it.

    Attributes:
        run: The run handle.
        names: What the trainer calls a metric -> what the study calls it.
    """

    def __init__(self, run: Running, names: Mapping[str, str]) -> None:
        self.run = run
        self.names = dict(names)
        self._turns: Generator[int, bool | None, None] | None = None

    def begin(self, n: float) -> bool:
        """Begin a training of at most ``n`` epochs, after what is kept was brought back.

        Returns:
            Whether there is anything to do: an attempt before this one may have got past this training.
        """
        self.run.keeper.twice = True
        self._turns = self.run.epochs(MOST if math.isinf(n) else math.ceil(n))
        return next(self._turns, None) is not None

    def again(self) -> None:
        """Bring everything back once more: the trainer has drawn and reset since it was asked to begin."""
        self.run.bring_back_again()

    def end(self, *, over: bool = False) -> bool:
        """End an epoch: it is saved, and stops or pauses here if the study says so.

        Args:
            over: Whether the trainer goes no further though it might, for it has seen enough.

        Returns:
            Whether the run has another epoch; a rehearsal has one in all.
        """
        try:
            if self._turns is not None:
                self._turns.send(over)
        except StopIteration:
            self._turns = None
        return self._turns is not None

    def report(self, metrics: Mapping[str, Any]) -> None:
        """Report all that is a number, under the study's names."""
        numbers = {name: float(value) for name, value in metrics.items() if _is_number(value)}
        self.run.logged.update(numbers)
        self.tell({self.names.get(name, name): value for name, value in numbers.items()})

    def tell(self, numbers: Mapping[str, float]) -> None:
        """Report numbers under the names that they have."""
        self.run.report(numbers)


MOST: Final = 10**9
"""Epochs of a trainer that has no limit of its own."""


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) or (getattr(value, "ndim", None) == 0 and hasattr(value, "item"))
