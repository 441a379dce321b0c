"""Real ranks for tests: processes on this machine with one thread each, which run functions of a test file together.

A rank runs all functions that it is given in the same groups, one after the other, and writes what became of each. So
a test file starts its ranks once, and has a test for each function. All ranks are forked from one process, which has
loaded torch and the test file: that takes longer than what most functions do.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import pickle
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from etude.worker import processes

TIMEOUT_S = 10.0
LIMIT_S = 120.0
BETWEEN_S = 0.05
LOOK_S = 0.1
"""How often ranks that wait look after each other; not so often that it would show."""


class Rank:
    """A process that a template forked."""

    def __init__(self, template: Template, pid: int) -> None:
        self._template = template
        self._pid = pid
        self.returncode: int | None = None

    def wait(self, limit_s: float = LIMIT_S) -> int:
        """Wait until it has ended, and return its exit code."""
        while self.returncode is None:
            self._template.hear(limit_s)
        return self.returncode

    def kill(self) -> None:
        """End it, if it has not ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)


class Template:
    """The process that ranks are forked from, one group after the other. It loads torch when the first is wanted."""

    def __init__(self) -> None:
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "FATAL"}
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(os.getpid())],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._ranks: list[Rank] = []

    def fork(self, *request: Any) -> list[Rank]:
        """Start ranks, those of the one before having ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(pickle.dumps(request))
        self._ranks = [Rank(self, pid) for pid in self._told(LIMIT_S)]
        return self._ranks

    def hear(self, limit_s: float) -> None:
        """Take in that the next rank has ended."""
        rank, code = self._told(limit_s)
        self._ranks[rank].returncode = code

    def close(self) -> None:
        """End it, at once: an interpreter with so much in it takes its time to go."""
        self._process.kill()
        self._process.communicate()

    def _told(self, limit_s: float) -> list[int]:
        answers = self._process.stdout
        assert answers is not None
        if not select.select([answers], [], [], limit_s)[0]:
            raise TimeoutError(f"nothing was heard of the ranks for {limit_s:g} s")
        line = answers.readline()
        assert line, "the process that ranks are forked from has ended"
        return [int(word) for word in line.split()]


_TEMPLATES: list[Template] = []


def open_template() -> Template:
    """Start what ranks are forked from; ``conftest.py`` does this once for all tests, and ends it."""
    _TEMPLATES.append(Template())
    return _TEMPLATES[-1]


def start(file: str, functions: Sequence[str], ranks: int, place: Path, **more: Any) -> list[Rank]:
    """Start ranks; rank 0 tells the others the port of its store through pipes."""
    place.mkdir(exist_ok=True)
    return _TEMPLATES[-1].fork(file, functions, ranks, place, more)


def run(
    file: str, functions: Sequence[str], ranks: int, place: Path, *, killed: Sequence[int] = (), **more: Any
) -> list[dict[str, Any]]:
    """Let ranks run functions of a file; return what each rank has of each: a result, or a traceback.

    They end well after that, unless they are to be killed.
    """
    started = start(file, functions, ranks, place, **more)
    try:
        for process in started:
            process.wait(LIMIT_S)
    finally:
        for process in started:
            process.kill()
            process.wait()
    codes = [process.returncode for process in started]
    assert codes == [-signal.SIGKILL if rank in killed else 0 for rank in range(ranks)], codes
    return [results(place, rank) for rank in range(ranks)]


def first(file: str, function: str, ranks: int, place: Path, *, rank: int, **more: Any) -> Any:
    """Let ranks run a function that one of them alone comes through, and return what that one has of it."""
    started = start(file, [function], ranks, place, **more)
    try:
        for _ in range(int(LIMIT_S / BETWEEN_S)):
            if results(place, rank):
                break
            with contextlib.suppress(TimeoutError):
                started[rank].wait(BETWEEN_S)
    finally:
        for process in started:
            process.kill()
            process.wait()
    return results(place, rank)[function]


def results(place: Path, rank: int) -> dict[str, Any]:
    path = place / f"rank-{rank}"
    return dict(pickle.loads(path.read_bytes())) if path.exists() else {}


def outcome(found: list[dict[str, Any]], name: str) -> list[Any]:
    """Return what a function gave on every rank; fail with its traceback if it raised."""
    given = [rank.get(name, (False, "it did not come to that")) for rank in found]
    told = [f"rank {rank}: {value}" for rank, (went_well, value) in enumerate(given) if not went_well]
    assert not told, "\n".join(told)
    return [value for _, value in given]


def _serve() -> None:
    """Fork the ranks that are asked for, until nobody asks any more. A rank returns, and ends as a script does."""
    processes.die_with_parent(int(sys.argv[1]))
    with contextlib.suppress(EOFError):
        while True:
            file, functions, ranks, place, more = pickle.load(sys.stdin.buffer)
            module = _loaded(file)
            pids: list[int] = []
            pipes = [os.pipe() for _ in range(ranks)]
            me = os.getpid()
            for rank in range(ranks):
                pid = os.fork()
                if pid == 0:
                    _be_a_rank(module, functions, rank, pipes, place, more, template=me)
                    return
                pids.append(pid)
            for end in (end for pipe in pipes for end in pipe):
                os.close(end)
            _tell(*pids)
            for _ in pids:
                pid, status = os.wait()
                _tell(pids.index(pid), os.waitstatus_to_exitcode(status))


def _tell(*words: int) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def _loaded(file: str) -> Any:
    import torch
    import torch._dynamo  # which the first optimizer of a process needs, and loading it takes seconds

    torch.set_num_threads(1)
    name = Path(file).stem
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    gc.collect()
    gc.freeze()  # else the collector of each rank would copy all that is loaded
    return sys.modules[name]


def _be_a_rank(
    module: Any,
    functions: Sequence[str],
    rank: int,
    pipes: Sequence[tuple[int, int]],
    place: Path,
    more: dict[str, Any],
    *,
    template: int,
) -> None:
    from etude.frameworks import torch_ranks

    processes.die_with_parent(template)
    os.dup2(2, 1)  # what functions print is no answer of the template's
    limit, look_s = more.pop("timeout_s", TIMEOUT_S), more.pop("look_s", LOOK_S)
    store, port = None, 0
    if rank == 0:
        store, port = torch_ranks.open_store(timeout_s=limit)
        for _, write in pipes:
            os.write(write, port.to_bytes(2, "big"))
    else:
        port = int.from_bytes(os.read(pipes[rank][0], 2), "big")
    for end in (end for pipe in pipes for end in pipe):
        os.close(end)
    settings = {"rank": rank, "ranks": len(pipes), "prefix": "attempt-1", "timeout_s": limit, "look_s": look_s}
    groups = torch_ranks.join(**settings, store=store, port=port)
    found: dict[str, Any] = {}
    for name in functions:
        found[name] = _tried(getattr(module, name), groups, more)
        (place / f"rank-{rank}.part").write_bytes(pickle.dumps(found))
        (place / f"rank-{rank}.part").rename(place / f"rank-{rank}")
    groups.leave()


def _tried(function: Callable[..., Any], groups: Any, more: dict[str, Any]) -> Any:
    try:
        return True, function(groups, **more)
    except BaseException:
        return False, traceback.format_exc()


if __name__ == "__main__":
    _serve()
