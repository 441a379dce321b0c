"""Warm processes: forked, not started, so that an attempt begins in a millisecond.

Two levels. ``warm`` is forked by the supervisor and imports packages, nothing else: it serves every
study of its driver, so a second study finds torch loaded. For each study it forks a ``template``,
which unpickles the user's functions (and with that imports the user's own modules, fresh) and forks
a child for each attempt.

A fork copies one thread. Whatever was started before it - a thread pool of OpenMP or BLAS, a CUDA
context - is broken in the child, and waits for ever or crashes there. So packages are imported with
all pools at one thread, nothing but imports happens here, and if a thread runs all the same, or CUDA
was touched, or the library is known to start its own (TensorFlow, JAX), children are spawned instead.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from etude.core.resources import VISIBLE_GPUS
from etude.core.signature import Signature
from etude.wire.channel import Channel
from etude.wire.messages import Serve, decode_to_worker, encode, plain_frame
from etude.wire.spool import open_spool
from etude.worker import attempt, processes, script_logging
from etude.worker.edits import edited, not_imported
from etude.worker.machine import gpu_memory_mb, gpus

ALWAYS_SPAWNED: Final = ("tensorflow", "jax")
POOLED: Final = ("numpy", "scipy", "sklearn", "torch")
"""Packages whose thread pools have to be set to their size again after the fork."""


REBUILT_AFTER_A_FORK: Final = ("jemalloc_bg_thd",)
"""Threads whose library puts itself right in a child. The allocator of Apache Arrow, which pandas imports, and
scikit-learn imports pandas, has one that gives memory back; its fork handlers start afresh without it."""


ON_FIRST_USE: Final = {"torch.optim": "torch._dynamo"}
"""What a module imports only when it is used. The first optimizer of a process brings about as many modules as
torch itself, and without this every child would import them anew."""


WITHOUT_CUDA: Final = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""Has torch.cuda.is_available() ask the library that watches over GPUs, and not CUDA itself, which would be broken
after the fork: modules like to ask where they are imported."""


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """The functions are there.

    ``note`` says why children are spawned, if they are, and ``gpus_mb`` how large the GPUs are, if that matters.
    """

    pid: int
    spool: str
    note: str = ""
    gpus_mb: dict[str, float] = {}


class Unloadable(msgspec.Struct, frozen=True, tag="unloadable"):
    """Attempts cannot be started here, or no more. ``edited`` says that a file was edited since the study began."""

    reason: str
    edited: bool = False


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    """A child ended, and all its descendants with it."""

    child: int
    status: int
    cpu_s: float
    memory_mb: float
    pid: int = 0


class Start(msgspec.Struct, frozen=True, tag="start"):
    """Start a child; its ends of the channel and of the log come along."""

    child: int


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """Kill a child, with the process group that it leads."""

    child: int


FromTemplate = Loaded | Unloadable | Exited
ToTemplate = Start | Kill
_decode_to_template = msgspec.msgpack.Decoder(ToTemplate).decode
decode_from_template = msgspec.msgpack.Decoder(FromTemplate).decode


def warm(control: Channel, supervisor: int) -> NoReturn:
    """Import packages and fork templates, until the supervisor is gone.

    Args:
        control: Gives frames with the names of packages, each with the socket of a new template.
        supervisor: The pid of the supervisor, our parent.
    """
    processes.die_with_parent(supervisor)
    processes.adopt_orphans()
    os.environ.setdefault(WITHOUT_CUDA, "1")
    while (received := control.receive_with_fds(1)) is not None:
        content, (fd,) = received
        _preload(msgspec.msgpack.decode(content, type=tuple[str, ...]))
        _keep_from_the_collector()
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            control.close()
            template(Channel(socket.socket(fileno=fd)), warm=me)
        os.close(fd)
        processes.kill_orphans(spare=(pid,))  # the template of the study before, and what falls to us from it
    os._exit(0)


def template(control: Channel, *, warm: int) -> NoReturn:
    """Hold the functions of one study and start a child for each request."""
    code = 1
    try:
        processes.die_with_parent(warm)
        processes.adopt_orphans()
        ours = Template(control)
        try:
            ours.work()
        finally:
            ours.end()
        code = 0
    except BaseException:  # it is our mistake if there is one, and it belongs into the workers' log
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        os._exit(code)


