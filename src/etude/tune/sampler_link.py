"""The driver's end of the connection to the sampler's process."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Final

from etude.core.errors import StudyError
from etude.core.events import AnyFact, Params, Queued, Settled
from etude.core.history import History, Trial
from etude.core.lifecycle import FINAL, State
from etude.core.metrics import Metrics
from etude.tune import sampling
from etude.tune.sampler import Told
from etude.wire.channel import Frames, frame

LEAVE_S: Final = 1.0
"""Seconds that the process has to end after its end of the connection did."""

ONE_THREAD: Final = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "BLIS", "VECLIB", "NUMEXPR")
} | {"VECLIB_MAXIMUM_THREADS": "1"}
"""In the environment of the sampler's process: the cores are the trials'."""


def as_told(trial: Trial, metrics: Metrics) -> Told:
    """Return what a sampler is told of a settled trial.

    Of trials that have budgets, one that finished with less than the largest is told as one that was stopped, with the
    number of its rung, from 1, as the step that it came to: so those with the largest budgets are modelled first.
    """
    params = proposed(trial.params, metrics)
    step = len(trial.curve)
    below = False
    if metrics.fidelity is not None:
        rung = metrics.fidelity.rung(trial.params)
        below = rung + 1 < len(metrics.fidelity.rungs)
        step = rung + (trial.state is State.FINISHED)  # who was stopped on the way did not come to the end of its rung
    if trial.state is State.FINISHED and trial.value is not None:
        losses = metrics.losses(metrics.values(trial))
        return Told(trial.number, params, "stopped" if below else "finished", losses, step)
    if trial.state is State.STOPPED and trial.curve:
        loss = metrics.loss(trial.curve[-1])
        return Told(trial.number, params, "stopped", (loss,), step)
    if trial.state is State.INVALID:  # worse than anything, so that it keeps away from there
        return Told(trial.number, params, "invalid", (math.inf,) * len(metrics.names))
    return Told(trial.number, params, "failed")


def proposed(params: Params, metrics: Metrics) -> Params:
    """Return a configuration as the sampler proposed it: its budget was not the sampler's to choose."""
    if metrics.fidelity is None:
        return params
    return {name: value for name, value in params.items() if name != metrics.fidelity.name}


class Story:
    """What a sampler was told and asked so far, in order: it brings a new one to where the one before it was.

    Args:
        history: The study, as the facts make it.
        recalls: Whether the sampler's state hangs on its own proposals, so that these have to be asked for again.
    """

    def __init__(self, history: History, *, recalls: bool) -> None:
        self._history = history
        self._recalls = recalls
        self._seq = 0
        self._said: list[tuple[int, bool, sampling.Tell | sampling.Ask]] = []

    def add(self, fact: AnyFact) -> None:
        """Take in the next fact, which the history knows already."""
        self._seq += 1
        if self._recalls and type(fact) is Queued and fact.upto is not None:
            asked = (sampling.Ask(fact.trial, redraw, again=True) for redraw in range(fact.redraw + 1))
            self._said += [(fact.upto, True, ask) for ask in asked]
        told = as_news(fact, self._history)
        if told is not None:
            self._said.append((self._seq, False, sampling.Tell(told)))

    def tell(self) -> list[sampling.Tell | sampling.Ask]:
        """Return everything, each proposal asked for after the last fact that was known then."""
        return [message for _, _, message in sorted(self._said, key=lambda said: said[:2])]


def as_news(fact: AnyFact, history: History) -> Told | None:
    """Return what a fact means for a sampler; None if that is nothing."""
    if type(fact) is Queued:
        return Told(fact.trial, proposed(fact.params, history.metrics))
    if type(fact) is Settled and history.trials[fact.trial].state in FINAL:
        return as_told(history.trials[fact.trial], history.metrics)
    return None


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
        self._history = history
        self._story: Story | None = Story(history, recalls=recalls)  # until the process is there
        self._seq = 0
        self._answered = answered
        self._failed = failed
        self._frames = Frames()
        self._asked: list[tuple[int, int]] = []
        self._waiting = False  # for an answer
        self._upto = 0
        self._news: list[sampling.Tell] = []
        self._early: list[bytes] = []
        self._transport: asyncio.WriteTransport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._sock: socket.socket | None = None
        self._closed = False

    def _start(self, story: Story) -> None:
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
        self._story = None
        self._send(self._set_up)
        for message in story.tell():
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
            self._seq += 1
            if self._story is not None:
                self._story.add(fact)
            elif (told := as_news(fact, self._history)) is not None:
                self._news.append(sampling.Tell(told))

    def ask(self, questions: Iterable[tuple[int, int]] = ()) -> None:
        """Ask for proposals, each by its number and redraw; the first time, start the process and tell all that was.

        Each answer has to be followed by a call, with what it led to: only then is the next question put, so that it is
        put to a sampler which knows what became of the last one.
        """
        self._asked += questions
        if self._waiting or self._closed or not self._asked:
            return
        if self._story is not None:
            self._start(self._story)
        k, redraw = min(self._asked)  # in order: one that is asked for again goes before those after it
        self._asked.remove((k, redraw))
        self._waiting = True
        if not redraw:
            news, self._news = self._news, []
            for message in news:
                self._send(message)
            self._upto = self._seq
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
            self._failed(StudyError(f"The sampler's process ended with code {code}."))

    def _send(self, message: sampling.ToSampler) -> None:
        content = frame(sampling.encode(message))
        if self._transport is not None:
            self._transport.write(content)
        else:
            self._early.append(content)
