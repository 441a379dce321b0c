"""The driver's end of a connection: what a worker says is heard, in order, until the one moment that it is gone."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from etude.core.events import How, Outcome
from etude.wire.channel import LENGTH, Channel, frame
from etude.wire.messages import Beat, Bye, Ended, Forget, FromWorker, Hello, Serve, ToWorker, decode_to_worker, encode
from etude.wire.server import WorkerLink

SERVE = Serve("s", b"functions", (), (), "/", ("loss",), "loss", "/spool", "/trials")


class Ear:
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.story: list[FromWorker | str] = []
        self.act: Callable[[WorkerLink], None] = lambda link: None
        self._changed = asyncio.Event()

    def heard(self, link: WorkerLink, message: FromWorker) -> None:
        self.story.append(message)
        self._changed.set()
        self.act(link)

    def gone(self, link: WorkerLink, reason: str) -> None:
        self.story.append(reason)
        self._changed.set()

    async def has_heard(self, n: int) -> None:
        async with asyncio.timeout(5):
            while len(self.story) < n:
                self._changed.clear()
                await self._changed.wait()


def connected(test: Callable[[WorkerLink, Ear, socket.socket], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test with a link, its listener and the worker's end of the connection."""

    async def run() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.settimeout(5)
            ear = Ear()
            link = WorkerLink("w", ours, ear)
            await link.open(SERVE)
            try:
                await test(link, ear, theirs)
            finally:
                link.close()
                for _ in range(3):  # for the loop to let the transport go
                    await asyncio.sleep(0)

    def called() -> None:
        asyncio.run(run())

    called.__name__ = test.__name__
    return called


async def received(channel: Channel) -> ToWorker | None:
    """Return what the worker hears next; None at the end."""
    content = await asyncio.to_thread(channel.receive)
    return None if content is None else decode_to_worker(content)


@connected
async def test_a_worker_is_told_what_to_serve_and_then_heard_in_order(
    link: WorkerLink, ear: Ear, worker: socket.socket
) -> None:
    channel = Channel(worker)
    link.send(Forget(1, 2))
    assert [await received(channel) for _ in range(2)] == [SERVE, Forget(1, 2)]
    said: list[FromWorker] = [Hello(7), Beat(), Ended(0, 1, Outcome(How.FINISHED, value=0.5))]
    stream = b"".join(frame(encode(message)) for message in said)
    worker.sendall(stream[:9])
    worker.sendall(stream[9:])
    await ear.has_heard(3)
    assert ear.story == said


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "it sent what is no message (a frame of 1195725856 bytes was announced; at most"),
        (frame(b"\xc1"), "it sent what is no message (MessagePack data is malformed"),
        (frame(b"\xa1\xff"), "it sent what is no message (Expected `object`, got `str`)"),
        (frame(b"\x81\xa4type\xa2\xff\xfe"), "it sent what is no message ("),
        (frame(encode({"type": "run"})), "it sent what is no message (Invalid value 'run'"),
        (frame(b""), "it sent what is no message (Input data was truncated)"),
        (LENGTH.pack(2**32 - 1), "it sent what is no message (a frame of 4294967295 bytes"),
    ],
)
def test_garbage_ends_the_connection_once_after_what_made_sense(garbage: bytes, reason: str) -> None:
    async def check(link: WorkerLink, ear: Ear, worker: socket.socket) -> None:
        worker.sendall(frame(encode(Hello(7))) + garbage + frame(encode(Beat())))
        await ear.has_heard(2)
        for _ in range(3):
            await asyncio.sleep(0)
        assert ear.story[0] == Hello(7)
        assert str(ear.story[1]).startswith(reason)
        assert len(ear.story) == 2
        link.send(Forget(1, 2))  # to nobody

    connected(check)()


@connected
async def test_what_was_said_before_a_goodbye_still_arrives(link: WorkerLink, ear: Ear, worker: socket.socket) -> None:
    link.send(Forget(1, 2))
    link.send(Bye())
    link.close()
    link.send(Forget(3, 4))  # too late
    channel = Channel(worker)
    assert [await received(channel) for _ in range(4)] == [SERVE, Forget(1, 2), Bye(), None]


@connected
async def test_the_end_of_a_worker_is_told_once(link: WorkerLink, ear: Ear, worker: socket.socket) -> None:
    worker.sendall(frame(encode(Hello(7))))
    worker.close()
    await ear.has_heard(2)
    link.close()
    link.close()
    assert ear.story == [Hello(7), "its process ended"]


@connected
async def test_who_is_parted_with_is_heard_no_more(link: WorkerLink, ear: Ear, worker: socket.socket) -> None:
    ear.act = WorkerLink.close
    worker.sendall(frame(encode(Hello(7))) * 3)
    await ear.has_heard(1)
    for _ in range(3):
        await asyncio.sleep(0)
    assert ear.story == [Hello(7)]
    channel = Channel(worker)
    assert await received(channel) == SERVE
    assert await received(channel) is None


def test_a_link_that_is_closed_before_it_was_opened_stays_closed() -> None:
    async def check() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            ear = Ear()
            link = WorkerLink("w", ours, ear)
            link.close()
            await link.open(SERVE)
            assert theirs.recv(100) == b""
            assert ear.story == []

    asyncio.run(check())
