"""The Trainer of Hugging Face's Transformers: reported, saved and resumed by a callback.

The trainer writes a checkpoint of its own at the end of each epoch, a folder; its files become a state, and the folder
goes, unless the user wants it (``save_strategy``). For the next attempt they are written into a folder again. Its
weights are safetensors, and are kept as such. What it pickles (the optimizer, the generators) stays bytes for us; the
trainer reads that back without running code (``weights_only``).
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from safetensors.torch import load_file, save_file
from transformers import TrainerCallback

from etude.core.errors import ConfigError

if TYPE_CHECKING:
    from etude.frameworks.callbacks import Turns

WEIGHTS: Final = ".safetensors"
NOT_NEEDED: Final = ("training_args.bin",)
"""Files of a checkpoint that nobody reads who resumes; this one holds any object, pickled."""

TIMES: Final = re.compile(r"_runtime$|_per_second$")
"""Numbers that say how fast the machine was."""


def callback(turns: Turns) -> Any:
    """Return the callback."""
    return Callback(turns)


class Callback(TrainerCallback):  # type: ignore[misc]
    """Goes through a run's epochs as the Trainer does."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._files: _Files | None = None
        self._folder: Path | None = None  # to go on from
        self._epochs: float = math.inf
        self._asked = False
        self._epoch_ended = False
        self._logs: dict[str, Any] = {}  # of this epoch

    def checkpoint(self) -> str | None:
        """Return the folder that the trainer goes on from; None in a first attempt.

        For ``trainer.train(resume_from_checkpoint=...)``, when the trainer is made.
        """
        # It has seeded all ranks alike, and each shuffles for itself.
        self._turns.run.together.stand_back("The Trainer of Transformers", draws_alike=True)
        if self._files is None:
            self._files = _Files()
            self._turns.run.keep(transformers=self._files)
        self._turns.begin(self._epochs)
        self._asked = True
        if not self._files.brought_back:
            return None
        self._folder = self._turns.run.folder / "resume"
        self._files.write(self._folder)
        return str(self._folder)

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note how many epochs there will be, and have what other callbacks know brought back."""
        self._epochs = args.num_train_epochs if args.max_steps <= 0 else math.inf
        args.restore_callback_states_from_checkpoint = True  # else the patience of an early stopping begins anew

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Bring the generators back that are not the trainer's: it brings back those it knows later."""
        if not self._asked:
            raise ConfigError(
                "etude.callback('transformers', run) was not asked where to go on from, so an attempt that is lost "
                "would start over. Train with trainer.train(resume_from_checkpoint=callback.checkpoint())."
            )
        if args.save_only_model:
            raise ConfigError("save_only_model=True leaves out the optimizer, and nobody could go on from that.")
        self._asked = False
        self._turns.again()

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Take in what there is to report."""
        self._logs.update({name: value for name, value in (logs or {}).items() if not TIMES.search(name)})

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Have the trainer write a checkpoint, after it has logged and evaluated."""
        self._forget_folder()  # it has been read
        self._epoch_ended = True
        control.should_save = True  # on all ranks: they report, and stop, together
        return control

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Report, and take in the checkpoint of an epoch."""
        if not self._epoch_ended or self._files is None:
            return control
        self._epoch_ended = False
        logs, self._logs = self._logs, {}
        folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
        self._files.read(folder)
        if args.save_strategy == "no":
            shutil.rmtree(folder)
        self._turns.report(logs)
        if not self._turns.end(over=control.should_training_stop and not self._is_last(state)):
            control.should_training_stop = True
        return control

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave nothing behind."""
        self._forget_folder()

    def _is_last(self, state: Any) -> bool:
        return state.epoch is not None and state.epoch >= self._epochs

    def _forget_folder(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder = None


class _Files:
    """The files of a checkpoint: its own handle (``frameworks.kinds``).

    Attributes:
        brought_back: Whether they are those of an attempt before this one.
    """

    def __init__(self) -> None:
        self.brought_back = False
        self._weights: dict[str, Any] = {}  # path -> tensors
        self._others: dict[str, Any] = {}  # path -> bytes

    def read(self, folder: Path) -> None:
        """Take in a folder."""
        paths = [path for path in folder.rglob("*") if path.is_file() and path.name not in NOT_NEEDED]
        named = {str(path.relative_to(folder)): path for path in paths}
        self._weights = {name: load_file(path) for name, path in named.items() if path.suffix == WEIGHTS}
        self._others = {
            name: torch.frombuffer(bytearray(path.read_bytes() or b"\0"), dtype=torch.uint8)
            for name, path in named.items()
            if path.suffix != WEIGHTS
        }

    def write(self, folder: Path) -> None:
        """Write them into a folder."""
        for name, tensors in self._weights.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            save_file(tensors, folder / name, {"format": "pt"})
        for name, content in self._others.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content.numpy().tobytes())

    def weights(self) -> Any:
        return self._weights

    def beginning(self) -> Any:
        """Return nothing: the trainer makes schedules for as many epochs as it is to have, and only when it begins."""
        return None

    def rest(self) -> Any:
        return self._others

    def bring_back(self, weights: Mapping[str, Any], rest: Mapping[str, Any]) -> None:
        self.brought_back, self._weights, self._others = True, dict(weights), dict(rest)
