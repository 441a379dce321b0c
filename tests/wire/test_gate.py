"""The gate for nodes: who is let in, what they say, and that nobody who misbehaves disturbs the others."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etude.core.version import VERSION
from etude.wire import gate as gate_module
from etude.wire.channel import LENGTH, Frames, frame
from etude.wire.credentials import Invitation, make_keys
from etude.wire.gate import Gate, NodeWorker, told
from etude.wire.messages import Beat, FromWorker, Hello, Run, Serve, decode_to_worker, encode
from etude.wire.node_messages import (
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
    ToNode,
    Welcome,
    decode_to_node,
    on_channel,
    ours,
    split,
)

SERVE = Serve("s", b"functions", (), (), "/", ("loss",), "loss", "/spool", "/trials")
SOURCES = (Source("/p/helper.py", "/p", b"x = 1"),)
KEYS = make_keys()


class Host:
    """Writes down what comes through a gate."""

    def __init__(self) -> None:
        self.story: list[Any] = []
        self.links: list[NodeWorker] = []
        self.turned_away: list[str] = []
        self._changed = asyncio.Event()

    def _note(self, what: Any) -> None:
        self.story.append(what)
        self._changed.set()

    def remarked(self, node: str, text: str) -> None:
        self._note((node, text))

    def refused(self, why: str) -> None:
        self.turned_away.append(why)

    def arrived(self, link: NodeWorker) -> None:
        self.links.append(link)
        self._note(("arrived", link.name))

    def heard(self, link: NodeWorker, message: FromWorker) -> None:
        self._note((link.name, message))

    def brought(self, link: NodeWorker, piece: Piece) -> None:
        self._note((link.name, piece))

    def gone(self, link: NodeWorker, reason: str) -> None:
        self._note((link.name, reason))

    async def has_heard(self, n: int) -> None:
        async with asyncio.timeout(10):
            while len(self.story) < n:
                self._changed.clear()
                await self._changed.wait()


class Client:
    """Somebody at the gate."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.frames = Frames()
        self.waiting: list[bytes] = []

    def say(self, content: bytes) -> None:
        self.writer.write(frame(content))

    async def hear(self) -> tuple[int, bytes] | None:
        """Return the next frame, by its channel; None at the end."""
        async with asyncio.timeout(10):
            while not self.waiting:
                try:
                    piece = await self.reader.read(1 << 16)
                except ConnectionError:
                    return None
                if not piece:
                    return None
                self.waiting += self.frames.feed(piece)
        return split(self.waiting.pop(0))

    async def told(self) -> ToNode:
        heard = await self.hear()
        assert heard is not None
        assert heard[0] == 0
        return decode_to_node(heard[1])


def enter(**changed: Any) -> Enter:
    mine = Enter(KEYS.token, PROTOCOL, VERSION, PYTHON, "host", 7)
    return msgspec.structs.replace(mine, **changed)


class Stage:
    """An open gate, and whoever comes to it."""

    def __init__(self) -> None:
        self.host = Host()
        self.gate = Gate(SERVE, host=self.host, keys=KEYS, sources=SOURCES)
        self.invitation: Invitation
        self.clients: list[Client] = []

    async def client(self) -> Client:
        context = self.invitation.context()
        reader, writer = await asyncio.open_connection(
            self.invitation.hosts[0], self.invitation.port, ssl=context, server_hostname=""
        )
        self.clients.append(Client(reader, writer))
        return self.clients[-1]

    async def node(self, *workers: str) -> Client:
        client = await self.client()
        client.say(ours(enter()))
        assert await client.told() == Welcome(SERVE, SOURCES)
        for channel, name in enumerate(workers, start=1):
            client.say(ours(Arrived(channel, name)))
        return client


@asynccontextmanager
async def opened() -> AsyncIterator[Stage]:
    stage = Stage()
    mistakes: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: mistakes.append(context))
    stage.invitation = stage.gate.open("127.0.0.1", 0)
    try:
        yield stage
    finally:
        stage.gate.close()
        for client in stage.clients:
            client.writer.transport.abort()
        for _ in range(5):
            await asyncio.sleep(0)
    assert mistakes == [], "whatever a client does is no mistake of the driver's"


