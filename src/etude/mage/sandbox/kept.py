"""What is kept of a long output: its beginning and its end."""

from __future__ import annotations

from collections import deque


class Kept:
    """The beginning and the end of what came, in bounded memory.

    Args:
        most: So many bytes are kept, half from the beginning and half from the end.
    """

    def __init__(self, most: int) -> None:
        self._head_most = most - most // 2
        self._tail_most = most // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._left_out = 0

    def add(self, part: bytes) -> None:
        """Take what came next."""
        room = self._head_most - len(self._head)
        self._head += part[:room]
        if rest := part[room:]:
            self._tail.append(rest)
            self._tail_bytes += len(rest)
        while self._tail_bytes > self._tail_most:
            first = self._tail.popleft()
            over = self._tail_bytes - self._tail_most
            gone = min(over, len(first))
            if gone < len(first):
                self._tail.appendleft(first[gone:])
            self._tail_bytes -= gone
            self._left_out += gone

    def whole(self) -> bytes:
        """Return what was kept, with a line where something is left out."""
        told = f"\n[... {self._left_out:,} bytes are left out ...]\n".encode() if self._left_out else b""
        return bytes(self._head) + told + b"".join(self._tail)
