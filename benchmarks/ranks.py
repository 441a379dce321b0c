"""Ranks for benchmarks: processes on this machine that work on one thing together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import Result

if TYPE_CHECKING:
    from etude.frameworks.torch_ranks import Groups

TIMEOUT_S = 300.0


def together(module: str, args: Mapping[str, Any], ranks: int, place: Path) -> list[Result]:
    """Run ``rank_work`` of a module on several ranks with one thread each; return what each gave.

    Args:
        module: Its name.
        args: What it is called with beside the groups, as JSON.
        ranks: How many.
        place: An empty folder.
    """
    for rank in range(1, ranks):
        os.mkfifo(place / f"port-{rank}")  # through which rank 0 tells the port of its store
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.ranks", module, json.dumps(dict(args)), str(ranks), str(place)]
    processes = [subprocess.Popen([*command, str(rank)], env=environment, cwd=place) for rank in range(ranks)]
    try:
        codes = [process.wait() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if any(codes):
        raise SystemExit(f"ranks ended with the codes {codes}; their errors stand above.")
    return [json.loads((place / f"rank-{rank}.json").read_text()) for rank in range(ranks)]


def join(rank: int, ranks: int, place: Path) -> Groups:
    """Become a rank."""
    from etude.frameworks import torch_ranks

    if rank == 0:
        store, port = torch_ranks.open_store(timeout_s=TIMEOUT_S)
        for other in range(1, ranks):
            (place / f"port-{other}").write_text(str(port))
        return torch_ranks.join(rank=0, ranks=ranks, prefix="benchmark", timeout_s=TIMEOUT_S, store=store)
    port = int((place / f"port-{rank}").read_text())
    return torch_ranks.join(rank=rank, ranks=ranks, prefix="benchmark", timeout_s=TIMEOUT_S, port=port)


def _main(module: str, args: str, ranks: str, place: str, rank: str) -> None:
    import importlib

    import torch

    torch.set_num_threads(1)
    groups = join(int(rank), int(ranks), Path(place))
    found = importlib.import_module(module).rank_work(groups, **json.loads(args))
    (Path(place) / f"rank-{rank}.json").write_text(json.dumps(found))
    groups.leave()


if __name__ == "__main__":
    _main(*sys.argv[1:])
