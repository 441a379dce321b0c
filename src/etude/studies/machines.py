"""The machines of a study, tuned while trials run: who decides on them, and what is remembered of it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from etude.core.history import History
    from etude.system.asked import System
    from etude.system.conductor import SystemConductor
    from etude.system.remembered import Remembered

OF_THE_HOST: Final = frozenset({"cpu_governor", "cpu_frequency", "gpu_power_limit"})
"""Knobs that stay as they are set when a process dies."""


class Machines:
    """Who decides on settings in a study, with the history of the machine; nobody, if machines are left alone.

    What tunes is loaded only where somebody asks for it.

    Args:
        system: How machines are tuned; None if they are not.
        workload: What tells the study's functions from others.
        trials: How many trials there will be, at most.
        varied: Whether some of them are longer than others.

    Attributes:
        conductor: Who decides; None if nobody does.
    """

    def __init__(self, system: System | None, workload: str, *, trials: int, varied: bool = False) -> None:
        self._workload = workload
        self._said = 0
        named = (*(system.knobs or ()), *(system.setting or ())) if system is not None else ()
        self._leaves = any(name in OF_THE_HOST for name in named)
        self._known: Container[int] = ()
        self._past: Remembered | None = None
        self.conductor: SystemConductor | None = None
        if system is not None and system.setting is None:
            from etude.system.conductor import SystemConductor
            from etude.system.remembered import Remembered

            self._past = Remembered(system.file) if system.history is not False else None
            self.conductor = SystemConductor(system, self._past, trials=trials, varied=varied)

    def take_up(self, history: History) -> None:
        """Note what an earlier driver of the study has remembered of it."""
        self._known = frozenset(history.tuned)

    def unsaid(self) -> Sequence[str]:
        """Return what users should be told; what is wrong with the history, as often as it is asked."""
        notes = self.conductor.notes if self.conductor is not None else []
        unsaid, self._said = notes[self._said :], len(notes)
        return [*unsaid, *([self._past.trouble] if self._past is not None and self._past.trouble else [])]

    def close(self, at_s: float) -> None:
        """Remember what was learned."""
        if self._leaves:
            from etude.system.applied.restoring import restore

            restore()  # what an attempt left changed that was killed, and that no later one has put back
        if self.conductor is not None and self._past is not None:
            self._past.keep(self.conductor, self._workload, at_s=at_s, apart_from=self._known)
