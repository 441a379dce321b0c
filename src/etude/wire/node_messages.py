"""What a node, a machine that carries workers, and the driver tell each other beside what its workers say.

    node    -> driver   Enter, Remark, Arrived, Piece, Departed
    driver  -> node     Refused, Welcome, Begin, Dismiss, Leave

One connection carries all workers of a node. Each frame begins with the number of its channel: 0 is for the messages
here, and the others are for one worker each, whose messages (``wire.messages``) go through as they are.
"""

from __future__ import annotations

import struct
import sys
from typing import Final

import msgspec

from etude.wire.messages import Message, Serve, decoded, encode

PROTOCOL: Final = 3
"""Both ends speak the same, or not at all."""

CHANNEL: Final = struct.Struct(">H")
OURS: Final = CHANNEL.pack(0)
MOST_CHANNELS: Final = 2**16 - 1

PYTHON: Final = ".".join(map(str, sys.version_info[:2]))
"""Functions travel as code of one version of Python, which no other one understands."""


class Enter(Message, frozen=True):
    """A node wants to be let in.

    Attributes:
        token: What it was given for that.
        protocol: What it speaks.
        etude: Its version of Étude.
        python: Its version of Python, as in 3.11.
        host: Its machine's name, for people.
        pid: The process that speaks.
    """

    token: str
    protocol: int
    etude: str
    python: str
    host: str
    pid: int

    def __repr__(self) -> str:
        """Return who it is, without the secret."""
        return f"Enter({self.host!r}, {self.pid})"


class Refused(Message, frozen=True):
    """The node is not let in, and why."""

    reason: str


class Source(msgspec.Struct, frozen=True):
    """A file of the project, for a node that does not have it.

    Attributes:
        file: Its path on the driver's machine.
        below: The entry of the search path there that it is found below.
        content: What is in it.
    """

    file: str
    below: str
    content: bytes


class Welcome(Message, frozen=True):
    """The node is let in, and this is what its workers work for.

    Attributes:
        serve: As workers of the driver's own machine would be told.
        sources: Files of the project that workers import.
    """

    serve: Serve
    sources: tuple[Source, ...] = ()


class Arrived(Message, frozen=True):
    """A worker has been started, and talks over this channel from now on."""

    channel: int
    worker: str


class Remark(Message, frozen=True):
    """Users of the study should be told this of the node."""

    text: str


class Begin(Message, frozen=True):
    """The driver has taken a worker in: it may take the study up."""

    channel: int


class Dismiss(Message, frozen=True):
    """End a worker and all that it started; the node says when that is done, and may start another in its place."""

    channel: int


class Departed(Message, frozen=True):
    """A worker and all that it started have ended; what it had completed was told before."""

    channel: int
    reason: str


class Piece(Message, frozen=True):
    """Part of a file of an attempt; the first one makes it anew.

    Nodes send what attempts wrote there, and get what another attempt goes on from.

    Attributes:
        channel: The worker that runs it.
        trial: The trial's number.
        attempt: Which attempt of it.
        path: Where the file lies in the attempt's folder, with slashes.
        data: What is appended.
        first: Whether the file begins with it.
    """

    channel: int
    trial: int
    attempt: int
    path: str
    data: bytes
    first: bool


class Here(Message, frozen=True):
    """The driver is alive, and has nothing to say."""


class Leave(Message, frozen=True):
    """The study is over: end everything."""


FromNode = Enter | Remark | Arrived | Departed | Piece
ToNode = Refused | Welcome | Begin | Dismiss | Piece | Here | Leave

_from_node: Final[msgspec.msgpack.Decoder[FromNode]] = msgspec.msgpack.Decoder(FromNode)
_to_node: Final[msgspec.msgpack.Decoder[ToNode]] = msgspec.msgpack.Decoder(ToNode)


def on_channel(channel: int, content: bytes) -> bytes:
    """Return the content of a frame as it goes over a node's connection."""
    return CHANNEL.pack(channel) + content


def ours(message: Message) -> bytes:
    """Return a message between node and driver as it goes over their connection."""
    return OURS + encode(message)


def split(content: bytes) -> tuple[int, bytes]:
    """Return the channel of a frame, and what is for it.

    Raises:
        msgspec.DecodeError: It is too short to have one.
    """
    if len(content) < CHANNEL.size:
        raise msgspec.DecodeError("a frame without a channel")
    return CHANNEL.unpack_from(content)[0], content[CHANNEL.size :]


def decode_from_node(content: bytes) -> FromNode:
    """Read a message from a node.

    Raises:
        msgspec.DecodeError: The content is none.
    """
    return decoded(_from_node, content)


def decode_to_node(content: bytes) -> ToNode:
    """Read a message to a node.

    Raises:
        msgspec.DecodeError: The content is none.
    """
    return decoded(_to_node, content)
