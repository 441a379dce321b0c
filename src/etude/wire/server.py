"""The driver's end of the connections to its workers."""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol

import msgspec

from etude.wire import messages
from etude.wire.channel import Frames, frame
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
    """The driver's end of the connection to a worker."""

    def __init__(self, name: str, sock: socket.socket, listener: Listener) -> None:
        self.name = name
        self.ready = False
        self._sock = sock
        self._listener = listener
        self._frames = Frames()
        self._transport: asyncio.WriteTransport | None = None

    async def open(self, serve: Serve) -> None:
        """Connect, and tell the worker what it is to work for."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_connection(lambda: self, sock=self._sock)
        self.send(serve)

    def send(self, message: messages.Message) -> None:
        """Send a message; never waits."""
        if self._transport is not None:
            self._transport.write(frame(messages.encode(message)))

    def close(self) -> None:
        """Close our end."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def data_received(self, data: bytes) -> None:
        """Take in what came (asyncio)."""
        try:
            for content in self._frames.feed(data):
                self._listener.heard(self, messages.decode_from_worker(content))
        except (ConnectionError, msgspec.DecodeError) as error:
            self._listener.gone(self, f"it sent what is no message ({error})")

    def connection_lost(self, exc: Exception | None) -> None:
        """Notice that the other end is gone (asyncio)."""
        if self._transport is not None:
            self._transport = None
            self._listener.gone(self, "its process ended" if exc is None else str(exc))
