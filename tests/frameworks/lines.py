"""A run without a study: a line that notes what comes, says stop or pause, and may go on from a state."""

from __future__ import annotations

from pathlib import Path

from etude.frameworks import state_file
from etude.frameworks.trees import put_together, take_apart
from etude.worker.run import NoLine, Run, State, WhyNot


class Line(NoLine):
    """A line that notes what comes, and may go on from a state."""

    def __init__(self, *, halted: bool = False, held: bool = False, before: State | None = None) -> None:
        self.halted, self.held = halted, held
        self.before = before
        self.states: list[State] = []
        self.reports: list[dict[str, float]] = []
        self.notes: list[str] = []

    def report(self, step: int, metrics: dict[str, float]) -> None:
        self.reports.append(metrics)

    def take_up(self, why_not: WhyNot) -> State | None:
        return self.before if self.before is not None and why_not(self.before) is None else None

    def warn(self, text: str) -> None:
        self.notes.append(text)

    def save(self, state: State) -> None:
        self.states.append(State(**put_together(*take_apart(state._asdict(), path=""))))


class HeldAtOne(Line):
    """A line that is held when the first epoch has been reported."""

    def report(self, step: int, metrics: dict[str, float]) -> None:
        super().report(step, metrics)
        self.held = True


def run_on(line: Line, folder: Path, metric: str = "loss", **options: bool) -> Run:
    """Return a run whose files are in a folder."""
    return Run(metrics=(metric,), params={}, seed=1, trial=0, folder=lambda: folder, line=line, **options)


def through_a_file(state: State, folder: Path) -> State:
    """Return a state as another attempt gets it."""
    state_file.write(folder / "state", *take_apart(state._asdict(), path=""))
    return State(**state_file.read(folder / "state"))
