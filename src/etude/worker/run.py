"""The run handle: what a training function can ask and tell while it runs."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from etude.core.errors import ResultError
from etude.core.streams import stream_seed
from etude.core.text import brief
from etude.worker.result import as_number

if TYPE_CHECKING:
    import numpy as np


class Stop(BaseException):
    """The study wants this attempt to end. No ``except Exception`` swallows it."""


class Hold(BaseException):
    """The study wants this attempt to pause."""


class Line(Protocol):
    """What connects a run handle to the study."""

    halted: bool
    held: bool

    def report(self, step: int, metrics: dict[str, float]) -> None:
        """Pass a report on, without waiting."""
        ...


class NoLine:
    """A plain call, with nobody at the other end."""

    halted = False
    held = False

    def report(self, step: int, metrics: dict[str, float]) -> None:
        """Forget the report."""


class Run:
    """One run of the training function.

    Attributes:
        params: The configuration, defaults included.
        seed: The training seed.
        trial: The trial's number in its study; None in a plain call.
        epoch: The epoch that ``epochs`` gave out last, from 0; None before the first.
        device: Where batches and models are: ``"cpu"``, ``"cuda"``, ...
    """

    def __init__(
        self,
        *,
        metrics: Sequence[str],
        watched: str | None = None,
        params: Mapping[str, Any],
        seed: int,
        trial: int | None = None,
        folder: Callable[[], Path] = Path,
        device: str = "cpu",
        line: Line | None = None,
    ) -> None:
        self.params = dict(params)
        self.seed = seed
        self.trial = trial
        self.epoch: int | None = None
        self.device = device
        self.stop_seen = False
        self.last: dict[str, float] = {}
        """The newest value of each metric that was reported."""
        self.metrics = tuple(metrics)
        """Names of the study's metrics, the main one first."""
        self._watched = watched or self.metrics[0]
        self._step = 0
        self._folder = folder
        self._line: Line = line if line is not None else NoLine()

    def report(self, metrics: Mapping[str, float] | None = None, /, **named: float) -> None:
        """Report metrics, and stop here if the study says so. Never waits.

        Args:
            metrics: Name -> value, where a name is no Python identifier.
            named: The same as keywords: ``run.report(accuracy=0.9, loss=0.3)``. A value is a number, or
                anything with one element that ``float`` takes. NaN counts as worst.

        Raises:
            ResultError: A value is no number, or has no name.
        """
        values = named if metrics is None else {**self._by_name(metrics), **named}
        for name, value in values.items():
            if type(value) is not float:
                values[name] = self._number(name, value)
        if self._watched in values:
            self._step += 1
        if values:
            self.last.update(values)
            self._line.report(self._step, values)
        if self._line.halted:
            self._stop()

    def epochs(self, n: int) -> Iterator[int]:
        """Give the epochs 0 ... n - 1, and stop or pause between them if the study says so."""
        for epoch in range(n):
            if self._line.halted:
                self._stop()
            if self._line.held:
                raise Hold
            self.epoch = epoch
            yield epoch

    def log(self, *words: object) -> None:
        """Write a line to the attempt's log."""
        print(*words, flush=True)  # noqa: T201 - the attempt's standard output is its log

    @property
    def folder(self) -> Path:
        """A folder for this attempt's files; in a plain call the current one. Made when first asked for."""
        return self._folder()

    def generator(self, name: str) -> np.random.Generator:
        """Return a random generator of its own for ``name``: equal for equal seeds, whatever else draws."""
        import numpy as np

        return np.random.default_rng(stream_seed(self.seed, "user", name))

    def random(self, name: str) -> random.Random:
        """Return the same as a generator of the standard library."""
        return random.Random(stream_seed(self.seed, "user", name))

    def _stop(self) -> None:
        self.stop_seen = True
        raise Stop

    def _by_name(self, metrics: Any) -> dict[str, Any]:
        if not isinstance(metrics, Mapping):
            raise ResultError(
                f"run.report got {brief(metrics)}, which has no name. Name what you report: "
                f"run.report({self._watched}=...)."
            )
        for name in metrics:
            if not isinstance(name, str):
                raise ResultError(
                    f"run.report got {brief(name)} as the name of a metric, and a name is a str. "
                    f"Write run.report({{{str(name)!r}: ...}})."
                )
        return {str(name): value for name, value in metrics.items()}

    def _number(self, name: str, value: Any) -> float:
        try:
            return as_number(value)
        except (TypeError, ValueError) as error:
            raise ResultError(
                f"run.report({name}=...) got {brief(value)}, which is no single number ({error}). "
                "Report a number: .mean() or .item() makes one of a tensor."
            ) from None


def default_device() -> str:
    """Return where models and batches belong: the first GPU that torch sees, if the user's code has loaded torch."""
    if sys.modules.get("torch") is None:
        return "cpu"
    from etude.frameworks import torch

    return torch.default_device()
