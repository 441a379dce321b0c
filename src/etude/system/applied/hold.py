"""Holding something that a whole machine shares, one process at a time, so that no death leaves it changed for ever.

A holder has a file locked, and has written into it what it found, before it changes anything. The kernel takes the lock
away when the holder ends, however it ends; the file stays, and says to the next holder what to put back first. So an
empty file is nothing to do, a torn text is from before the first change, and one of another start of the machine speaks
of what is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, final

from etude.system.applied.part import Refused
from etude.system.groups import text

LOCKS: Final = Path("/run/lock")
"""Where locks of a machine are kept, for all its users. It is empty after a start."""
BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
MOST: Final = 1 << 20
"""Bytes of a file that are read."""

Found = Mapping[str, str]
"""What was found, as texts by name."""
PutBack = Callable[[Found], None]


@final
class Hold:
    """Something that is held. ``take`` makes one.

    Attributes:
        mended: That somebody was found to have died while holding it, and what was done; empty if nobody.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.mended = ""

    @classmethod
    def take(cls, file: Path, put_back: PutBack) -> Hold:
        """Return it, held by this process; what a holder has left that died is put back.

        Args:
            file: What is locked. It is made if there is none, and never removed.
            put_back: Is given what such a holder found.

        Raises:
            Refused: Another process holds it, or the file cannot be used.
            OSError: What was found cannot be put back. Then it is still there for the next holder.
        """
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise Refused(f"{file}, which keeps studies apart, cannot be opened: {error.strerror}.") from None
        with contextlib.ExitStack() as on_error:
            on_error.callback(os.close, descriptor)
            _refuse_strangers(file, descriptor)
            hold = cls(descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = f"process {hold._said().get('pid', '?')}"
                raise Refused(f"another study on this machine has it: {holder}. It is free when that ends.") from None
            left = hold._said()
            if left:
                put_back(left["found"])
                hold.mended = f"What process {left.get('pid', '?')} had left when it was killed was put back."
                os.ftruncate(descriptor, 0)
            on_error.pop_all()
        return hold

    def remember(self, found: Found) -> None:
        """Write down what was found; before anything is changed."""
        said = json.dumps({"boot": text(BOOT), "pid": os.getpid(), "found": dict(found)}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, said, 0)

    def release(self) -> None:
        """Let go of it: all was put back."""
        os.ftruncate(self._descriptor, 0)
        self.abandon()

    def abandon(self) -> None:
        """Let go of it though not all was put back: the next holder does that."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # a forked process may have the file open still
        os.close(self._descriptor)

    def _said(self) -> dict[str, Any]:
        """Return what the file says of this start of the machine; nothing, if that is not whole."""
        with contextlib.suppress(ValueError):
            said = json.loads(os.pread(self._descriptor, MOST, 0))
            if isinstance(said, dict) and said.get("boot") == text(BOOT) and isinstance(said.get("found"), dict):
                return said
        return {}


def _refuse_strangers(file: Path, descriptor: int) -> None:
    """Refuse a file of another user: where all may write, it may say anything."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()):
        raise Refused(f"{file}, which keeps studies apart, is another user's. Remove it.")
