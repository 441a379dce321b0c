"""A door as a study has one, for checks that do one thing at a time: every worker is a socket, wherever it is."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

from etude.wire.channel import PIECE, Frames, frame
from etude.wire.credentials import Invitation, make_keys
from etude.wire.gate import Gate, NodeWorker
from etude.wire.messages import FromWorker, Serve, decode_to_worker, encode
from etude.wire.node_messages import Piece

END_S: Final = 20.0


class Door:
    """How workers come to a check (``engines.Door``).

    Args:
        serve: What workers of nodes are told about the study.
        connected: Takes the workers that are handed over as sockets, in the thread that does it.

    Attributes:
        folder: The study's folder.
        came: The workers that nodes brought, each with a socket.
        errors: Why no worker will come any more.
    """

    def __init__(self, serve: Serve, connected: Callable[[str, socket.socket], None]) -> None:
        self.folder = Path(serve.trials).parent
        self.connect = connected
        self.came: queue.Queue[tuple[str, socket.socket]] = queue.Queue()
        self.errors: list[BaseException] = []
        self._serve = serve
        self._gate: Gate | None = None
        self._invitation: Invitation | None = None
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread
        self._bridges: dict[NodeWorker, _Bridge] = {}

    def invite(self, bind: str, port: int = 0, advertise: Sequence[str] = ()) -> Invitation:
        """Let nodes in from now on."""
        if self._invitation is not None:
            return self._invitation
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._gate = gate = Gate(self._serve, host=self, keys=make_keys())

        async def open_it() -> Invitation:
            return gate.open(bind, port, advertise)

        self._invitation = self._do(open_it())
        return self._invitation

    @property
    def invited(self) -> bool:
        """Whether the engine has taken an invitation."""
        return self._gate is not None

    def tell(self, text: str) -> None:
        """What users are told is nobody's here."""

    def fail(self, error: BaseException) -> None:
        """Take in why no worker will come."""
        self.errors.append(error)

    def ends(self, worker: str) -> bool:
        """End a worker that a node brought, as a study does; False if none of that name was."""
        link = next((link for link in self._bridges if link.name == worker), None)
        if link is None:
            return False

        async def end() -> bool:
            link.close()
            ended = await link.ended(END_S)
            self._bridges[link].close()
            return ended

        ended: bool = self._do(end())
        return ended

    def close(self) -> None:
        """Send all nodes home, as a study does before it stops its engine."""
        if self._gate is None:
            return

        async def close(gate: Gate) -> None:
            gate.close()
            for bridge in self._bridges.values():
                bridge.close()
            while gate.nodes:  # until what they were told has left
                await asyncio.sleep(0.01)

        with contextlib.suppress(TimeoutError):
            self._do(close(self._gate))
        self._gate = None
        while not self.came.empty():
            self.came.get()[1].close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # --- what comes through the gate (wire.gate.Host) ---------------------------------------------

    def remarked(self, node: str, text: str) -> None:
        """Remarks are nobody's here."""

    def refused(self, why: str) -> None:
        """Nobody is to come here but those that the engine brings."""

    def arrived(self, link: NodeWorker) -> None:
        """Make a socket of a worker."""
        ours, theirs = socket.socketpair()
        self._bridges[link] = _Bridge(link, ours, self._serve)
        self.came.put((link.name, theirs))

    def heard(self, link: NodeWorker, message: FromWorker) -> None:
        """Pass on what a worker says."""
        self._bridges[link].say(encode(message))

    def brought(self, link: NodeWorker, piece: Piece) -> None:
        """Files of attempts are nobody's here."""

    def gone(self, link: NodeWorker, reason: str) -> None:
        """End the socket of a worker that is gone."""
        self._bridges[link].close()

    def _do(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(END_S + 1.0)


class _Bridge:
    """A worker of a node, and the socket that stands for it. Lives in the door's event loop."""

    def __init__(self, link: NodeWorker, sock: socket.socket, serve: Serve) -> None:
        self._link = link
        self._sock = sock
        self._serve = serve
        self._frames = Frames()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._read)

    def say(self, content: bytes) -> None:
        """Pass on a message to the check."""
        if self._sock.fileno() >= 0:
            self._sock.sendall(frame(content))

    def close(self) -> None:
        """End the socket."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            self._sock.close()

    def _read(self) -> None:
        try:
            piece = self._sock.recv(PIECE)
        except ConnectionError:  # the check has closed its end, and had not read all
            piece = b""
        if not piece:
            self.close()
            self._link.close()
            return
        for content in self._frames.feed(piece):
            message = decode_to_worker(content)
            if isinstance(message, Serve):
                self._tasks = self._loop.create_task(self._link.open(message))
            else:
                self._link.send(message)
