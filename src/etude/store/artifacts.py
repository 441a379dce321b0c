"""The files of checkpoints in a study's folder: removed as soon as nobody needs them, by a thread of their own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from etude.core.events import STATE


class Artifacts:
    """Where the files are.

    Args:
        trials: The folder of all trials.
    """

    def __init__(self, trials: Path) -> None:
        self._trials = trials
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="etude-artifacts")

    def sweep(self, kept: Collection[tuple[int, str]]) -> int:
        """Remove what nobody needs, as after a kill; return how many files that were."""
        surplus = [
            (int(path.parts[-4]), "/".join(path.parts[-3:]))
            for path in self._trials.glob("*/attempt-*/checkpoints/*")
            if path.parts[-4].isdigit() and STATE.fullmatch("/".join(path.parts[-2:]))
        ]
        surplus = [file for file in surplus if file not in kept]
        self._remove(surplus)
        return len(surplus)

    def tidy(self, trial: int, attempt: int, kept: Collection[str]) -> None:
        """Remove, soon, what an attempt that is over left behind, but for what is kept of its trial."""
        name = f"attempt-{attempt}/checkpoints"
        folder = self._trials / f"{trial:05d}" / name
        if os.path.isdir(folder):
            self._thread.submit(self._tidy, trial, folder, name, kept)

    def _tidy(self, trial: int, folder: Path, name: str, kept: Collection[str]) -> None:
        names = [f"{name}/{file}" for file in os.listdir(folder) if STATE.fullmatch(f"checkpoints/{file}")]
        self._remove([(trial, file) for file in names if file not in kept])

    def discard(self, files: Iterable[tuple[int, str]]) -> None:
        """Remove files, soon."""
        self._thread.submit(self._remove, tuple(files))

    def then(self, what: Callable[[], object]) -> None:
        """Do something in the same thread, when what was to be removed is gone."""
        self._thread.submit(what)

    def close(self) -> None:
        """Wait until all is removed."""
        self._thread.shutdown()

    def _remove(self, files: Iterable[tuple[int, str]]) -> None:
        for trial, name in files:
            with contextlib.suppress(OSError):  # gone already; what cannot be removed now is when the study goes on
                self._trials.joinpath(f"{trial:05d}", name).unlink()
