"""Who may write to a study's mirror: one driver at a time, without locks, which few such places have.

The lease is a small file with the holder's name and a counter that grows while it lives. Whoever finds one waits and
sees whether the counter moves. Two that take it at the same moment both write, and one of them reads the other's name
afterwards: that is why what was shipped counts only after another look.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from typing import Final

import msgspec

from etude.core.errors import StudyInUseError
from etude.store import segments
from etude.store.lease import host_id, start_time
from etude.store.remote import Remote

LEASE: Final = "lease.json"
WATCH_S: Final = 10.0
LOOK_S: Final = 0.5


class Holder(msgspec.Struct, frozen=True):
    """Who writes to a mirror: the content of its lease.

    Attributes:
        epoch: Counts drivers.
        token: Tells two of them apart that took the same epoch at the same moment.
        host, pid, started: The driver's process.
        counter: Grows while it lives.
        over: Whether it has said goodbye.
    """

    epoch: int
    token: str
    host: str
    pid: int
    started: str
    counter: int = 0
    over: bool = False


class RemoteLease:
    """The right to write to a mirror.

    Args:
        remote: The mirror.
    """

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._mine: Holder | None = None
        self._token = secrets.token_hex(8)
        self._newest = 0  # the last epoch that was ours

    @property
    def epoch(self) -> int:
        """The epoch that we hold; 0 if none."""
        return self._mine.epoch if self._mine is not None else 0

    def take(
        self,
        *,
        force: bool = False,
        wait: Callable[[float], None] = time.sleep,
        now_s: Callable[[], float] = time.monotonic,
    ) -> int:
        """Take the lease and return the new epoch. What the last holder writes from now on does not count.

        It may be taken again, if what was written of it is gone.

        Raises:
            StudyInUseError: A driver that is alive holds it, and ``force`` is not given; or it was ours, and another
                driver took it over.
        """
        held = self._read()
        self._refuse_if_overtaken(held)
        began = now_s()
        while held is not None and not self._may_take(held, force) and now_s() - began < WATCH_S:
            wait(LOOK_S)
            if (now := self._read()) != held:
                who = now or held
                raise StudyInUseError(
                    f"Another driver (process {who.pid} on {who.host.partition('/')[0]}) writes to the mirror "
                    f"{self._remote.url}. Wait for it or stop it; if it may be cut off, `etude resume "
                    f"{self._remote.url} --force` goes on here, and that one stops when it notices."
                )
        known = segments.numbers_in(self._remote.names(segments.FOLDER))
        written = [number for number, _ in known[-1:]] + ([held.epoch] if held is not None else [])
        epoch = 1 + max([self._newest, *written])
        mine = Holder(epoch, self._token, host_id(), os.getpid(), start_time(os.getpid()) or "")
        self._remote.make("", segments.FOLDER)
        self._write(mine)
        self._mine, self._newest = mine, epoch
        return epoch

    def is_this_machines(self) -> bool:
        """Say whether a driver on this machine was the last to take it."""
        held = self._read()
        return held is not None and held.host.partition("/")[0] == host_id().partition("/")[0]

    def check(self) -> None:
        """Make sure that it is still ours.

        Raises:
            StudyInUseError: It is another driver's now.
            FileNotFoundError: What we wrote of it is gone, and no other driver is to be seen: the place is not there
                any more, or not as it was.
        """
        held = self._read()
        self._refuse_if_overtaken(held)
        if held is None or (held.token, held.epoch) != (self._token, self.epoch):
            raise FileNotFoundError(f"{LEASE}, which was there, is gone")

    def beat(self) -> None:
        """Show that we are alive."""
        assert self._mine is not None
        beaten = msgspec.structs.replace(self._mine, counter=self._mine.counter + 1)
        self._write(beaten)
        self._mine = beaten

    def release(self) -> None:
        """Say goodbye, so that the next driver need not wait."""
        if self._mine is not None:
            self._write(msgspec.structs.replace(self._mine, over=True))
            self._mine = None

    def _may_take(self, held: Holder, force: bool) -> bool:
        return force or held.token == self._token or _is_gone(held)

    def _refuse_if_overtaken(self, held: Holder | None) -> None:
        """Refuse to go on if a driver has the lease that was ours.

        One of an earlier epoch that is over never took it from us: it comes from an old copy of the place.
        """
        if held is None or not self._newest or held.token == self._token:
            return
        if held.epoch >= self._newest or not _is_gone(held):
            raise StudyInUseError(
                f"Another driver (process {held.pid} on {held.host.partition('/')[0]}) has taken over the mirror "
                f"{self._remote.url}. This one stops: what it did since is in its own folder alone."
            )

    def _read(self) -> Holder | None:
        content = self._remote.get(LEASE)
        if content is None:
            return None
        try:
            return msgspec.json.decode(content, type=Holder)
        except msgspec.DecodeError:  # half of it, where files do not appear whole
            return None

    def _write(self, holder: Holder) -> None:
        self._remote.put(LEASE, msgspec.json.encode(holder))


def _is_gone(held: Holder) -> bool:
    return held.over or (held.host == host_id() and start_time(held.pid) != held.started)
