"""The driver's end of the connection to the sampler's process."""

from __future__ import annotations

import asyncio
import math
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from etude.core.errors import StudyError
from etude.core.events import AnyFact, Queued, Settled
from etude.core.history import History, Trial
from etude.core.lifecycle import FINAL, State
from etude.tune import sampling
from etude.tune.samplers import Told
from etude.wire.channel import Frames, frame

LEAVE_S: Final = 1.0
"""Seconds that the process has to end after its end of the connection did."""


def as_told(trial: Trial, *, mode: str) -> Told:
    """Return what a sampler is told of a settled trial."""
    sign: Final = -1.0 if mode == "max" else 1.0
    if trial.state is State.FINISHED and trial.value is not None:
        return Told(trial.number, trial.params, "finished", sign * trial.value, len(trial.curve))
    if trial.state is State.STOPPED and trial.curve:
        return Told(trial.number, trial.params, "stopped", sign * trial.curve[-1], len(trial.curve))
    if trial.state is State.INVALID:  # worse than anything, so that it keeps away from there
        return Told(trial.number, trial.params, "invalid", math.inf)
    return Told(trial.number, trial.params, "failed")


class SamplerLink(asyncio.Protocol):
    """The driver's end of the connection to the sampler's process. It is asked one thing at a time."""

    def __init__(
        self,
        set_up: sampling.SetUp,
        history: History,
        *,
        mode: str,
        answered: Callable[[sampling.Answer, int], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._history = history
        self._mode = mode
        self._upto = 0
        self._answered = answered
        self._failed = failed
        self._frames = Frames()
        self._asked: deque[tuple[int, int]] = deque()
        self._early: list[bytes] = []
        self._transport: asyncio.WriteTransport | None = None
        self._closed = False
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "etude.tune.sampling", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._send(set_up)
        self._tell_all()
        self._sock = ours
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

    def tell(self, facts: Sequence[AnyFact]) -> None:
        """Tell it what facts mean for trials."""
        for fact in facts:
            if type(fact) is Queued:
                self._send(sampling.Tell(Told(fact.trial, fact.params)))
            elif type(fact) is Settled:
                self._tell_end(self._history.trials[fact.trial])
        self._upto = self._history.seq

    def ask(self, k: int, redraw: int) -> None:
        """Ask for a proposal."""
        self._asked.append((k, redraw))
        if len(self._asked) == 1:
            self._ask_next()

    def close(self) -> None:
        """Let the process go."""
        self._closed = True
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        else:
            self._sock.close()
        self._process.kill()
        self._process.wait()

    def data_received(self, data: bytes) -> None:
        """Take in an answer (asyncio)."""
        for content in self._frames.feed(data):
            self._asked.popleft()
            self._answered(sampling.decode_answer(content), self._asked_upto)
            if self._asked:  # after the answer has become a trial that the sampler was told of
                self._loop.call_soon(self._ask_next)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notice that the process is gone (asyncio)."""
        self._transport = None
        if not self._closed:
            self._closed = True
            try:
                code = self._process.wait(LEAVE_S)
            except subprocess.TimeoutExpired:  # it only closed its end
                self._process.kill()
                code = self._process.wait()
            self._failed(StudyError(f"The sampler's process ended with code {code}."))

    def _ask_next(self) -> None:
        k, redraw = self._asked[0]
        self._asked_upto = self._upto
        self._send(sampling.Ask(k, redraw))

    def _tell_all(self) -> None:
        """Tell it of every trial so far; in which order they ended makes no difference to it."""
        for trial in self._history.trials:
            self._send(sampling.Tell(Told(trial.number, trial.params)))
        for trial in self._history.trials:
            self._tell_end(trial)
        self._upto = self._history.seq

    def _tell_end(self, trial: Trial) -> None:
        if trial.state in FINAL:
            self._send(sampling.Tell(as_told(trial, mode=self._mode)))

    def _send(self, message: sampling.ToSampler) -> None:
        content = frame(sampling.encode(message))
        if self._transport is not None:
            self._transport.write(content)
        else:
            self._early.append(content)
