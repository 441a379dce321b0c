"""A node: a machine that carries workers for a driver elsewhere, as the process that speaks for them.

It starts workers as the driver's own machine would, passes on what they and the driver say over one encrypted
connection, and replaces those that end. Nothing of a study stays here: what an attempt wrote is sent before its end is
told, and the folder that it worked in is removed. When the connection ends, everything does.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fcntl
import os
import shutil
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from etude.core.clock import Silence
from etude.core.errors import StudyError
from etude.core.events import PARTS, STATE, Checkpoint
from etude.core.gpu_shares import Shares
from etude.core.resources import Resources
from etude.core.room import how_many_fit, why_not
from etude.core.version import VERSION
from etude.engines.local import WorkerProcess
from etude.engines.settling import settled_in
from etude.places.url_depot import depot_at
from etude.wire import spool
from etude.wire.channel import PIECE, Frames, frame
from etude.wire.credentials import Invitation
from etude.wire.messages import (
    Broken,
    Ended,
    Forget,
    Ready,
    Run,
    Saved,
    Serve,
    decode_from_worker,
    decode_to_worker,
    encode,
)
from etude.wire.node_messages import (
    MOST_CHANNELS,
    PROTOCOL,
    PYTHON,
    Arrived,
    Begin,
    Departed,
    Dismiss,
    Enter,
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
from etude.worker import processes
from etude.worker.attempt import RANK, folder_of
from etude.worker.logs import LOG
from etude.worker.machine import this_machine
from etude.worker.received import PIECE_B, Brought, cut

PREFIX: Final = "etude-node-"
HELD: Final = "held"
"""A file in a node's folder that the node has locked: the kernel unlocks it when the node is gone."""
CONNECT_S: Final = 10.0
SILENT_S: Final = 120.0
"""Seconds without a word of the driver's after which it is taken to be gone: its machine, or the way to it."""
LOOK_S: Final = 5.0
LOGS_S: Final = 1.0
"""Seconds between two looks at what attempts have printed."""
LAST_WORDS: Final = 4_000
"""Characters of its log that a worker's end is explained with, if it was never ready."""
AGAIN_S: Final = (0.0, 1.0, 4.0, 15.0, 60.0)
"""Seconds before a worker is replaced that ended before it was ready, by how many in a row did."""


class NotAdmittedError(StudyError):
    """The driver sent the node away."""


class NoRoomError(StudyError):
    """This machine has no room for a single worker."""


async def carry(
    invitation: Invitation,
    *,
    workers: int,
    threads: int | None = None,
    project: Path | None = None,
    placed: bool = False,
) -> bool:
    """Carry workers for a driver until it is done.

    Args:
        invitation: Where it is, and what lets us in.
        workers: How many, at most: if the study says what a trial needs, no more than fit on this machine.
        threads: How many each of them may use; what the study says, or an even share of the cores, if not given.
        project: The project's folder on this machine, which attempts are to run in, if somebody brought it here.
        placed: Whether somebody, such as Ray, saw to it that there are cores and memory for them here. Then only the
            GPUs that this process sees are counted.

    Returns:
        Whether the driver said that it is done; if not, the connection ended.

    Raises:
        StudyError: It cannot be reached, or does not let us in, or there is no room.
    """
    reader, writer = await _reach(invitation)
    with folder_of_ours() as folder:

        def settle(serve: Serve, sources: Sequence[Source]) -> Serve:
            return settled_in(serve, sources, folder, project=project)

        node = Node(reader, writer, folder, workers, settle, threads=threads, placed=placed)
        try:
            await node.enter(invitation)
            await node.work()
        finally:
            await node.close()
        return node.sent_home


