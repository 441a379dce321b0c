"""A study among others on its machine: how many trials it may run at a time, by the ledger that all keep.

It holds a *slot* in the ledger for each trial that it may run, before it runs it. A slot whose trial has ended goes
back if the study's share has become smaller meanwhile; what a trial gives back that settled on fewer cores, others may
use.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from etude.core.resources import Machine, Resources
from etude.core.system import Setting

if TYPE_CHECKING:
    from etude.system.asked import System
    from etude.system.budget import Amount, Want
    from etude.system.ledger import Ledger

CORES: Final = ("threads", "cores")
"""Knobs that say how many cores a trial uses; with neither it uses what it was given."""

WAITS: Final = "Other studies hold the cores of this machine: this one begins when they leave some."


class Tenancy:
    """A study's place on a machine that others use as well. Used from the thread of its driver.

    Args:
        ledger: The ledger; its study has not come yet.
        name: What the study is called.
        trial: What one trial uses.
        wanted: How many trials could run at a time, as things stand.
        most: How many at most, ever.
    """

    def __init__(self, ledger: Ledger, name: str, trial: Amount, *, wanted: Callable[[], int], most: int) -> None:
        self._ledger, self._trial, self._wanted = ledger, trial, wanted
        self._idle: list[int] = []
        self._of: dict[int, int] = {}  # trial -> its slot
        self._cores: dict[
            int, int
        ] = {}  # slot -> the cores of its trial, where that settled on other than it was given
        self._made = 0
        self._told: int | None = None
        self._most = most
        ledger.join(name, self._want())
        self.fill()

    @property
    def room(self) -> int:
        """How many trials may run at a time now."""
        return len(self._idle) + len(self._of)

    @property
    def note(self) -> str:
        """What users should be told; empty if nothing."""
        return self._ledger.trouble or ("" if self.room else WAITS)

    def news(self) -> int | None:
        """Return how many trials may run at a time, if that is another number than when it was asked last."""
        if self.room == self._told:
            return None
        self._told = self.room
        return self._told

    def fill(self) -> None:
        """Look who has come and gone: give back what is too much, and take what there is room for. Each second."""
        self._ledger.tick()
        wanted = self._wanted()
        while self._idle and (self.room > wanted or not self._is_ours()):
            self._ledger.release(self._idle.pop())
        while self.room < wanted and self._ledger.hold(self._made, self._trial):
            self._idle.append(self._made)
            self._made += 1

    def begun(self, trial: int) -> None:
        """Note that a trial is run."""
        if self._idle:  # else it was at work before this driver was
            self._of[trial] = self._idle.pop()

    def ended(self, trial: int) -> None:
        """Note that it is not any more: its slot is for the next trial, or for others."""
        slot = self._of.pop(trial, None)
        if slot is None:
            return
        if self._cores.pop(slot, None) is not None:
            self._ledger.want(self._want())
        if self._ledger.hold(slot, self._trial) and self._is_ours():
            self._idle.append(slot)
        else:
            self._ledger.release(slot)

    def resize(self, trial: int, setting: Setting) -> bool:
        """Note that a trial is to be set so; return whether there are cores for that."""
        slot = self._of.get(trial)
        if slot is None:
            return True
        named = [int(setting[name] or 0) for name in CORES if name in setting]
        cores = max(1, min([self._trial.cores, *named]))
        if cores == self._cores.get(slot, self._trial.cores):
            return True
        before = dict(self._cores)
        self._cores[slot] = cores
        self._ledger.want(self._want())  # what is not wanted any more is granted to others
        if self._ledger.hold(slot, replace(self._trial, cores=cores)):
            return True
        self._cores = before
        self._ledger.want(self._want())
        return False

    def close(self) -> None:
        """Leave: all is given back."""
        self._ledger.close()

    def _want(self) -> Want:
        """Return what the study wants: what each of its trials uses, and the same as at first of all others."""
        from etude.system.budget import Want, times

        others = times(self._trial, self._most - len(self._cores))
        cores = sum(self._cores.values())
        least = min([self._trial.cores, *self._cores.values()])
        return Want(
            least=replace(self._trial, cores=least),
            most=others + replace(times(self._trial, len(self._cores)), cores=cores),
            step=replace(self._trial, cores=least),
        )

    def _is_ours(self) -> bool:
        """Whether what is held is no more than this study's share."""
        return self._ledger.share.held.fits(self._ledger.share.granted)


class Alone:
    """The place of a study that minds nobody else."""

    note = ""

    def news(self) -> int | None:
        """There is never any."""
        return None

    def fill(self) -> None:
        """There is nothing to take."""

    def begun(self, trial: int) -> None:
        """Nobody has to know."""

    def ended(self, trial: int) -> None:
        """Nobody has to know."""

    def resize(self, trial: int, setting: Setting) -> bool:
        """There is always room."""
        return True

    def close(self) -> None:
        """There is nothing to give back."""


ALONE: Final = Alone()


def come(
    system: System | None,
    name: str,
    *,
    machine: Machine,
    cores: int,
    resources: Resources | None,
    wanted: Callable[[], int],
    most: int,
) -> Tenancy | Alone:
    """Let a study come to the ledger of this machine, unless it goes on as if it were alone.

    Args:
        system: How machines are tuned: who has them tuned shares them, unless it says otherwise.
        name: What the study is called.
        machine: What there is.
        cores: How many cores a trial uses.
        resources: What a trial needs, as the call says it.
        wanted: How many trials could run at a time, as things stand.
        most: How many at most, ever.
    """
    if system is None or system.ledger is False:
        return ALONE
    from etude.system.budget import Amount
    from etude.system.ledger import Ledger

    said = resources.memory_gb if resources is not None else None
    memory_gb = float(said) if isinstance(said, int | float) else None  # else it is learned, or nobody says
    path = Path(system.ledger) if isinstance(system.ledger, str | os.PathLike) else None
    asked = cores * most  # who wants more workers than there are cores gets them, as long as nobody else is there
    ledger = Ledger.open(Amount.of(cores=max(asked, machine.cores or 1), memory_gb=machine.memory_gb), path)
    return Tenancy(ledger, name, Amount.of(cores=cores, memory_gb=memory_gb), wanted=wanted, most=most)
