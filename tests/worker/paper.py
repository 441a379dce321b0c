"""A line that writes states to files, and is cut."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from etude.frameworks import state_file
from etude.frameworks.trees import take_apart
from etude.worker.run import State, WhyNot


class KilledError(Exception):
    """The process is gone."""


class Paper:
    """A line to nobody that writes each state to a file, as a worker does, and may end with one.

    Args:
        folder: Where to.
        dies_after: How many states are written before the run is killed; None for never.
        states: To go on from, the newest first.
    """

    halted = False
    held = False

    def __init__(self, folder: Path, *, dies_after: int | None = None, states: Sequence[State] = ()) -> None:
        self.folder = folder
        self.dies_after = dies_after
        self.states = states
        self.reports: list[tuple[int, dict[str, float]]] = []
        self.saved: list[Path] = []
        self.told: list[str] = []

    def report(self, step: int, metrics: dict[str, float]) -> None:
        self.reports.append((step, metrics))

    def take_up(self, why_not: WhyNot) -> State | None:
        return next((state for state in self.states if why_not(state) is None), None)

    def save(self, state: State) -> None:
        path = self.folder / f"{len(self.saved)}.safetensors"
        state_file.write(path, *take_apart(state._asdict(), path=""))
        self.saved.append(path)
        if len(self.saved) == self.dies_after:
            raise KilledError

    def turn(self, at: str) -> None:
        """Nobody else is there."""

    def settle(self) -> None:
        pass

    def warn(self, text: str) -> None:
        self.told.append(text)


def state_in(path: Path) -> State:
    return State(**state_file.read(path))
