"""The driver's end of the connections to its workers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import ClassVar, Literal, Protocol

import msgspec

from etude.wire import messages
from etude.wire.channel import PIECE, Frames, frame
from etude.wire.messages import Serve


class Listener(Protocol):
    """Who wants to know what workers say."""

    def heard(self, link: WorkerLink, message: messages.FromWorker) -> None:
        """Take in a message."""
        ...

    def gone(self, link: WorkerLink, reason: str) -> None:
        """Take in that a worker is gone."""
        ...


class WorkerLink(asyncio.Protocol):
    """The driver's end of the connection to a worker of this machine.

    Attributes:
        name: The worker's name.
        ready: Whether it has taken the study up.
        carried: Whether a node carries it (``wire.gate``), and ends and replaces it, or the engine does.
        cut_off: Whether the connection to its machine is gone.
        source: Where it comes from: this machine, which needs no name.
    """

    carried: ClassVar[Literal[False]] = False
    cut_off: ClassVar[Literal[False]] = False
    source: ClassVar[str] = ""

    def __init__(self, name: str, sock: socket.socket, listener: Listener) -> None:
        self.name = name
        self.ready = False
        self._sock = sock
        self._listener = listener
        self._frames = Frames()
        self._transport: asyncio.WriteTransport | None = None
        self._closed = False
        self._outgoing: list[bytes] = []

    async def open(self, serve: Serve) -> None:
        """Connect, and tell the worker what it is to work for."""
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=self._sock)
        self.send(serve)

    def send(self, message: messages.Message) -> None:
        """Send a message; never waits. Messages of one turn of the event loop leave together."""
        if self._transport is None:
            return
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self.flush)
        self._outgoing.append(frame(messages.encode(message)))

    def flush(self) -> None:
        """Let what was sent leave now."""
        outgoing, self._outgoing = self._outgoing, []
        if self._transport is not None and outgoing:
            self._transport.write(b"".join(outgoing))

    def close(self) -> None:
        """Close our end; nothing is heard of it any more."""
        self._closed = True
        if self._transport is None:
            self._sock.close()
        else:
            self.flush()
            self._transport.close()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection (asyncio)."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        if self._closed:  # while it was being opened
            self.close()

    def data_received(self, data: bytes) -> None:
        """Take in what came (asyncio)."""
        try:
            for content in self._frames.feed(data):
                message = messages.decode_from_worker(content)
                if self._closed:  # what came before made the listener part with it
                    return
                self._listener.heard(self, message)
        except (ConnectionError, msgspec.DecodeError) as error:
            if not self._closed:
                self.close()
                self._listener.gone(self, f"it sent what is no message ({error})")

    def connection_lost(self, exc: Exception | None) -> None:
        """Notice that the other end is gone (asyncio)."""
        self._transport = None
        if not self._closed:
            self._hear_out()
        if not self._closed:
            self._closed = True
            # A reset is an end as well: it had not read everything that we sent.
            ended = exc is None or isinstance(exc, ConnectionError)
            self._listener.gone(self, "its process ended" if ended else str(exc))

    def _hear_out(self) -> None:
        """Take in what it said before it went: asyncio forgets that if it found out by writing."""
        with contextlib.suppress(OSError):
            while piece := self._sock.recv(PIECE):
                self.data_received(piece)


connect: Callable[[str, socket.socket, Listener], WorkerLink] = WorkerLink
"""Makes the driver's end of each connection. This is the seam for tests: ``etude.testing.unruly`` puts a link here that
holds messages back and says them twice. Nothing else exchanges it."""
