"""Lightning's ``Trainer``: reported, saved and resumed by a callback.

What is saved is the content of Lightning's own checkpoint, taken apart as any state is. For the next attempt it is
written to a file again, which ``ckpt_path`` names: a pickle, but one that this process has made itself, of plain data.

An epoch is saved when the next begins, and with where the loops stood when it ended. Lightning resumes from there only,
and steps the schedulers that wait for a metric after that; a checkpoint of its own leaves that step out.
"""

from __future__ import annotations

import copy
import importlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from etude.core.errors import ConfigError
from etude.frameworks.unasked_turns import UnaskedTurns

if TYPE_CHECKING:
    from etude.frameworks.callbacks import Turns

PARAMETERS: Final = (
    "hyper_parameters",
    "datamodule_hyper_parameters",
    "hparams_name",
    "datamodule_hparams_name",
)
"""Parts of a checkpoint from which a class could be made anew. Here the training function does that."""


UNASKED: Final = "unasked"
"""Under this name is kept what nobody has asked us to keep."""

LOOPS: Final = ("fit_loop", "validate_loop", "test_loop", "predict_loop")
"""Of a trainer, as its checkpoint has them."""


def callback(turns: Turns) -> Any:
    """Return the callback, for whichever of its two names the library was loaded under."""
    other = "lightning" not in sys.modules and "pytorch_lightning" in sys.modules
    return _callback(turns, "pytorch_lightning" if other else "lightning.pytorch")


def _callback(turns: Turns, package: str) -> Any:
    base = importlib.import_module(f"{package}.callbacks").Checkpoint
    return type("Callback", (Hooks, base), {"__doc__": Hooks.__doc__})(turns)


def with_ours(theirs: Any, trainer: Any, turns: Callable[[], UnaskedTurns | None], package: str) -> Any:
    """Return the callbacks that a module adds to its trainer's, and ours, where nobody has asked for it.

    Args:
        theirs: What the module says by itself: a callback, or several.
        trainer: That is about to do something with the module.
        turns: Gives the turns of a fit; None for one that is none of ours.
        package: The name under which Lightning was loaded.
    """
    listed = list(theirs) if isinstance(theirs, Sequence) else [theirs] if theirs else []
    known = [*trainer.callbacks, *listed]
    if trainer.state.fn != "fit":
        return theirs
    for one in known:
        if isinstance(one, Hooks):
            one.another_fit(trainer, turns)
            return theirs
    if (own := turns()) is None:
        return theirs
    ours = _callback(own, package)
    return [*listed, ours] if ours.begin_unasked(trainer) else theirs


class Hooks:
    """Goes through a run's epochs as Lightning does. As a ``Checkpoint`` it comes after the other callbacks."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns
        self._content: _Content | None = None
        self._path: Path | None = None
        self._began = False
        self._unasked = False
        self._loops: Any = None  # where they stood at the end of the epoch

    def ckpt_path(self, trainer: Any) -> str | None:
        """Return from which file the trainer goes on; None in a first attempt. For ``trainer.fit(ckpt_path=...)``.

        Args:
            trainer: That is about to fit.
        """
        self._turns.run.together.stand_back("Lightning's Trainer")
        if self._content is None:
            self._content = _Content()
            self._turns.run.keep(lightning=self._content)
        self._content.trainer, self._content.saved = trainer, None
        self._turns.begin(_most(trainer))
        self._began, self._loops = True, None
        if self._content.saved is None:
            return None
        import torch

        self._path = self._turns.run.folder / "resume.ckpt"
        torch.save(self._content.saved, self._path)
        self._content.saved = None
        return str(self._path)

    def begin_unasked(self, trainer: Any) -> bool:
        """Begin a fit that nobody has asked us about; return whether there is anything to do for us.

        The trainer has not looked for a checkpoint yet, and takes what it finds loaded.
        """
        turns = self._turns
        assert isinstance(turns, UnaskedTurns)
        self._unasked, self._content = True, _Content()
        self._content.trainer = trainer
        turns.keep({UNASKED: self._content})
        self._began = turns.begin(_most(trainer))
        if self._began and self._content.saved is not None:
            _connector(trainer)._loaded_checkpoint = self._content.saved
        return self._began

    def another_fit(self, trainer: Any, turns: Callable[[], UnaskedTurns | None]) -> None:
        """Have a trainer fit once more that has our callback already, from a fit that nobody asked us about."""
        if self._unasked and (own := turns()) is not None:
            self._turns, self._content, self._loops = own, _Content(), None
            self._content.trainer = trainer
            self._began = own.begin(_most(trainer))

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Bring the generators back: after this the loaders are asked for the first batch."""
        if not self._began:
            raise ConfigError(
                "etude.callback('lightning', run) was not asked where to go on from, so an attempt that is lost would "
                "start over. Fit with trainer.fit(..., ckpt_path=callback.ckpt_path(trainer))."
            )
        self._turns.again()
        if self._path is not None:
            self._path.unlink()
            self._path = None
        if self._unasked and self._content is not None and self._content.saved is not None:
            connector = _connector(trainer)
            if trainer.ckpt_path:  # what the training function begins with has come after it
                connector._loaded_checkpoint = self._content.saved
                connector.restore_model()
                connector.restore_callbacks()
            self._content.saved = None

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Save the epoch before."""
        trainer.should_stop |= not self._end(over=False)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Report."""
        assert self._content is not None
        loops = {name: getattr(trainer, name).state_dict() for name in LOOPS}
        self._loops = copy.deepcopy(loops)
        self._turns.report(trainer.callback_metrics)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Save the last epoch."""
        self._end(over=trainer.current_epoch < _most(trainer))
        self._began = False

    def _end(self, *, over: bool) -> bool:
        """Save what was reported last, if that was not done; return whether the run has another epoch."""
        if self._loops is None or self._content is None:
            return True
        self._content.loops, self._loops = self._loops, None
        return self._turns.end(over=over)


class _Content:
    """The content of Lightning's checkpoint: its own handle (``frameworks.kinds``).

    Attributes:
        trainer: Whose.
        loops: Where its loops stood when the last epoch ended.
        saved: What was brought back.
    """

    def __init__(self) -> None:
        self.trainer: Any = None
        self.loops: Any = None
        self.saved: dict[str, Any] | None = None

    def weights(self) -> Any:
        return dict(self.trainer.strategy.lightning_module_state_dict())

    def beginning(self) -> Any:
        """Return nothing: the trainer makes schedules for as many epochs as it is to have, and only when it begins."""
        return None

    def rest(self) -> Any:
        content = _connector(self.trainer).dump_checkpoint(weights_only=False)
        content["loops"] = self.loops
        return {name: part for name, part in content.items() if name not in ("state_dict", *PARAMETERS)}

    def bring_back(self, weights: Mapping[str, Any], rest: Mapping[str, Any]) -> None:
        self.saved = {**rest, "state_dict": dict(weights)}


def _most(trainer: Any) -> float:
    """Return how many epochs a trainer goes for at most."""
    most = trainer.max_epochs
    return math.inf if most is None or most < 0 else float(most)


def _connector(trainer: Any) -> Any:
    """Return what makes a trainer's checkpoints. It has no public name: ``save_checkpoint`` would write a file."""
    return trainer._checkpoint_connector
