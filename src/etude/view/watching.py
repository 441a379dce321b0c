"""Looks at studies while anybody watches them, and gives each viewer what is new.

All that touches a journal or a board happens in one thread, one thing after the other; the event loop only waits. How
often it looks, and how often verdicts are worked out anew, goes by what that takes, so a study of any size leaves the
machine most of its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from etude.view.following import Follower, Known
from etude.view.judging import judged

PACE_S: Final = 0.2
"""Seconds between two looks at least."""

LONGEST_S: Final = 1.0
"""Seconds between two looks at most. Who looked ever less often at a study that reports a lot would never catch up."""

SHARE: Final = 5
"""One part in so many of its time a study is looked at, and another its verdicts are worked out, if that will do."""

ALIVE_S: Final = 15.0
"""Seconds after which a viewer hears of the server though nothing is new, so that each notices if the other is gone."""

T = TypeVar("T")


class Desk:
    """The one thread in which journals are read."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "etude-view")

    async def do(self, work: Callable[..., T], *given: Any) -> T:
        """Return what a function returns that is called there."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)

    def close(self) -> None:
        """End it."""
        self._thread.shutdown(wait=False, cancel_futures=True)


class Look(NamedTuple):
    """What is said of a study as a whole: what a look at it found, as JSON.

    Attributes:
        head: What its page says on top.
        verdicts: Its verdicts.
    """

    head: bytes = b""
    verdicts: bytes = b""


class Watch:
    """One study, for all that watch it.

    Args:
        follower: Follows it.
        desk: Where it is read.
    """

    def __init__(self, follower: Follower, desk: Desk) -> None:
        self.follower = follower
        self._desk = desk
        self._viewers = 0
        self._looking: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self._changes = 0
        self._look = Look()
        self._over = False

    async def end(self) -> None:
        """Have everybody's events end."""
        self._over = True
        await self._wake()

    async def events(self, last_id: str) -> AsyncIterator[bytes]:
        """Yield what a viewer is told, as server-sent events, until it goes.

        Args:
            last_id: That of the last event that it had; empty if it had none.
        """
        known, told = Known.read(last_id), Look()
        self._viewers += 1
        try:
            if self._looking is None or self._looking.done():
                await self._look_once()
                self._looking = asyncio.create_task(self._keep_looking())
            while not self._over:
                changes = self._changes
                known, rows = await self._desk.do(self.follower.news, known)
                look = self._look
                if rows is not None or look.head != told.head:
                    yield _event("study", b'{"head":%b,"rows":%b}' % (look.head, rows or b"null"), known.text)
                if look.verdicts != told.verdicts:
                    yield _event("verdicts", look.verdicts)
                told = look
                if not await self._change_after(changes):
                    yield b": nothing new\n\n"
        finally:
            self._viewers -= 1

    async def _change_after(self, changes: int) -> bool:
        """Wait until there were more changes than so many; return False if that takes long."""
        try:
            async with asyncio.timeout(ALIVE_S), self._changed:
                await self._changed.wait_for(lambda: self._changes != changes)
        except TimeoutError:
            if self._looking is not None and self._looking.done():
                self._looking.result()  # raises what it ended with
            return False
        return True

    async def _keep_looking(self) -> None:
        """Look, as long as there are viewers, and wake them where anything is new."""
        loop = asyncio.get_running_loop()
        verdicts_of, judge_again_at = None, loop.time()
        while self._viewers and not self._over:
            began = loop.time()
            before, seq = self._look, (self.follower.edition, self.follower.board.seq)
            await self._look_once()
            if verdicts_of != self.follower.ended and loop.time() >= judge_again_at:
                verdicts_of, began_to_judge = self.follower.ended, loop.time()
                self._look = self._look._replace(verdicts=await self._desk.do(judged, self.follower))
                judge_again_at = loop.time() + SHARE * (loop.time() - began_to_judge)
            if self._look != before or seq != (self.follower.edition, self.follower.board.seq):
                await self._wake()
            await asyncio.sleep(min(LONGEST_S, max(PACE_S, SHARE * (loop.time() - began))))

    async def _wake(self) -> None:
        async with self._changed:
            self._changes += 1
            self._changed.notify_all()

    async def _look_once(self) -> None:
        self._look = self._look._replace(head=await self._desk.do(_head, self.follower, self._look.head))


def _head(follower: Follower, before: bytes) -> bytes:
    """Look, and return what a page says on top; as before if there is nothing new."""
    return msgspec.json.encode(follower.head()) if follower.look() or not before else before


def _event(kind: str, data: bytes, number: str = "") -> bytes:
    """Return a server-sent event; JSON has no line breaks of its own."""
    told = f"event: {kind}\n" + (f"id: {number}\n" if number else "")
    return told.encode() + b"data: " + data + b"\n\n"
