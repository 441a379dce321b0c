"""The driver's end of the connections to nodes: machines elsewhere that carry workers.

Whoever connects is a stranger until it has said the token of the run, and has ten seconds and few bytes for that.
Nothing that a stranger or a node sends may stop the driver: it costs the connection it came over, and no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import resource
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, Protocol

import msgspec

from etude.core.errors import ConfigError
from etude.core.text import count
from etude.core.version import VERSION
from etude.wire import messages
from etude.wire.channel import Frames, frame
from etude.wire.credentials import Invitation, Keys
from etude.wire.messages import Serve
from etude.wire.node_messages import (
    MOST_CHANNELS,
    PROTOCOL,
    PYTHON,
    Arrived,
    Begin,
    Departed,
    Dismiss,
    Enter,
    Here,
    Leave,
    Piece,
    Refused,
    Remark,
    Source,
    Welcome,
    decode_from_node,
    on_channel,
    ours,
    split,
)

ENTER_S: Final = 10.0
"""Seconds that a stranger has to say who it is, and to read what it is told when it is sent away."""
STRANGERS: Final = 1_000
"""So many may be at the gate at a time, at most; the one that has waited longest makes room."""
FILES: Final = 1 << 16
"""So many files the driver may have open, if the system lets it: each connection is one."""
OTHERS: Final = 256
"""Of these, so many are for the rest of the driver's process."""
BACKLOG: Final = 1_024
"""So many may wait in front of the gate."""
AT_ONCE: Final = 4
"""Of the strangers that there may be, one in so many is taken on at a time: none is sent away meanwhile."""
STRANGER_B: Final = 1 << 16
NODE_B: Final = 1 << 26
"""Bytes of the largest frame that a stranger, and that a node may send."""


class Host(Protocol):
    """Who wants to know what comes through the gate; beside this it is a ``wire.server.Listener``."""

    def remarked(self, node: str, text: str) -> None:
        """Take in what users should be told of a node, given its name."""
        ...

    def refused(self, why: str) -> None:
        """Take in that a node was not let in."""
        ...

    def arrived(self, link: NodeWorker) -> None:
        """Take in that a worker is there."""
        ...

    def heard(self, link: NodeWorker, message: messages.FromWorker) -> None:
        """Take in a message."""
        ...

    def brought(self, link: NodeWorker, piece: Piece) -> None:
        """Take in part of a file."""
        ...

    def gone(self, link: NodeWorker, reason: str) -> None:
        """Take in that a worker is gone."""
        ...


@dataclass
class Refusals:
    """Who was not let in.

    Attributes:
        tokens: How many did not have the token.
        versions: How many were of another version.
        strangers: How many said nothing that made sense, or nothing at all.
    """

    tokens: int = 0
    versions: int = 0
    strangers: int = 0