@contextlib.contextmanager
def folder_of_ours() -> Iterator[Path]:
    """Give a folder while the block runs, and remove those of nodes of this machine that were killed."""
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder:
        aside = Path(folder, "new")
        with aside.open("wb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            aside.rename(Path(folder, HELD))  # who finds it by this name finds it locked while we live
            for lock in Path(folder).parent.glob(f"{PREFIX}*/{HELD}"):
                if _is_free(lock):
                    shutil.rmtree(lock.parent, ignore_errors=True)
            yield Path(folder)


def _is_free(lock: Path) -> bool:
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # it is held, or not ours, or gone by now
        return False
    return True


async def _reach(invitation: Invitation) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    problems = []
    for host in invitation.hosts:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await asyncio.open_connection(
                    host, invitation.port, ssl=invitation.context(), server_hostname=""
                )
        except ssl.SSLCertVerificationError as error:
            raise NotAdmittedError(
                f"Who listens at {host}, port {invitation.port} is not the run that the credentials are of: each run "
                "of a study makes new ones. Copy its file again."
            ) from error
        except (OSError, TimeoutError) as error:
            problems.append(f"{host}: {error or type(error).__name__}")
    raise StudyError(
        f"The driver cannot be reached at port {invitation.port} ({'; '.join(problems)}). Is its study still running, "
        "and may this machine connect to it?"
    )


@dataclasses.dataclass(eq=False)
class _Worker:
    """A worker of this node."""

    channel: int
    process: WorkerProcess
    writer: asyncio.StreamWriter
    gpus: tuple[str, ...] | None = None
    job: tuple[int, int] | None = None
    """The attempt that it was given last and has not ended."""
    rank: int = 0
    """Which rank of it."""
    logged_b: int = 0
    """How much of that attempt's log has been sent."""
    ready: bool = False


class Node:
    """The workers of one machine, and the line to their driver.

    Args:
        reader: What the driver says.
        writer: What it is told.
        folder: A folder of our own.
        most: How many workers there are to be.
        settle: Returns what workers of this machine are told, given what those of the driver's are, and the sources.
        threads: How many each may use, if somebody said so.
        placed: Whether somebody saw to it that there are cores and memory for them.

    Attributes:
        sent_home: Whether the driver said that it is done.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        folder: Path,
        most: int,
        settle: Callable[[Serve, Sequence[Source]], Serve],
        *,
        threads: int | None = None,
        placed: bool = False,
    ) -> None:
        self.sent_home = False
        self._reader = reader
        self._writer = writer
        self._folder = folder
        self._most = most
        self._settle = settle
        self._threads = threads
        self._placed = placed
        self._shares = Shares((), None)
        self._frames = Frames()
        self._serve: Serve | None = None
        self._brought = Brought("")  # until it is known where attempts write
        self._workers: dict[int, _Worker] = {}
        self._channels = 0
        self._bad_starts = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._driver = Silence(SILENT_S)
        self._over = asyncio.Event()
        self._mistake: BaseException | None = None

    async def enter(self, invitation: Invitation) -> None:
        """Say who we are, and make ready for the study.

        Raises:
            NotAdmittedError: The driver sent us away.
            NoRoomError: We left, since what a trial needs is not here.
        """
        me = Enter(invitation.token, PROTOCOL, VERSION, PYTHON, socket.gethostname(), os.getpid())
        await self._say(ours(me))
        match await self._first_word():
            case Welcome(serve=serve, sources=sources):
                await self._make_room(serve.resources)
                threads = self._threads or (serve.resources.threads if serve.resources is not None else None)
                threads = threads or max(1, processes.available_cores() // self._most)
                self._serve = msgspec.structs.replace(self._settle(serve, sources), threads=threads)
                self._brought = Brought(self._serve.trials)
            case Refused(reason=reason):
                raise NotAdmittedError(reason)
            case _:
                raise NotAdmittedError("The driver closed the connection without a word. Its study may have ended.")

    async def _make_room(self, each: Resources | None) -> None:
        """See how many workers fit here, and tell the driver if they are fewer than there were to be."""
        if each is None:
            return
        machine = await asyncio.get_running_loop().run_in_executor(None, this_machine)
        counted = Resources(gpus=each.gpus) if self._placed else each
        fit = how_many_fit(counted, machine)
        if short := why_not(self._most, counted, machine):
            await self._say(ours(Remark(f"{short} It {f'carries {fit}' if fit else 'leaves'}.")))
            if not fit:
                raise NoRoomError(f"{short} The study asks for that with resources=. Bring a machine that has as much.")
            self._most = fit
        self._shares = Shares(machine.gpus or (), each.gpus)

    async def work(self) -> None:
        """Carry workers until the driver is done, or gone."""
        for _ in range(self._most):
            await self._start()
        self._keep(asyncio.create_task(self._listen()))
        self._keep(asyncio.create_task(self._send_logs()))
        self._keep(asyncio.create_task(self._watch_the_driver()))
        await self._over.wait()
        if self._mistake is not None:
            raise self._mistake

    async def close(self) -> None:
        """End all workers, and the connection."""
        self._over.set()
        workers, self._workers = list(self._workers.values()), {}
        for task in list(self._tasks):
            task.cancel()
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(None, worker.process.kill) for worker in workers))
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()

    # --- the driver -------------------------------------------------------------------------------

    async def _listen(self) -> None:
        try:
            while piece := await self._read():
                self._driver.heard("driver", time.monotonic())
                told: dict[_Worker, list[bytes]] = {}
                for channel, content in map(split, self._frames.feed(piece)):
                    if not channel:
                        self._do(decode_to_node(content))
                    elif (worker := self._workers.get(channel)) is not None:
                        self._take_note(worker, content)
                        told.setdefault(worker, []).append(frame(content))
                for worker, frames in told.items():  # what came together wakes it up once
                    worker.writer.write(b"".join(frames))
        finally:
            self._over.set()

    def _take_in(self, piece: Piece) -> None:
        """Write a piece of what an attempt here is to go on from."""
        try:
            self._brought.keep(piece)
        except OSError as error:  # the attempt finds it damaged, or not at all
            self._remark(f"What trial {piece.trial} had saved cannot be written there: {error}.")

    async def _watch_the_driver(self) -> None:
        """Leave when the driver has been silent for too long; time in which we stood still ourselves does not count."""
        self._driver.heard("driver", time.monotonic())
        while not self._driver.tick(time.monotonic()):
            await asyncio.sleep(LOOK_S)
        self._over.set()

    async def _first_word(self) -> ToNode | None:
        while piece := await self._read():
            for channel, content in map(split, self._frames.feed(piece)):
                if not channel:
                    return decode_to_node(content)
        return None

    async def _read(self) -> bytes:
        try:
            return await self._reader.read(PIECE)
        except OSError:
            return b""

    def _do(self, message: ToNode) -> None:
        match message:
            case Begin(channel=channel) if (worker := self._workers.get(channel)) is not None:
                assert self._serve is not None
                worker.writer.write(frame(encode(msgspec.structs.replace(self._serve, gpus=worker.gpus))))
            case Dismiss(channel=channel) if (worker := self._workers.get(channel)) is not None:
                asyncio.get_running_loop().run_in_executor(None, worker.process.kill)
            case Piece():
                self._take_in(message)
            case Leave():
                self.sent_home = True
                self._over.set()
            case Refused(reason=reason):
                self._mistake = NotAdmittedError(f"The driver sent this node home. {reason}")
                self._over.set()

    def _take_note(self, worker: _Worker, content: bytes) -> None:
        """See what a worker is about to be told."""
        match decode_to_worker(content):
            case Run(trial=trial, attempt=attempt) as job:
                worker.job, worker.logged_b = (trial, attempt), 0
                worker.rank = job.rank.number if job.rank is not None else 0
                self._brought.begin(worker.channel, job)
            case Forget(trial=trial, attempt=attempt):
                self._brought.forget(trial, attempt)

    async def _say(self, content: bytes) -> None:
        try:
            self._writer.write(frame(content))
            await self._writer.drain()
        except OSError:
            self._over.set()

    # --- workers ----------------------------------------------------------------------------------

    async def _start(self) -> None:
        process = WorkerProcess()
        reader, writer = await asyncio.open_connection(sock=process.line())
        worker = _Worker(self._next_channel(), process, writer, self._shares.take(process.name))
        self._workers[worker.channel] = worker
        await self._say(ours(Arrived(worker.channel, process.name)))
        self._keep(asyncio.create_task(self._speak_for(worker, reader)))

    def _next_channel(self) -> int:
        while True:
            self._channels = self._channels % MOST_CHANNELS + 1
            if self._channels not in self._workers:
                return self._channels

    async def _speak_for(self, worker: _Worker, reader: asyncio.StreamReader) -> None:
        """Pass on what a worker says until it ends; then tell what it left behind, and start another."""
        reason = "its process ended"
        frames = Frames()
        try:
            while piece := await reader.read(PIECE):
                for content in frames.feed(piece):
                    await self._hear(worker, content)
        except (ConnectionResetError, BrokenPipeError):
            pass
        except (ConnectionError, msgspec.DecodeError) as error:
            reason = f"it sent what is no message ({error})"
        worker.writer.close()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, worker.process.kill)
        self._shares.give_back(worker.process.name)
        await self._tell_what_is_left(worker)
        self._brought.end(worker.channel)
        del self._workers[worker.channel]
        if not worker.ready:
            reason += self._last_words()
            self._bad_starts += 1
        await self._say(ours(Departed(worker.channel, reason)))
        await asyncio.sleep(AGAIN_S[min(self._bad_starts, len(AGAIN_S) - 1)])
        await self._start()

    async def _hear(self, worker: _Worker, content: bytes) -> None:
        match decode_from_worker(content):
            case Ready():
                worker.ready, self._bad_starts = True, 0
            case Broken():
                worker.ready = True  # it said itself what is wrong
            case Saved(trial=trial, checkpoint=checkpoint) if all(checkpoint.digests):
                await self._send_state(worker, trial, checkpoint)
            case Ended(trial=trial, attempt=attempt):
                worker.job = None
                self._brought.end(worker.channel)
                await self._send_files(worker, trial, attempt)
        await self._say(on_channel(worker.channel, content))

    async def _tell_what_is_left(self, worker: _Worker) -> None:
        """Tell of an attempt that was completed, and perhaps not told; and send what it wrote in any case."""
        if worker.job is None:
            return
        assert self._serve is not None
        left = spool.find_in(self._serve.spool, *worker.job) if worker.rank == 0 else None
        await self._send_files(worker, *worker.job)
        if left is not None:
            await self._say(on_channel(worker.channel, encode(left)))

    async def _send_files(self, worker: _Worker, trial: int, attempt: int) -> None:
        assert self._serve is not None
        whole, own = (folder_of(self._serve.trials, trial, attempt, rank) for rank in (0, worker.rank))
        if not os.path.isdir(own):  # it wrote nothing
            return
        await self._send_log(worker, trial, attempt)
        for path in sorted(found for found in own.rglob("*") if found.is_file() and not found.is_symlink()):
            name = path.relative_to(own).as_posix()
            if name == LOG or STATE.fullmatch(name) or name.startswith(RANK):  # it is home, was never whole, or others'
                continue
            name = path.relative_to(whole).as_posix()
            try:
                await self._send_file(worker, trial, attempt, path, name)
            except (OSError, UnicodeError) as error:  # the outcome comes all the same
                self._remark(f"A file of trial {trial} cannot be sent and is lost: {error}.")

    async def _send_state(self, worker: _Worker, trial: int, checkpoint: Checkpoint) -> None:
        """Send the files of a state home; whoever goes on from it gets it from there, unless all reach it by now."""
        assert self._serve is not None
        if depot_at(self._serve.states, Path(self._serve.trials)).everywhere:
            return
        for part in PARTS:
            place = checkpoint.name(part, worker.rank)  # others than rank 0 say so of their shards alone
            path, name = Path(self._serve.trials, f"{trial:05d}", place), place.partition("/")[2]
            try:
                await self._send_file(worker, trial, checkpoint.attempt, path, name)
                path.unlink()
            except OSError as error:  # then it is damaged, as whoever reads it finds out
                self._remark(f"A state of trial {trial} cannot be sent and is lost: {error}.")

    async def _send_file(self, worker: _Worker, trial: int, attempt: int, path: Path, name: str) -> None:
        """Send a file that nobody writes to any more, in pieces.

        Raises:
            OSError: It cannot be read.
            UnicodeError: Its name is no Unicode.
        """
        for piece in cut(path, Piece(worker.channel, trial, attempt, name, b"", True)):
            await self._say(ours(piece))

    def _remark(self, text: str) -> None:
        """Have users told something, in what can be written down of it."""
        self._writer.write(frame(ours(Remark(text.encode(errors="backslashreplace").decode()))))

    async def _send_logs(self) -> None:
        """Send what attempts print while they run."""
        while True:
            await asyncio.sleep(LOGS_S)
            for worker in list(self._workers.values()):
                if worker.job is not None:
                    await self._send_log(worker, *worker.job)

    async def _send_log(self, worker: _Worker, trial: int, attempt: int) -> None:
        """Send what is new of an attempt's log, which only grows."""
        assert self._serve is not None
        whole, own = (folder_of(self._serve.trials, trial, attempt, rank) for rank in (0, worker.rank))
        path = own / LOG
        name = path.relative_to(whole).as_posix()
        with contextlib.suppress(FileNotFoundError), path.open("rb") as log:
            while data := os.pread(log.fileno(), PIECE_B, worker.logged_b):
                first, worker.logged_b = not worker.logged_b, worker.logged_b + len(data)  # before anybody else sends
                await self._say(ours(Piece(worker.channel, trial, attempt, name, data, first)))

    def _last_words(self) -> str:
        """Return the end of what workers could say to nobody else."""
        with contextlib.suppress(OSError):
            text = (self._folder / "workers.log").read_text(errors="replace")[-LAST_WORDS:].strip()
            return f". Its log ends so:\n{text}" if text else ""
        return ""

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._mistake = error
            self._over.set()  # a mistake of ours: better no node than a silent one
