"""The workers of a study, as its shell sees them: started, heard, replaced, let go."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from etude.core import events
from etude.core.clock import Clock, Silence
from etude.core.errors import DefinitionChangedError, StudyError
from etude.core.events import AnyEvent, How, Joined, Left, Reported
from etude.core.text import count
from etude.engines import Engine
from etude.wire import messages
from etude.wire.messages import Serve
from etude.wire.server import WorkerLink

SILENCE_S: Final = 30.0
BAD_STARTS: Final = 3
"""Workers in a row that ended before they were ready; then the study gives up on starting more."""


class Crew:
    """The workers of a study. Lives in the driver's event loop.

    Args:
        engine: What starts workers.
        serve: What they are told about the study.
        clock: The driver's clock.
        wanted: How many there should be, as things stand.
        tell: Takes what happens as events.
        note: Takes what users should be told.
        fail: Takes the reason why the study cannot go on.
    """

    def __init__(
        self,
        engine: Engine,
        serve: Serve,
        *,
        clock: Clock,
        wanted: Callable[[], int],
        tell: Callable[[AnyEvent], None],
        note: Callable[[str], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._engine = engine
        self._serve = serve
        self._clock = clock
        self._wanted = wanted
        self._tell = tell
        self._note = note
        self._fail = fail
        self._links: dict[str, WorkerLink] = {}
        self._silence = Silence(SILENCE_S)
        self._bad_starts = 0
        self._derived: dict[str, dict[str, Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def start(self, n: int) -> None:
        """Start ``n`` workers."""

        def connect(name: str, sock: socket.socket) -> None:
            link = WorkerLink(name, sock, self)
            self._links[name] = link
            self._silence.heard(name, self._clock.now_s())
            self._do(link.open(self._serve))

        self._engine.start(n, connect)

    def send(self, worker: str, message: messages.Message) -> bool:
        """Send a message to a worker; return whether it is there."""
        link = self._links.get(worker)
        if link is not None:
            link.send(message)
        return link is not None

    def flush(self) -> None:
        """Let what was sent leave now."""
        for link in self._links.values():
            link.flush()

    def tick(self, now_s: float) -> None:
        """Part with workers that have been silent for too long."""
        for worker in self._silence.tick(now_s):
            self.part_with(worker, f"silent for {SILENCE_S:g} s")

    def part_with(self, worker: str, reason: str) -> None:
        """Let a worker go, end what it holds, and start another in its place."""
        link = self._links.pop(worker, None)
        if link is None or self._closed:
            return
        link.close()
        self._silence.forget(worker)
        if link.ready:
            self._tell(Left(at=self._clock.now_s(), worker=worker, reason=reason))
        else:
            self._bad_starts += 1
        if self._bad_starts < BAD_STARTS:
            self._do(self._replace(worker))
        else:
            log = Path(self._serve.trials).parent / "workers.log"
            self._fail(
                StudyError(
                    f"{count(BAD_STARTS, 'worker')} in a row ended before they were ready. See {log}; "
                    "`etude doctor` checks this machine."
                )
            )

    async def close(self) -> None:
        """Let all workers rest."""
        self._closed = True
        for link in self._links.values():
            link.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self._engine.stop)

    # --- what workers say (wire.server.Listener) --------------------------------------------------

    def heard(self, link: WorkerLink, message: messages.FromWorker) -> None:
        """Take in what a worker says."""
        now = self._clock.now_s()
        self._silence.heard(link.name, now)
        if not link.ready:
            self._heard_early(link, message, now)
            return
        match message:
            case messages.Reports(trial=trial, attempt=attempt, rows=rows):
                for step, metrics in rows:
                    self._tell(Reported(at=now, trial=trial, attempt=attempt, step=step, metrics=metrics))
            case messages.Ended(trial=trial, attempt=attempt, outcome=outcome):
                outcome = self._check_derived(outcome)
                self._tell(events.Ended(at=now, worker=link.name, trial=trial, attempt=attempt, outcome=outcome))
            case messages.Broken(reason=reason, edited=True):
                self._fail(DefinitionChangedError(reason))
            case messages.Broken(reason=reason):
                self.part_with(link.name, reason)

    def gone(self, link: WorkerLink, reason: str) -> None:
        """Take in that a worker's connection ended."""
        if self._links.get(link.name) is link:
            self.part_with(link.name, reason)

    def _heard_early(self, link: WorkerLink, message: messages.FromWorker, now: float) -> None:
        """Before it is ready for this study, a worker may still speak of the one before."""
        match message:
            case messages.Ready(study=study, note=note) if study == self._serve.study:
                link.ready = True
                self._bad_starts = 0
                if note:
                    self._note(f"Attempts are spawned, which is slower than a fork: {note}.")
                self._tell(Joined(at=now, worker=link.name))
            case messages.Broken(study=study, reason=reason, edited=True) if study == self._serve.study:
                self._fail(DefinitionChangedError(reason))
            case messages.Broken(study=study, reason=reason) if study == self._serve.study:
                self._fail(
                    StudyError(
                        f"{reason}\nThe workers cannot load your functions; the reason stands above. Whatever the "
                        "functions use has to be importable where the workers run, or defined beside them."
                    )
                )

    async def _replace(self, worker: str) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._engine.end, worker)
        if not self._closed and len(self._links) < self._wanted():
            self.start(1)

    def _check_derived(self, outcome: events.Outcome) -> events.Outcome:
        """Derived values have to be the same on every trial with the same data."""
        if not outcome.derived:
            return outcome
        key = msgspec.json.encode(outcome.data, order="sorted").decode()
        known = self._derived.setdefault(key, outcome.derived)
        differing = [n for n in outcome.derived if known.get(n) != outcome.derived[n]]
        if not differing:
            return outcome
        name = differing[0]
        reason = (
            f"{name!r} is Derived, and data() gave {outcome.derived[name]} here but {known.get(name)} to an earlier "
            "trial with the same data parameters. It has to depend on the data alone."
        )
        return msgspec.structs.replace(outcome, how=How.UNUSABLE, value=None, reason=reason)

    def _do(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)