class Template:
    """The process that children are forked from.

    Args:
        control: The channel to the supervisor. Its first frame is ``Serve``; ``Start`` and ``Kill`` follow.
    """

    def __init__(self, control: Channel) -> None:
        self._control = control
        self._pids: dict[int, int] = {}  # pid -> number of the child
        self._wake_read, self._wake_write = os.pipe()

    def work(self) -> None:
        """Load the functions, then serve until the supervisor is gone."""
        content = self._control.receive()
        if content is None or not isinstance(serve := decode_to_worker(content), Serve):
            return
        self._serve = serve
        if not self._has_loaded():
            return
        why = why_not_fork()
        self._spawned = bool(why)
        self._spool, path = open_spool(serve.spool)
        resources = serve.resources
        gpus_mb = gpu_memory_mb(gpus()) if resources is not None and resources.packs else {}
        self._tell(Loaded(os.getpid(), path, why, gpus_mb))
        if not self._spawned:  # found out once, since whoever looks at all modules in a child copies their pages
            self._serve = msgspec.structs.replace(serve, files=not_imported(serve.files))
        attempt.rehearse()
        _keep_from_the_collector()
        self._watch_children()
        while True:
            sources: list[Any] = [self._control, self._wake_read]
            ready, _, _ = select.select(sources, [], [])
            if self._wake_read in ready:
                self._reap()
            if self._control in ready:
                received = self._control.receive_with_fds(2)
                if received is None:
                    return
                match _decode_to_template(received[0]):
                    case Start(child=child):
                        self._start(child, *received[1])
                    case Kill(child=child):
                        self._kill(child)

    def _has_loaded(self) -> bool:
        """Load the functions, or tell why they cannot be loaded or are no longer those of the study."""
        why = ""
        try:
            self._load()
        except BaseException:
            why = traceback.format_exc()
        if self._tell_if_edited():  # which is also why they may not load
            return False
        if why:
            self._tell(Unloadable(why))
        return not why

    def _load(self) -> None:
        serve = self._serve
        attempt.open_streams()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the supervisor's way is not for user code
        os.chdir(serve.cwd)
        sys.path[:] = list(serve.path)
        _log_to(os.path.join(os.path.dirname(serve.trials), "workers.log"))
        if serve.gpus is not None:  # before any code of the user's runs; whoever is forked or spawned has it from us
            os.environ[VISIBLE_GPUS] = ",".join(serve.gpus)
        self._functions = pickle.loads(serve.functions)  # from our driver alone  # noqa: S301
        attempt.install_main(self._functions)
        script_logging.set_up(serve.logging)
        self._signature = Signature.read(self._functions)
        # For libraries that are loaded later; those that are loaded by now hear of it after the fork.
        os.environ.update(dict.fromkeys(attempt.THREAD_VARIABLES, str(serve.threads)))

    def _tell_if_edited(self) -> bool:
        """Look whether what was or will be imported is what the study is made of."""
        why = edited(self._serve.files, cwd=self._serve.cwd)
        if why:
            self._tell(Unloadable(why, edited=True))
        return bool(why)

    def _start(self, child: int, sock: int, log: int) -> None:
        if self._spawned and self._tell_if_edited():
            os.close(sock)
            os.close(log)
            return  # and wait: the driver ends the study, and until then nobody is to blame for what still runs
        if self._spawned:
            pid = self._spawn(sock, log)
        else:
            me = os.getpid()
            pid = os.fork()
            if pid == 0:
                processes.die_with_parent(me)
                for fd in (self._wake_read, self._wake_write, self._control.fileno()):
                    os.close(fd)
                channel = socket.socket(fileno=sock)
                attempt.main(self._functions, self._signature, self._serve, channel, log=log, spool=self._spool)
        os.close(sock)
        os.close(log)
        self._pids[pid] = child

    def _kill(self, child: int) -> None:
        for pid, number in self._pids.items():
            if number == child:
                processes.kill(pid, group=True)

    def end(self) -> None:
        """Kill all children and whatever they started."""
        for pid in self._pids:
            processes.kill(pid, group=True)
        processes.kill_orphans(spare=())

    def _spawn(self, sock: int, log: int) -> int:
        with tempfile.TemporaryFile() as file:
            file.write(encode(self._serve))
            file.flush()
            fds = (sock, log, self._spool, file.fileno())
            command = [sys.executable, "-m", "etude.worker.spawned", *map(str, fds)]
            process = subprocess.Popen(command, pass_fds=fds)
        process.returncode = 0  # we reap it ourselves
        return process.pid

    def _watch_children(self) -> None:
        os.set_blocking(self._wake_write, False)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _reap(self) -> None:
        os.read(self._wake_read, 4096)
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self._pids.pop(pid, None)
            if child is not None:  # else an orphan that fell to us
                processes.kill_orphans(spare=self._pids)
                memory_mb = processes.peak_memory_mb(usage)
                self._tell(Exited(child, status, usage.ru_utime + usage.ru_stime, memory_mb, pid))

    def _tell(self, message: FromTemplate) -> None:
        self._control.send(plain_frame(message))


def _keep_from_the_collector() -> None:
    """Keep the collector of those that are forked from touching what is here: each page that it touches is copied.

    Done at both levels. A template that had to look through all that was imported would copy it once for each study.
    """
    gc.collect()
    gc.freeze()


def why_not_fork() -> str:
    """Say why children of this process have to be spawned; empty if they can be forked."""
    if sys.platform == "darwin":
        return "macOS's own libraries do not survive a fork"
    for name in ALWAYS_SPAWNED:
        if name in sys.modules:
            return f"{name} is loaded, whose threads do not survive a fork"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "CUDA was started while your modules were imported"
    lost = [name for name in _other_threads() if name not in REBUILT_AFTER_A_FORK]
    if lost:
        return f"{len(lost)} thread(s) were started while your modules were imported"
    return ""


def _other_threads() -> list[str]:
    """Return the names of all threads but the main one, as the kernel has them; empty where it does not tell."""
    names = []
    with contextlib.suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if task.name != str(os.getpid()):
                    names.append((task / "comm").read_text(encoding="utf-8", errors="replace").strip())
    return names


def _preload(modules: tuple[str, ...]) -> None:
    for name in (*modules, *(later for name, later in ON_FIRST_USE.items() if name in modules)):
        # What cannot be imported here fails where the user's code asks for it, with its traceback.
        with contextlib.suppress(BaseException):
            importlib.import_module(name)
    if any(name in sys.modules for name in POOLED):
        importlib.import_module("threadpoolctl")


def _log_to(path: str) -> None:
    """Send what is printed while modules load to a file of the study."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
