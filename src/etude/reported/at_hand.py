"""A study as a report takes it: what came of it, whichever verb made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from etude.analyse.threats.threat import Threats
from etude.core.events import Params, Usage
from etude.core.metrics import Metrics
from etude.system.decisions import Decided
from etude.system.uses import Use


class Trial(Protocol):
    """What came of a trial; see ``TrialResult``."""

    number: int
    params: Params
    seed: int
    state: str
    value: float | None
    values: dict[str, float]
    reason: str
    same_as: int | None
    arm: str | None
    tunes: bool
    fingerprints: dict[str, Any]
    start: str | None
    attempts: int
    ended_at: float | None
    halted: bool
    curve: list[float]
    usage: Usage | None
    probe: dict[str, Any] | None


class Machines(Protocol):
    """What trials took of their machines; see ``results.machines``."""

    @property
    def uses(self) -> Sequence[Use]:
        """What each took."""
        ...

    @property
    def decided(self) -> Sequence[Decided]:
        """What was decided on each epoch."""
        ...

    @property
    def values(self) -> Mapping[int, float]:
        """Their values of the main metric."""
        ...

    @property
    def front(self) -> Sequence[int]:
        """Those that no other is better than."""
        ...

    @property
    def front_of(self) -> Sequence[str]:
        """By what."""
        ...

    @property
    def says(self) -> Sequence[str]:
        """What all of it came to."""
        ...


class Study(Protocol):
    """What came of a study; see ``Search``."""

    folder: Path
    metrics: Metrics
    driver: tuple[str, int] | None

    @property
    def meta(self) -> Mapping[str, Any]:
        """What was recorded about it."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def verb(self) -> str:
        """What made it."""
        ...

    @property
    def trials(self) -> Sequence[Trial]:
        """All trials."""
        ...

    def threats(self) -> Threats:
        """Return what may make it say what is not so."""
        ...

    @property
    def front(self) -> Sequence[Trial]:
        """Those that no other is better than."""
        ...

    @property
    def best(self) -> Trial:
        """The best one; an error if none is."""
        ...

    @property
    def machines(self) -> Machines:
        """What trials took of their machines."""
        ...

    def top(self, n: int) -> Sequence[Trial]:
        """Return those that are best."""
        ...

    def counts(self) -> dict[str, int]:
        """Return how many stand where."""
        ...

    def saved(self) -> tuple[int, int]:
        """Return how many were stopped early, and what that spared."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the plan was carried out."""
        ...

    @property
    def running(self) -> bool:
        """Whether this process works on it."""
        ...

    @property
    def why(self) -> str:
        """Why it ended."""
        ...

    @property
    def notes(self) -> list[str]:
        """What users should be told."""
        ...

    @property
    def simulated(self) -> bool:
        """Whether nothing was trained."""
        ...

    @property
    def elapsed_s(self) -> float | None:
        """Seconds that it was worked on."""
        ...

    def paired(self) -> Mapping[str, tuple[int | None, int]]:
        """Return of each arm how many of its runs are pairs, None if nobody knows, and of how many."""
        ...

    def compared(self) -> Any:
        """Return the verdicts on its arms; None if it has none."""
        ...

    def compared_with_controls(self) -> Any:
        """Return the verdicts on its arms beside wholes of their size; None if it has none."""
        ...
