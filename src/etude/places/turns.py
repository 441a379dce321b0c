"""Turns to write: of all processes on a machine that save states of a study, few do so at a time.

They share a disk, so more of them would only each take longer, and have more on the disk that counts for nothing yet. A
turn is a lock on a byte of a file: whoever dies gives it back, and processes that a training function starts do not
have it as well.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

TURNS: Final = 2
"""One writes to the disk, say, while another one computes digests."""

PATIENCE_S: Final = 60.0
"""Seconds after which nobody is waited for any more: who stands still must not keep others from saving."""

LOOK_S: Final = 0.01
TAKEN: Final = (BlockingIOError, PermissionError)


class Turn:
    """A turn to write a state, over and over.

    Args:
        path: The file that those share who wait for each other; None for somebody who waits for nobody.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file = -1

    def take(self, *, given_up: Callable[[], bool] = lambda: False) -> None:
        """Wait for a turn, and take it; not for ever.

        Args:
            given_up: Says whether it is not wanted any more.
        """
        until = time.monotonic() + PATIENCE_S
        while not self.taken() and not given_up() and time.monotonic() < until:
            time.sleep(LOOK_S)

    def taken(self) -> bool:
        """Take a turn if there is one; return whether nobody has to be waited for."""
        if self._path is None:
            return True
        try:
            if self._file < 0:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            for nth in range(TURNS):
                with contextlib.suppress(*TAKEN):
                    fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, nth)
                    return True
        except OSError:  # where there are no locks, or nothing can be written, nobody is waited for
            return True
        return False

    def end(self) -> None:
        """Give the turn back, if it was taken."""
        if self._file >= 0:
            file, self._file = self._file, -1
            os.close(file)
