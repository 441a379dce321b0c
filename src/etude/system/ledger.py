"""The ledger: what each study on a machine holds of its cores and its memory, and how much each may hold.

It is a file, and there is nobody who keeps it: each study's driver looks, and writes down what it holds itself. A trial
is started only when the ledger says that there is room for it, so studies never hold more than there is; and what a
dead driver held is free as soon as another one looks.

    ledger = Ledger.open(Amount.of(cores=8, memory_gb=32))
    ledger.join("digits", Want.of_trials(Amount.of(cores=2), most=4))
    if ledger.hold("trial 7", Amount.of(cores=2)):  # before it is started; else it waits
        ...
    ledger.hold("trial 7", Amount.of(cores=1))  # its tuner found that one is as good
    ledger.release("trial 7")  # when it has ended
    ledger.tick()  # each second: others may have come or gone
    ledger.close()

Nothing that is wrong with the file stops a study. It goes on as if it were alone, and ``trouble`` says why.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, final

from etude.core.clock import Clock, WallClock
from etude.system.budget import NOTHING, Amount, Want, total
from etude.system.ledger_file import PATIENT_S, LedgerFile, in_memory, open_ledger, started, this_process, told
from etude.system.sqlite_file import BUSY, Unusable, code
from etude.system.tenants import Process, Response, Share, Tenant, is_gone, share_of

SEEN_S: Final = 10.0
"""Seconds between two signs of life, if nothing else is to be written."""
PATIENCE_S: Final = 10.0
"""For so long a study waits for a file that is locked; then it goes on alone."""


@final
class Ledger:
    """A study's page in the ledger of its machine.

    Made by ``Ledger.open``. It is used from one thread. Each call is one transaction of about a millisecond, and waits
    at most a quarter of a second for others.

    Attributes:
        path: The file.
        budget: What the machine has: as the first of those said who are at work.
        share: What this study may hold, as of the last call.
        trouble: What is wrong with the file, why, and the mend, in one text; empty if nothing is.
    """

    def __init__(self, path: Path | None, budget: Amount, *, clock: Clock, process: Process) -> None:
        self._given, self._file = path, open_ledger(path)
        self.path, self.trouble, self.budget = self._file.path, self._file.trouble, budget
        self.share = Share()
        self._clock, self._process = clock, process
        self._offered = budget
        self._mine: Tenant | None = None
        self._there: list[Tenant] = []
        self._holds: dict[Hashable, Amount] = {}
        self._locked_since_s: float | None = None

    @classmethod
    def open(
        cls, budget: Amount, path: Path | None = None, *, clock: Clock | None = None, process: Process | None = None
    ) -> Ledger:
        """Return the ledger in a file, which is made if there is none; it never raises.

        Args:
            budget: What this machine has, as this study sees it. If others are at work, what they said holds.
            path: The file; None for the user's: ``$XDG_RUNTIME_DIR/etude/ledger.sqlite``, or in a folder of the user's
                among temporary files.
            clock: The clock that its times are by.
            process: The process that has to live for the study to be at work; None for this one.
        """
        return cls(path, budget, clock=clock or WallClock(), process=process or this_process())

    # --- what a study says -----------------------------------------------------------------------------

    def join(self, name: str, want: Want) -> Share:
        """Come, behind all who are there, and return what the study may hold.

        Args:
            name: What people call it.
            want: What it wants.
        """
        assert self._mine is None, "a study joins once"
        now_s = self._clock.now_s()
        self._mine = Tenant(0, name, self._process, want, NOTHING, now_s, None, now_s)
        return self.tick()

    def want(self, want: Want) -> Share:
        """Ask for more or for less, and return what the study may hold. Its least may only fall."""
        self._mine = replace(self._joined, want=self._joined.want.then(want))
        return self.tick()

    def hold(self, key: Hashable, amount: Amount) -> bool:
        """Say that something is to use so much from now on; return whether it may.

        If not, nothing has changed; ask again when ``tick`` says that there is more room. To hold less is always
        allowed. Who needs more than the whole machine holds all of it.

        Args:
            key: What uses it, such as a trial.
            amount: How much it uses now, all in all.
        """
        return self._settle({**self._holds, key: amount})

    def release(self, key: Hashable) -> None:
        """Say that something uses nothing any more. Should the file be locked, it is written with the next call."""
        self._holds.pop(key, None)
        self._mine = replace(self._joined, held=self._sum(self._holds))
        self._settle(self._holds)

    def tick(self) -> Share:
        """Look who has come and gone, and return what the study may hold. To be called each second."""
        self._settle(self._holds)
        return self.share

    def close(self) -> None:
        """Give everything back, go, and let go of the file."""
        if self._mine is not None:
            # If it cannot be written, it is swept when this process has ended.
            with contextlib.suppress(sqlite3.Error), self._file.transaction(wait_s=PATIENT_S):
                self._file.remove(self._mine, now_s=self._clock.now_s(), died=False)
        self._mine, self._holds, self.share = None, {}, Share()
        self._file.connection.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what people ask -------------------------------------------------------------------------------

    def tenants(self) -> list[Tenant]:
        """Return who is at work on this machine, in the order in which they came; if the file is locked, who was."""
        with contextlib.suppress(sqlite3.Error, Unusable), self._file.transaction():
            self._there = self._sweep(self._clock.now_s())
        return list(self._there)

    def response_times(self) -> list[Response]:
        """Return how long studies took that ended, the newest thousand, in the order in which they went."""
        with contextlib.suppress(sqlite3.Error, Unusable), self._file.transaction():
            return self._file.responses()
        return []

    # --- the file --------------------------------------------------------------------------------------

    @property
    def _joined(self) -> Tenant:
        assert self._mine is not None, "a study joins first"
        return self._mine

    def _settle(self, holds: Mapping[Hashable, Amount]) -> bool:
        """Write down what we want and hold, and return whether that is allowed; if not, we hold what we held."""
        if not self._file.is_there:
            self._take_up(open_ledger(self._given))
        try:
            with self._file.transaction():
                there, mine, allowed = self._look(holds)
        except (sqlite3.Error, Unusable) as error:
            if self._may_pass(error):
                return False
            self._take_up(in_memory(self.path, told(self.path, error)))
            return self._settle(holds)
        self._locked_since_s, self.trouble = None, self._file.trouble
        self._there, self._mine, self.share = there, mine, share_of(mine, there, self.budget)
        if allowed:
            self._holds = dict(holds)
        return allowed

    def _look(self, holds: Mapping[Hashable, Amount]) -> tuple[list[Tenant], Tenant, bool]:
        now_s = self._clock.now_s()
        there = self._sweep(now_s)
        self.budget = (self._file.budget() if there else None) or self._file.set_budget(self._offered)
        mine = self._joined
        before = next((one for one in there if one.id == mine.id), None)
        if before is None:  # we come, or were taken for dead, or this is another file
            before = mine = self._file.add(mine)
            there.append(mine)
        there = [mine if one.id == mine.id else one for one in there]
        held = self._sum(holds)
        allowed = share_of(mine, there, self.budget).allows(held)
        if allowed:
            began_s = now_s if mine.began_s is None and held != NOTHING else mine.began_s
            mine = replace(mine, held=held, began_s=began_s)
        if mine != before or now_s - before.seen_s > SEEN_S:
            mine = replace(mine, seen_s=now_s)
            self._file.update(mine)
        return [mine if one.id == mine.id else one for one in there], mine, allowed

    def _sweep(self, now_s: float) -> list[Tenant]:
        """Return who is there, and write down who is gone."""
        there = []
        for one in self._file.tenants():
            mine = self._mine is not None and one.id == self._mine.id
            if not mine and is_gone(one, space=self._process.space, started=started, now_s=now_s):
                self._file.remove(one, now_s=now_s, died=True)
            else:
                there.append(one)
        return there

    def _sum(self, holds: Mapping[Hashable, Amount]) -> Amount:
        return total(amount.within(self.budget) for amount in holds.values())

    def _may_pass(self, error: Exception) -> bool:
        """Say whether it is worth waiting: a file that is locked may be free a moment later."""
        now_s = self._clock.now_s()
        if not isinstance(error, sqlite3.Error) or code(error) not in BUSY:
            return False
        if self._locked_since_s is None:
            self._locked_since_s = now_s
        self.trouble = told(self.path, error)
        return now_s - self._locked_since_s < PATIENCE_S

    def _take_up(self, found: LedgerFile) -> None:
        """Go on with another file, or with what stands in for it; we come there anew, and hold what we hold."""
        with contextlib.suppress(sqlite3.Error):
            self._file.connection.close()
        self._file, self.path, self.trouble = found, found.path, found.trouble
        self._mine = replace(self._joined, id=0)