class Gate:
    """Lets nodes in. Lives in the driver's event loop.

    Args:
        serve: What workers are told about the study.
        host: Who wants to know what they say.
        keys: The certificate and the token of this run.
        sources: Files of the project, for nodes that do not have them.
    """

    def __init__(self, serve: Serve, *, host: Host, keys: Keys, sources: Sequence[Source] = ()) -> None:
        self.serve = serve
        self.host = host
        self.keys = keys
        self.sources = tuple(sources)
        self.refusals = Refusals()
        self.nodes: set[Node] = set()
        self._strangers: dict[Node, None] = {}
        self._tls = keys.context()
        self._server: asyncio.Server | None = None
        self._most_strangers = STRANGERS

    def open(self, bind: str, port: int, advertise: Sequence[str] = ()) -> Invitation:
        """Listen, and return what a node needs to come.

        Args:
            bind: The address to listen on.
            port: The port there; 0 for any that is free.
            advertise: Where it can be reached, if that is not ``bind``.

        Raises:
            ConfigError: The address cannot be had.
        """
        sock = listening_at(bind, port)
        self._most_strangers = max(1, min(STRANGERS, (_files_that_may_be_open() - OTHERS) // 2))
        self._opening = asyncio.get_running_loop().create_task(self._listen(sock))
        port = sock.getsockname()[1]
        return Invitation(tuple(advertise) or reachable_at(bind), port, self.keys.certificate, self.keys.token)

    async def _listen(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        at_once = max(1, self._most_strangers // AT_ONCE)
        self._server = await loop.create_server(lambda: Doorstep(self), sock=sock, backlog=at_once)
        sock.listen(BACKLOG)  # more may wait than are taken on at once

    def beat(self) -> None:
        """Have all nodes know that we are alive."""
        for node in self.nodes:
            node.say(Here())

    def close(self) -> None:
        """Send all nodes home."""
        if self._server is not None:
            self._server.close()
        for node in [*self.nodes, *self._strangers]:
            node.say(Leave())
            node.close()

    # --- what its connections tell ----------------------------------------------------------------

    async def encrypt(self, transport: asyncio.Transport) -> None:
        """Have a stranger show that it knows TLS, and hear what it says then."""
        node = Node(self, transport)
        self._strangers[node] = None
        if len(self._strangers) > self._most_strangers:
            next(iter(self._strangers)).abort()
        try:
            encrypted = await asyncio.get_running_loop().start_tls(
                transport, node, self._tls, server_side=True, ssl_handshake_timeout=ENTER_S, ssl_shutdown_timeout=1.0
            )
        except OSError:  # it does not, or not with our certificate, or it left
            encrypted = None
        if encrypted is None:
            transport.abort()
            self.left(node)
        else:
            node.connection_made(encrypted)

    def entered(self, node: Node, enter: Enter) -> None:
        """Let a stranger in, or say why not."""
        if not hmac.compare_digest(enter.token.encode(errors="replace"), self.keys.token.encode()):
            self.refusals.tokens += 1
            self.host.refused("a wrong token")
            node.refuse(
                "The token is not that of this run. Each run of a study makes a new one: copy the credentials again."
            )
        elif why := self._why_not(enter):
            self.refusals.versions += 1
            self.host.refused("another version")
            node.refuse(why)
        else:
            self._strangers.pop(node, None)
            self.nodes.add(node)
            node.welcome()

    def left(self, node: Node) -> None:
        """Take in that a connection ended."""
        self.nodes.discard(node)
        if node in self._strangers:
            del self._strangers[node]
            self.refusals.strangers += not node.refused

    def _why_not(self, enter: Enter) -> str:
        if enter.protocol != PROTOCOL and enter.etude == VERSION:
            return (
                f"The driver speaks version {PROTOCOL} of the protocol, and this node {enter.protocol}, though both "
                f"call themselves Étude {VERSION}: one of them is an older checkout. Install the same on both."
            )
        if enter.protocol != PROTOCOL or enter.etude != VERSION:
            return f"The driver runs Étude {VERSION}, and this node {enter.etude}. Install the same on both."
        if enter.python != PYTHON:
            return (
                f"The driver runs Python {PYTHON}, and this node {enter.python}: functions travel as code of one "
                "version, which no other one understands. Use the same on both."
            )
        return ""


class Doorstep(asyncio.Protocol):
    """A connection that is not encrypted yet."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, and nothing that it says (asyncio)."""
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        self._encrypting = asyncio.get_running_loop().create_task(self._gate.encrypt(transport))


class Node(asyncio.Protocol):
    """The driver's end of one connection: a stranger at first, then a node with its workers."""

    def __init__(self, gate: Gate, plain: asyncio.Transport) -> None:
        self.name = ""
        self.refused = False
        self._gate = gate
        self._plain = plain
        self._early = b""  # it may speak as soon as the line is encrypted, before we are told that it is
        self._frames = Frames(STRANGER_B)
        self._transport: asyncio.WriteTransport | None = None
        self._workers: dict[int, NodeWorker] = {}
        self._entered = False
        self._patience: asyncio.TimerHandle | None = None
        self._outgoing: list[bytes] = []
        self._is_free = asyncio.Event()
        self._is_free.set()

    # --- asyncio ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection (asyncio)."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._patience = asyncio.get_running_loop().call_later(ENTER_S, self.abort)
        early, self._early = self._early, b""
        self.data_received(early)

    def data_received(self, data: bytes) -> None:
        """Take in what came (asyncio)."""
        if self._transport is None:
            self._early += data[:STRANGER_B]
            return
        try:
            for content in self._frames.feed(data):
                if self._transport is None or self.refused:
                    return
                self._take(content)
        except (ConnectionError, msgspec.DecodeError) as error:
            self._lose(f"its node sent what is no message ({error})")
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notice that the other end is gone (asyncio)."""
        self._transport = None
        self._is_free.set()
        if self._patience is not None:
            self._patience.cancel()
        self._gate.left(self)
        self._lose(
            "its node's connection ended" + (f" ({exc})" if exc and not isinstance(exc, ConnectionError) else "")
        )

    @property
    def gone(self) -> bool:
        """Whether the connection has ended."""
        return self._transport is None

    @property
    def theirs(self) -> str:
        """The address of its end of the connection."""
        return self._address("peername")

    @property
    def ours(self) -> str:
        """The address of our end of it."""
        return self._address("sockname")

    def _address(self, end: str) -> str:
        found = self._transport.get_extra_info(end) if self._transport is not None else None
        return str(found[0]) if found else ""

    # --- what is sent -----------------------------------------------------------------------------

    def welcome(self) -> None:
        """Let it in."""
        self._entered = True
        self._frames.most = NODE_B
        if self._patience is not None:
            self._patience.cancel()
        self.say(Welcome(self._gate.serve, self._gate.sources))

    def refuse(self, reason: str) -> None:
        """Send it away; it has some seconds to read why."""
        self.say(Refused(reason))
        self.refused = True

    def say(self, message: messages.Message) -> None:
        """Send a message to the node itself."""
        self.send(ours(message))

    def send(self, content: bytes) -> None:
        """Send a frame; never waits. Those of one turn of the event loop leave together."""
        if self._transport is None:
            return
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self.flush)
        self._outgoing.append(frame(content))

    def flush(self) -> None:
        """Let what was sent leave now."""
        outgoing, self._outgoing = self._outgoing, []
        if self._transport is not None and outgoing:
            self._transport.write(b"".join(outgoing))

    def pause_writing(self) -> None:
        """Note that the line takes no more for now (asyncio)."""
        self._is_free.clear()

    def resume_writing(self) -> None:
        """Note that it does again (asyncio)."""
        self._is_free.set()

    async def drained(self) -> None:
        """Wait until the line takes more, or is gone."""
        self.flush()
        await self._is_free.wait()

    def close(self) -> None:
        """Close the connection, when what was sent has left."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        (self._transport or self._plain).abort()

    def forget(self, channel: int) -> None:
        """Hear nothing of a worker any more."""
        self._workers.pop(channel, None)

    # --- what is heard ----------------------------------------------------------------------------

    def _take(self, content: bytes) -> None:
        channel, content = split(content)
        if not channel:
            self._take_ours(content)
            return
        if not self._entered:
            raise msgspec.DecodeError("a worker speaks, and its node was not let in")
        link = self._workers.get(channel)
        message = messages.decode_from_worker(content)
        if link is not None and not link.closed:
            self._gate.host.heard(link, message)

    def _take_ours(self, content: bytes) -> None:
        message = decode_from_node(content)
        if isinstance(message, Enter) is self._entered:
            raise msgspec.DecodeError("a node enters first, and once")
        match message:
            case Enter():
                self.name = f"{message.host[:64]}:{message.pid}"
                self._gate.entered(self, message)
            case Remark(text=text):
                self._gate.host.remarked(self.name, text)
            case Arrived(channel=channel, worker=worker):
                if not 0 < channel <= MOST_CHANNELS or channel in self._workers:
                    raise msgspec.DecodeError("a channel that cannot be")
                link = self._workers[channel] = NodeWorker(worker, channel, self)
                self._gate.host.arrived(link)
            case Departed(channel=channel, reason=reason):
                if (found := self._workers.pop(channel, None)) is not None:
                    found.depart(self._gate.host, reason)
            case Piece(channel=channel):
                if (found := self._workers.get(channel)) is not None:
                    self._gate.host.brought(found, message)

    def _lose(self, reason: str) -> None:
        workers, self._workers = self._workers, {}
        for link in workers.values():
            link.depart(self._gate.host, reason)


@dataclass(eq=False)
class NodeWorker:
    """A worker on a node, as the driver's shell sees it: like a ``wire.server.WorkerLink``.

    Attributes:
        name: The worker's name.
        channel: Its number on its node's connection.
        node: That connection.
        ready: Whether it has taken the study up.
        closed: Whether nothing is heard of it any more.
        waiting: What is sent when the files ahead of it have left; None if none are on their way.
        carried: Whether a node carries it, and ends and replaces it, or the engine does.
    """

    carried: ClassVar[Literal[True]] = True

    name: str
    channel: int
    node: Node
    ready: bool = False
    closed: bool = False
    waiting: list[messages.Message] | None = None
    _gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def source(self) -> str:
        """Where it comes from: its node."""
        return self.node.name

    def send_home(self, reason: str) -> None:
        """Have its node leave for good, and tell its people why."""
        self.node.refuse(reason)
        self.node.close()

    @property
    def cut_off(self) -> bool:
        """Whether the connection to its machine is gone, which is not its fault."""
        return self.node.gone

    async def open(self, serve: Serve) -> None:
        """Tell the worker to take the study up, of which its node knows."""
        self.node.say(Begin(self.channel))

    def send(self, message: messages.Message) -> None:
        """Send a message; never waits."""
        if self.waiting is not None:
            self.waiting.append(message)
        elif not self.closed:
            self.node.send(on_channel(self.channel, messages.encode(message)))

    async def bring(self, pieces: Iterator[Piece], message: messages.Message) -> None:
        """Send files ahead of a message, as fast as the line takes them; what is sent meanwhile comes behind."""
        self.waiting = [message]
        loop = asyncio.get_running_loop()
        try:
            while not self.closed and (piece := await loop.run_in_executor(None, next, pieces, None)) is not None:
                self.node.say(msgspec.structs.replace(piece, channel=self.channel))
                await self.node.drained()
        finally:
            waiting, self.waiting = self.waiting, None
            for one in waiting:
                self.send(one)
            self.flush()

    def flush(self) -> None:
        """Let what was sent leave now."""
        self.node.flush()

    def close(self) -> None:
        """Part with it: it is ended, and nothing is heard of it any more."""
        if not self.closed:
            self.closed = True
            self.node.say(Dismiss(self.channel))

    async def ended(self, patience_s: float) -> bool:
        """Wait until it has ended, or its node is gone; return whether that came about in time."""
        try:
            async with asyncio.timeout(patience_s):
                await self._gone.wait()
        except TimeoutError:
            self.node.forget(self.channel)
            return False
        return True

    def depart(self, host: Host, reason: str) -> None:
        """Take in that it is gone."""
        self._gone.set()
        if not self.closed:
            self.closed = True
            host.gone(self, reason)


def listening_at(bind: str, port: int) -> socket.socket:
    """Return a socket that listens on an address of this machine.

    Raises:
        ConfigError: The address cannot be had.
    """
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    try:
        return socket.create_server((bind, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"No workers can be let in at {bind}, port {port}: {error.strerror or error}. Name an address of this "
            "machine, and a port that nobody uses, or 0."
        ) from error


def reachable_at(bind: str) -> tuple[str, ...]:
    """Return where a socket that is bound to an address can be reached from elsewhere, as far as that can be told."""
    if bind not in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not bound to
        return (bind,)
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: the kernel says which address it would send from
            found.append(probe.getsockname()[0])
        except OSError:
            pass
    found.append(socket.gethostname())
    return tuple(dict.fromkeys(found))


def _files_that_may_be_open() -> int:
    """Have the limit of open files as large as the system lets it be, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def told(refusals: Refusals) -> str:
    """Return what users should be told of those who were not let in; nothing if there were none."""
    parts = [
        f"{count(refusals.tokens, 'node')} with a wrong token" if refusals.tokens else "",
        f"{count(refusals.versions, 'node')} of another version" if refusals.versions else "",
        f"{count(refusals.strangers, 'connection')} that made no sense" if refusals.strangers else "",
    ]
    said = ", ".join(filter(None, parts))
    return f"Not let in: {said}." if said else ""
