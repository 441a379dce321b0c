"""The driver's end of the connection to the sampler's process."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Final

from etude.core.errors import StudyError
from etude.core.events import AnyFact
from etude.core.history import History
from etude.tune import sampling
from etude.tune.story import Story
from etude.wire.channel import Frames, frame

LEAVE_S: Final = 1.0
"""Seconds that the process has to end after its end of the connection did."""

ONE_THREAD: Final = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "BLIS", "VECLIB", "NUMEXPR")
} | {"VECLIB_MAXIMUM_THREADS": "1"}
"""In the environment of the sampler's process: the cores are the trials'."""

GOES_ON: Final = "What has ended is kept, and the same call goes on."


class SamplerLink(asyncio.Protocol):
    """The driver's end of the connection to the sampler's process. It is asked one thing at a time.

    It hears what happened right before it is asked for the next trial. When a proposal was taken already it is asked
    for another one before anything else, and told nothing in between, so the number up to which it knew the journal
    says what it knew each time it was asked for this trial.
    """

    def __init__(
        self,
        set_up: sampling.SetUp,
        history: History,
        *,
        recalls: bool,
        answered: Callable[[sampling.Answer, int], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._set_up = set_up
        self._story = Story(history, recalls=recalls)
        self._answered = answered
        self._failed = failed
        self._frames = Frames()
        self._asked: list[tuple[int, int]] = []
        self._waiting = False  # for an answer
        self._upto = 0
        self._early: list[bytes] = []
        self._transport: asyncio.WriteTransport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._sock: socket.socket | None = None
        self._closed = False

    def _start(self) -> None:
        self._sock, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "etude.tune.sampling", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **ONE_THREAD},
                start_new_session=True,
            )
        self._send(self._set_up)
        for message in self._story.tell():
            self._send(message)
        self._loop = asyncio.get_running_loop()
        self._opening = self._loop.create_task(self._open())

    async def _open(self) -> None:
        if not self._closed:
            await self._loop.create_connection(lambda: self, sock=self._sock)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, and send what could not be sent before (asyncio)."""
        assert isinstance(transport, asyncio.WriteTransport)
        if self._closed:
            transport.close()
            return
        self._transport = transport
        early, self._early = self._early, []
        transport.write(b"".join(early))

    def tell(self, facts: Iterable[AnyFact]) -> None:
        """Tell it what facts, which the history knows already, mean for trials."""
        for fact in facts:
            self._story.add(fact)

    def ask(self, questions: Iterable[tuple[int, int]] = ()) -> None:
        """Ask for proposals, each by its number and redraw; the first time, start the process and tell all that was.

        Each answer has to be followed by a call, with what it led to: only then is the next question put, so that it is
        put to a sampler which knows what became of the last one.
        """
        self._asked += questions
        if self._waiting or self._closed or not self._asked:
            return
        if self._process is None:
            self._start()
        k, redraw = min(self._asked)  # in order: one that is asked for again goes before those after it
        self._asked.remove((k, redraw))
        self._waiting = True
        if not redraw:
            for message in self._story.tell():
                self._send(message)
            self._upto = self._story.seq
        self._send(sampling.Ask(k, redraw))

    def close(self) -> None:
        """Let the process go."""
        self._closed = True
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        elif self._sock is not None:
            self._sock.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def data_received(self, data: bytes) -> None:
        """Take in an answer (asyncio)."""
        for content in self._frames.feed(data):
            self._waiting = False
            self._answered(sampling.decode_answer(content), self._upto)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notice that the process is gone (asyncio)."""
        self._transport = None
        if not self._closed and self._process is not None:
            self._closed = True
            try:
                code = self._process.wait(LEAVE_S)
            except subprocess.TimeoutExpired:  # it only closed its end
                self._process.kill()
                code = self._process.wait()
            self._failed(StudyError(f"The sampler's process ended with code {code}. {GOES_ON}"))

    def _send(self, message: sampling.ToSampler) -> None:
        content = frame(sampling.encode(message))
        if self._transport is not None:
            self._transport.write(content)
        else:
            self._early.append(content)
