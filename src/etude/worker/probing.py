"""A probe at work: of a run that begins with some weights, a part of the first epoch.

Its training loaders are cut short when they are gone through, and keep the length that they have: a schedule that is
made for so many steps stays what it is in a whole run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from etude.core.errors import ResultError
from etude.core.events import Probe


class Probing:
    """How much of its first epoch a probe trains.

    Args:
        probe: What it is.

    Attributes:
        portion: Of the batches of the first epoch; all of it, where that cannot be cut short.
        begun: Whether the first epoch has begun.
    """

    def __init__(self, probe: Probe) -> None:
        self._share = probe.portion(1)  # of a training function that has a loop of its own
        self.portion = 1.0
        self.begun = False
        self._probe = probe
        self._cuts = False

    @property
    def ends_by_report(self) -> bool:
        """Whether it is over with the first report: nothing else ends a loop of one's own that is not cut short."""
        return not (self.begun or self._cuts)

    def cut(self, data: Any, *, over: Callable[[], None]) -> None:
        """Cut the loaders short that training goes through.

        Args:
            data: What the data function gave.
            over: Ends the probe if it has reported; called when a loader is gone through once more.
        """
        from etude.frameworks.torch_cuts import cut_short, training_loaders

        for loader in training_loaders(data):
            cut_short(loader, self.batches, over)
            self._cuts = True

    def begin(self, epochs: int) -> None:
        """Take in how many epochs the run would have.

        Raises:
            ResultError: The first of them cannot be cut short.
        """
        self.begun = True
        self._share = self._probe.portion(epochs)
        whole = self._probe.among / epochs
        if self._share < 1 and not self._cuts:
            raise ResultError(
                f"A probe has {self._share:.2g} of the first epoch of {epochs}, and data() gave no PyTorch loader "
                "that could be cut short. Return the training loader from data(), or say what the training is to begin "
                "with, weights=search.best.weights"
                + (f", or let each probe have an epoch: weights=etude.Auto(share={whole:.2g})." if whole <= 1 else ".")
            )

    def batches(self, there: int) -> int:
        """Return how many batches it has of so many, one at least."""
        most = max(1, round(self._share * there))
        self.portion = most / max(1, there)
        return most

    def told(self, reported: Mapping[str, float]) -> dict[str, Any]:
        """Return what it leaves behind: how much it trained, and what it reported last."""
        return {"portion": self.portion, "reported": dict(reported)}
