"""Attempt logs: head and tail are kept, whatever is printed in between.

The head goes to ``log.txt`` as it comes. Once it is full, the newest output is kept in memory and
put to ``log.tail.txt`` now and then; at the end both become one file that says how much is missing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

LOG: Final = "log.txt"
TAIL: Final = "log.tail.txt"
PIECE: Final = 1 << 16
FLUSH_EVERY: Final = 1 << 18
"""Bytes of output after which the tail on disk is renewed."""


class AttemptLog:
    """Reads the output of one child from a pipe.

    Args:
        limit: Bytes to keep, half from the start, half from the end.
    """

    def __init__(self, limit: int) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self._half = limit // 2
        self._folder: Callable[[], Path] | None = None
        self._early = bytearray()  # printed before there was an attempt
        self._early_dropped = 0
        self._head: int | None = None
        self._head_size = 0
        self._tail = bytearray()
        self._unflushed = 0
        self._dropped = 0

    def fileno(self) -> int:
        """Return the end that ``select`` watches."""
        return self.read_end

    def belong_to(self, folder: Callable[[], Path]) -> None:
        """Keep what comes from now on in ``folder()``, which is made when there is something."""
        self.finish()
        self._folder = folder
        early, self._early = self._early, bytearray()
        self._dropped, self._early_dropped = self._early_dropped, 0
        if early:
            self._keep(bytes(early))

    def drain(self, most: int = 1 << 30) -> bool:
        """Take in what is there, ``most`` bytes at most; False at the end of the stream."""
        while most > 0:
            try:
                piece = os.read(self.read_end, PIECE)
            except BlockingIOError:
                return True
            if not piece:
                return False
            most -= len(piece)
            self._keep(piece)
        return True

    def finish(self) -> None:
        """Put head and tail together; the log takes a new attempt afterwards."""
        if self._head is not None:
            self._cut_tail()
            if self._dropped:
                self._write(f"\n... {self._dropped:,} bytes left out ...\n".encode())
            self._write(self._tail)
            with contextlib.suppress(OSError):
                os.close(self._head)
            if (path := self._path(TAIL)) is not None:
                with contextlib.suppress(OSError):
                    path.unlink()
        self._folder, self._head, self._head_size = None, None, 0
        self._tail, self._unflushed, self._dropped = bytearray(), 0, 0

    def close(self) -> None:
        """Finish and close the pipe."""
        self.finish()
        os.close(self.read_end)

    def _keep(self, piece: bytes) -> None:
        if self._folder is None:
            self._early += piece
            surplus = max(0, len(self._early) - PIECE)
            del self._early[:surplus]
            self._early_dropped += surplus
            return
        if self._head is None and not self._open():
            self._dropped += len(piece)
            return
        room = self._half - self._head_size
        if room > 0:
            head, piece = piece[:room], piece[room:]
            self._dropped += len(head) - self._write(head)
            self._head_size += len(head)
        if piece:
            self._keep_tail(piece)

    def _open(self) -> bool:
        """Open the log; False where it cannot be, which costs output, never the attempt or the worker."""
        path = self._path(LOG)
        if path is not None:
            with contextlib.suppress(OSError):
                self._head = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        return self._head is not None

    def _path(self, name: str) -> Path | None:
        assert self._folder is not None
        try:
            return self._folder() / name
        except OSError:
            return None

    def _keep_tail(self, piece: bytes) -> None:
        self._tail += piece
        if len(self._tail) > 2 * self._half:  # cut in large steps: each byte is moved once
            self._cut_tail()
        self._unflushed += len(piece)
        if self._unflushed >= FLUSH_EVERY:
            self._unflushed = 0
            if (path := self._path(TAIL)) is not None:
                with contextlib.suppress(OSError):
                    path.write_bytes(self._tail[max(0, len(self._tail) - self._half) :])

    def _cut_tail(self) -> None:
        surplus = max(0, len(self._tail) - self._half)
        del self._tail[:surplus]
        self._dropped += surplus

    def _write(self, piece: bytes | bytearray) -> int:
        """Append to the log and return how many bytes it took: on a full disk, fewer than there are."""
        assert self._head is not None
        taken = 0
        with contextlib.suppress(OSError), memoryview(piece) as rest:
            while taken < len(rest):
                taken += os.write(self._head, rest[taken:])
        return taken
