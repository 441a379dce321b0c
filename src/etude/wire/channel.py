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
PIECE: Final = 1 << 18


class Frames:
    """Takes a byte stream apart into frames.

    Args:
        most: Bytes of the largest frame that is taken; it may be changed while nothing of one is there.
    """

    def __init__(self, most: int = MAX_FRAME) -> None:
        self.most = most
        self._buffer = bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Add what came in and return every frame that is whole, one after the other.

        Raises:
            ConnectionError: When the frames before it were taken: no frame is that long, so the stream is
                out of step.
        """
        self._buffer += piece
        return self._take()

    def missing(self) -> int:
        """Return how many bytes are wanted until more is known: the rest of a length, or of a frame."""
        known = len(self._buffer)
        return LENGTH.size - known if known < LENGTH.size else self._size(0) + LENGTH.size - known

    def _take(self) -> Iterator[bytes]:
        buffer, start = self._buffer, 0
        try:
            while len(buffer) - start >= LENGTH.size:
                end = start + LENGTH.size + self._size(start)
                if len(buffer) < end:
                    break
                content = bytes(memoryview(buffer)[start + LENGTH.size : end])
                start = end
                yield content
        finally:  # also if nobody wants the rest: no frame comes twice
            del buffer[:start]

    def _size(self, start: int) -> int:
        size: int = LENGTH.unpack_from(self._buffer, start)[0]
        if size > self.most:
            raise ConnectionError(f"a frame of {size} bytes was announced; at most {self.most} are possible")
        return size


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
        """Send one frame together with open file descriptors."""
        whole = frame(content)
        sent = socket.send_fds(self.sock, [whole], fds)
        if sent < len(whole):
            self.sock.sendall(whole[sent:])

    def read(self) -> list[bytes] | None:
        """Return the frames that one read brings; None at the end of the stream."""
        piece = self._read(PIECE)
        return list(self._frames.feed(piece)) if piece else None

    def receive(self) -> bytes | None:
        """Wait for the next frame and return it; None at the end of the stream.

        It takes not a byte more than the frame, so that ``select`` goes on to tell what there is.
        """
        while piece := self._read(min(self._frames.missing(), PIECE)):
            for content in self._frames.feed(piece):
                return content
        return None

    def receive_with_fds(self, count: int) -> tuple[bytes, list[int]] | None:
        """Wait for a frame sent by ``send_with_fds``; None at the end of the stream."""
        fds: list[int] = []
        while True:
            piece, more, _, _ = socket.recv_fds(self.sock, min(self._frames.missing(), PIECE), count)
            fds += more
            if not piece:
                return None
            for content in self._frames.feed(piece):
                return content, fds

    def _read(self, most: int) -> bytes:
        try:
            return self.sock.recv(most)
        except ConnectionError:
            return b""

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()
