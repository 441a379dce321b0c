"""Real ranks for tests: processes on this machine with one thread each, which run functions of a test file together.

A rank runs all functions that it is given on one groups, one after the other, and writes what became of each. So a test
file starts its ranks once, and has a test for each function.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

TIMEOUT_S = 10.0
LIMIT_S = 120.0
BETWEEN_S = 0.05
LOOK_S = 0.1
"""How often ranks that wait look after each other; not so often that it would show."""


def start(file: str, functions: Sequence[str], ranks: int, place: Path, **more: Any) -> list[subprocess.Popen[bytes]]:
    """Start ranks; rank 0 tells the others the port of its store through pipes."""
    place.mkdir(exist_ok=True)
    for rank in range(1, ranks):
        os.mkfifo(place / f"port-{rank}")
    (place / "more").write_bytes(pickle.dumps(more))
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "FATAL"}
    return [
        subprocess.Popen(
            [sys.executable, __file__, file, ",".join(functions), str(rank), str(ranks), str(place)], env=environment
        )
        for rank in range(ranks)
    ]


def run(
    file: str, functions: Sequence[str], ranks: int, place: Path, *, killed: Sequence[int] = (), **more: Any
) -> list[dict[str, Any]]:
    """Let ranks run functions of a file; return what each rank has of each: a result, or a traceback.

    They end well after that, unless they are to be killed.
    """
    processes = start(file, functions, ranks, place, **more)
    try:
        for process in processes:
            process.wait(LIMIT_S)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    codes = [process.returncode for process in processes]
    assert codes == [-signal.SIGKILL if rank in killed else 0 for rank in range(ranks)], codes
    return [results(place, rank) for rank in range(ranks)]


def first(file: str, function: str, ranks: int, place: Path, *, rank: int, **more: Any) -> Any:
    """Let ranks run a function that one of them alone comes through, and return what that one has of it."""
    processes = start(file, [function], ranks, place, **more)
    try:
        for _ in range(int(LIMIT_S / BETWEEN_S)):
            if results(place, rank):
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                processes[rank].wait(BETWEEN_S)
    finally:
        for process in processes:
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


def _be_a_rank(file: str, functions: str, rank: int, ranks: int, place: Path) -> None:
    import torch

    from etude.frameworks import torch_ranks

    torch.set_num_threads(1)
    more = pickle.loads((place / "more").read_bytes())
    limit, look_s = more.pop("timeout_s", TIMEOUT_S), more.pop("look_s", LOOK_S)
    settings = {"rank": rank, "ranks": ranks, "prefix": "attempt-1", "timeout_s": limit, "look_s": look_s}
    if rank == 0:
        store, port = torch_ranks.open_store(timeout_s=limit)
        for other in range(1, ranks):
            (place / f"port-{other}").write_text(str(port))
        groups = torch_ranks.join(**settings, store=store)
    else:
        port = int((place / f"port-{rank}").read_text())
        groups = torch_ranks.join(**settings, port=port)
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[Path(file).stem] = module
    spec.loader.exec_module(module)
    found: dict[str, Any] = {}
    for name in functions.split(","):
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
    _be_a_rank(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