def at_the_gate(test: Callable[[Stage], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def called() -> None:
        async def run() -> None:
            async with opened() as stage:
                await test(stage)

        asyncio.run(run())

    called.__name__ = test.__name__
    return called


@at_the_gate
async def test_a_node_is_let_in_and_its_workers_are_heard_each_by_itself(stage: Stage) -> None:
    client = await stage.node("a", "b")
    client.say(on_channel(2, encode(Hello(9))))
    client.say(on_channel(1, encode(Beat())))
    await stage.host.has_heard(4)
    assert stage.host.story == [("arrived", "a"), ("arrived", "b"), ("b", Hello(9)), ("a", Beat())]


@at_the_gate
async def test_a_worker_is_told_by_its_channel(stage: Stage) -> None:
    client = await stage.node("a", "b")
    await stage.host.has_heard(2)
    link = stage.host.links[1]
    await link.open(SERVE)
    run = Run(3, 1, {"x": 0.5}, 4)
    link.send(run)
    assert await client.told() == Begin(2)
    heard = await client.hear()
    assert heard is not None
    assert (heard[0], decode_to_worker(heard[1])) == (2, run)


@at_the_gate
async def test_a_worker_that_is_parted_with_is_dismissed_and_its_last_words_are_not_heard(stage: Stage) -> None:
    client = await stage.node("a")
    await stage.host.has_heard(1)
    (link,) = stage.host.links
    link.close()
    assert await client.told() == Dismiss(1)
    client.say(on_channel(1, encode(Beat())))
    client.say(ours(Departed(1, "dismissed")))
    assert await link.ended(10)
    assert stage.host.story == [("arrived", "a")]


@at_the_gate
async def test_a_node_that_does_not_end_a_worker_is_not_waited_for(stage: Stage) -> None:
    await stage.node("a")
    await stage.host.has_heard(1)
    (link,) = stage.host.links
    link.close()
    assert not await link.ended(0.01)


@at_the_gate
async def test_when_a_node_goes_all_its_workers_are_gone(stage: Stage) -> None:
    client = await stage.node("a", "b")
    other = await stage.node()
    await stage.host.has_heard(2)
    client.writer.transport.abort()
    await stage.host.has_heard(4)
    assert [name for name, _ in stage.host.story[2:]] == ["a", "b"]
    assert all("its node's connection ended" in reason for _, reason in stage.host.story[2:])
    other.say(ours(Arrived(1, "c")))
    await stage.host.has_heard(5)


@at_the_gate
async def test_what_a_node_remarks_is_heard_with_its_name(stage: Stage) -> None:
    client = await stage.node("a")
    client.say(ours(Remark("It is cold here.")))
    await stage.host.has_heard(2)
    assert stage.host.story[1] == ("host:7", "It is cold here.")


@at_the_gate
async def test_files_come_with_the_worker_that_ran_the_attempt(stage: Stage) -> None:
    client = await stage.node("a")
    piece = Piece(1, 0, 1, "log.txt", b"hello", True)
    client.say(ours(piece))
    await stage.host.has_heard(2)
    assert stage.host.story[1] == ("a", piece)


@at_the_gate
async def test_when_the_study_is_over_nodes_are_sent_home(stage: Stage) -> None:
    client = await stage.node("a")
    await stage.host.has_heard(1)
    stage.gate.close()
    assert await client.told() == Leave()
    assert await client.hear() is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"token": "another"}, "The token is not that of this run."),
        ({"token": ""}, "The token is not that of this run."),
        ({"token": "é" * 10}, "The token is not that of this run."),
        ({"etude": "9.9"}, f"The driver runs Étude {VERSION}, and this node 9.9. Install the same on both."),
        ({"protocol": 9, "etude": "9.9"}, f"The driver runs Étude {VERSION}, and this node 9.9."),
        ({"protocol": 9}, f"The driver speaks version {PROTOCOL} of the protocol, and this node 9, though both call"),
        ({"python": "3.99"}, f"The driver runs Python {PYTHON}, and this node 3.99: functions travel as code"),
    ],
)
def test_who_is_not_let_in_is_told_why_and_counted(changed: dict[str, Any], said: str) -> None:
    @at_the_gate
    async def test(stage: Stage) -> None:
        client = await stage.client()
        client.say(ours(enter(**changed)))
        answer = await client.told()
        assert isinstance(answer, Refused)
        assert answer.reason.startswith(said)
        assert KEYS.token not in answer.reason
        client.say(ours(Arrived(1, "a")))  # it cannot go on all the same
        client.say(ours(enter()))
        await stage.node("b")
        await stage.host.has_heard(1)
        assert stage.host.story == [("arrived", "b")]
        refusals = stage.gate.refusals
        assert (refusals.tokens, refusals.versions) == ((1, 0) if "token" in changed else (0, 1))
        assert stage.host.turned_away == ["a wrong token" if "token" in changed else "another version"]

    test()


STRANGE = [
    b"",
    b"GET / HTTP/1.1\r\n\r\n",
    LENGTH.pack(2**31),
    LENGTH.pack((1 << 16) + 1),
    frame(b""),
    frame(b"\0"),
    frame(b"\0\0garbage"),
    frame(on_channel(1, encode(Beat()))),
    frame(ours(Arrived(1, "a"))),
    frame(ours(Piece(1, 0, 1, "x", b"", True))),
    frame(ours(Leave())),
    frame(encode(enter())),
]


