"""Frames on a socket: four bytes of length, then as many bytes of content.

``Frames`` takes a stream apart, whatever pieces it comes in. ``Channel`` is a blocking socket with
frames on it, for processes that do one thing at a time and for those that ``select``.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Final

LENGTH: Final = struct.Struct(">I")
MAX_FRAME: Final = 2**30
"""Nothing that Étude sends is larger than 1 GB; a longer frame is a stream out of step."""


class Frames:
    """Takes a byte stream apart into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Add what came in and yield every frame that is whole.

        Raises:
            ConnectionError: The stream is out of step: no frame is that long.
        """
        buffer = self._buffer
        buffer += piece
        start, end = 0, len(buffer)
        while end - start >= LENGTH.size:
            (size,) = LENGTH.unpack_from(buffer, start)
            if size > MAX_FRAME:
                raise ConnectionError(f"a frame of {size} bytes was announced; at most {MAX_FRAME} are possible")
            if end - start < LENGTH.size + size:
                break
            start += LENGTH.size
            yield bytes(memoryview(buffer)[start : start + size])
            start += size
        del buffer[:start]


def frame(content: bytes) -> bytes:
    """Return ``content`` as it goes over the wire."""
    return LENGTH.pack(len(content)) + content


class Channel:
    """A socket with frames on it.

    Args:
        sock: A connected stream socket in blocking mode.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._frames = Frames()
        self._whole: list[bytes] = []

    def fileno(self) -> int:
        """Return the socket's file descriptor, so that ``select`` takes the channel as it is."""
        return self.sock.fileno()

    def send(self, content: bytes) -> None:
        """Send one frame.

        Raises:
            OSError: The other end is gone.
        """
        self.sock.sendall(frame(content))

    def send_with_fds(self, content: bytes, fds: list[int]) -> None:
        """Send one short frame together with open file descriptors."""
        socket.send_fds(self.sock, [frame(content)], fds)

    def read(self) -> list[bytes] | None:
        """Return the frames that one read brings; None at the end of the stream."""
        try:
            piece = self.sock.recv(1 << 18)
        except ConnectionError:
            return None
        return list(self._frames.feed(piece)) if piece else None

    def receive(self) -> bytes | None:
        """Wait for the next frame and return it; None at the end of the stream."""
        while not self._whole:
            frames = self.read()
            if frames is None:
                return None
            self._whole = frames
        return self._whole.pop(0)

    def receive_with_fds(self, count: int) -> tuple[bytes, list[int]] | None:
        """Wait for a frame sent by ``send_with_fds``; None at the end of the stream."""
        piece, fds, _, _ = socket.recv_fds(self.sock, 1 << 16, count)
        if not piece:
            return None
        (content,) = self._frames.feed(piece)
        return content, list(fds)

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()
