"""What a study takes from the system history, and what it leaves there.

The file is opened for each use, so that any thread may: who decides lives in that of the driver.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from etude.system.conductor import SystemConductor
from etude.system.entries import Entry
from etude.system.history import History


class Remembered:
    """A system history.

    Args:
        path: The file; None for the user's.

    Attributes:
        trouble: What was wrong with the file when it was used last, why, and the mend; empty if nothing was.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.trouble = ""

    def entries(self, *, machine: str, objective: str) -> list[Entry]:
        """Return what is remembered of a machine for an objective, the oldest first."""
        with History.open(self._path) as history:
            found = history.entries(machine=machine, objective=objective)
            self.trouble = history.trouble
        return found

    def keep(self, conductor: SystemConductor, workload: str, *, at_s: float, apart_from: Container[int] = ()) -> None:
        """Remember what was learned. It never raises: what goes wrong is in ``trouble``.

        Args:
            conductor: Who has learned it.
            workload: What tells the functions from others.
            at_s: The time, in seconds since 1970.
            apart_from: Trials of which it is remembered already.
        """
        try:
            self._keep(conductor, workload, at_s, apart_from)
        except Exception as error:  # our own mistake: what was trained is there
            self.trouble = (
                f"What was learned of this machine is not remembered, since {type(error).__name__} was raised: {error}"
            )

    def _keep(self, conductor: SystemConductor, workload: str, at_s: float, apart_from: Container[int]) -> None:
        with History.open(self._path) as history:
            learned = conductor.learned(
                lambda work: history.digest(f"{workload} {work}"), at_s=at_s, apart_from=apart_from
            )
            for entry in learned:
                history.add(entry)
            self.trouble = history.trouble