@pytest.mark.parametrize("said", STRANGE)
def test_a_stranger_that_makes_no_sense_costs_only_its_connection(said: bytes) -> None:
    @at_the_gate
    async def test(stage: Stage) -> None:
        node = await stage.node("a")
        stranger = await stage.client()
        stranger.writer.write(said)
        if not said:
            stranger.writer.close()
        assert await stranger.hear() is None
        node.say(on_channel(1, encode(Beat())))
        await stage.host.has_heard(2)
        assert stage.host.story == [("arrived", "a"), ("a", Beat())]

    test()


@at_the_gate
async def test_who_knows_no_tls_or_another_certificate_is_counted(stage: Stage) -> None:
    port = stage.invitation.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello, is anybody there?\r\n" * 10)
    async with asyncio.timeout(10):
        with contextlib.suppress(ConnectionError):
            await reader.read()
    writer.close()
    strict = Invitation(("127.0.0.1",), port, make_keys().certificate, "").context()
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection("127.0.0.1", port, ssl=strict, server_hostname="")
    async with asyncio.timeout(10):
        while stage.gate.refusals.strangers < 2:
            await asyncio.sleep(0)
    assert told(stage.gate.refusals) == "Not let in: 2 connections that made no sense."


def test_who_says_nothing_is_sent_away_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "ENTER_S", 0.05)

    @at_the_gate
    async def test(stage: Stage) -> None:
        _, silent = await asyncio.open_connection("127.0.0.1", stage.invitation.port)  # not even TLS
        slow = await stage.client()
        slow.writer.write(frame(ours(enter()))[:5])
        assert await slow.hear() is None
        async with asyncio.timeout(10):
            while stage.gate.refusals.strangers < 2:
                await asyncio.sleep(0)
        silent.close()

    test()


@at_the_gate
async def test_nodes_hear_that_the_driver_is_alive_and_strangers_do_not(stage: Stage) -> None:
    node, stranger = await stage.node("a"), await stage.client()
    stage.gate.beat()
    assert await node.told() == Here()
    stage.gate.close()
    assert await stranger.hear() in ((0, encode(Leave())), None)


def test_of_too_many_strangers_the_one_that_waited_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "STRANGERS", 3)

    @at_the_gate
    async def test(stage: Stage) -> None:
        waiting = [await stage.client() for _ in range(3)]
        await stage.node("a")
        assert await waiting[0].hear() is None
        await stage.host.has_heard(1)

    test()


@pytest.mark.parametrize(
    "said",
    [
        frame(ours(enter())),
        frame(ours(Arrived(1, "again"))),
        frame(ours(Arrived(0, "zero"))),
        frame(ours(Arrived(1 << 16, "large"))),
        frame(on_channel(1, b"garbage")),
        LENGTH.pack(1 << 27),
    ],
)
def test_a_node_that_makes_no_sense_loses_its_workers_and_nobody_elses(said: bytes) -> None:
    @at_the_gate
    async def test(stage: Stage) -> None:
        bad, good = await stage.node("a"), await stage.node("b")
        await stage.host.has_heard(2)
        bad.writer.write(said)
        await stage.host.has_heard(3)
        name, reason = stage.host.story[2]
        assert name == "a"
        assert reason.startswith("its node sent what is no message")
        good.say(on_channel(1, encode(Beat())))
        await stage.host.has_heard(4)

    test()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    enters=st.booleans(),
    pieces=st.lists(
        st.one_of(
            st.binary(max_size=200),
            st.binary(max_size=80).map(frame),
            st.binary(max_size=80).map(lambda content: frame(b"\0\0" + content)),
            st.binary(max_size=80).map(lambda content: frame(b"\0\1" + content)),
            st.sampled_from(
                [frame(on_channel(1, encode(Beat()))), frame(ours(Departed(1, ""))), frame(ours(Arrived(2, "x")))]
            ),
        ),
        max_size=8,
    ),
)
def test_no_bytes_disturb_the_driver(enters: bool, pieces: list[bytes]) -> None:
    @at_the_gate
    async def test(stage: Stage) -> None:
        good = await stage.node("good")
        bad = await stage.node("bad") if enters else await stage.client()
        for piece in pieces:
            bad.writer.write(piece)
        bad.writer.close()
        while stage.host.story.count(("good", Beat())) < 3:
            before = len(stage.host.story)
            good.say(on_channel(1, encode(Beat())))
            await stage.host.has_heard(before + 1)

    test()
