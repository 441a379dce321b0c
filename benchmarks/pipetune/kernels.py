"""Three computations without a network: type III of the paper. An epoch is a bunch of iterations.

Each reports as ``accuracy`` how much of its problem is solved, from 0 to 1.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

import etude
from benchmarks.pipetune.training import images
from benchmarks.pipetune.workloads import Workload, space

SIDE: Final = 1024
SWEEPS: Final = 300
VERTICES: Final = 60_000
DEGREE: Final = 8
EACH: Final = 64
"""Searches that run at once, one in each bit of a number."""
EVERY: Final = 512
"""Searches of an epoch."""
POINTS: Final = 12_000
CLUSTERS: Final = 48
ROUNDS: Final = 8


def _with(threads: int) -> None:
    if threads:
        torch.set_num_threads(threads)


def jacobi(run: Any, *, weight: float = 1.0, epochs: int = 10, threads: int = 0) -> None:
    """Solve Poisson's equation on a square by Jacobi's iteration; ``weight`` says how far each sweep goes."""
    _with(threads)
    source = torch.rand(SIDE, SIDE, generator=torch.Generator().manual_seed(0)) - 0.5
    u = torch.zeros(SIDE + 2, SIDE + 2)
    at_first = float(source.norm())
    for _ in run.epochs(epochs):
        for _ in range(SWEEPS):
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            u[1:-1, 1:-1].lerp_((around + source) / 4, weight)
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        left = float((source + around - 4 * u[1:-1, 1:-1]).norm())
        run.report(accuracy=max(0.0, 1 - left / at_first))


def bfs(run: Any, *, batch_size: int = 256, epochs: int = 10, threads: int = 0) -> None:
    """Measure distances in a random graph by searches that go through it level by level, ``batch_size`` at a time."""
    _with(threads)
    draws = np.random.default_rng(0)
    ends = draws.integers(0, VERTICES, (2, VERTICES * DEGREE // 2))
    both = np.concatenate([ends, ends[::-1], np.tile(np.arange(VERTICES), (2, 1))], axis=1)
    both = both[:, np.argsort(both[0], kind="stable")]
    starts = np.searchsorted(both[0], np.arange(VERTICES))
    means: list[float] = []
    for _ in run.epochs(epochs):
        for _ in range(0, EVERY, min(batch_size, EVERY)):
            for _ in range(0, min(batch_size, EVERY), EACH):
                means.append(_mean_distance(both[1], starts, draws.integers(0, VERTICES, EACH)))
        error = float(np.std(means) / np.sqrt(len(means)))
        run.report(accuracy=max(0.0, 1 - error / float(np.mean(means))))


def _mean_distance(
    neighbours: np.ndarray[Any, Any], starts: np.ndarray[Any, Any], sources: np.ndarray[Any, Any]
) -> float:
    reached = np.zeros(VERTICES, np.uint64)
    np.bitwise_or.at(reached, sources, np.uint64(1) << np.arange(len(sources), dtype=np.uint64))
    total, level, many = 0.0, 0, len(sources)
    while True:
        level += 1
        further = np.bitwise_or.reduceat(reached[neighbours], starts)
        now = int(np.unpackbits(further.view(np.uint8)).sum())
        if now == many:
            return total / many
        total, many, reached = total + level * (now - many), now, further


def kmeans(run: Any, *, weight: float = 1.0, epochs: int = 10, threads: int = 0) -> None:
    """Find clusters of pictures; ``weight`` says how far the centres go towards the means of what is nearest."""
    _with(threads)
    x = images("fashion-mnist", POINTS)[0].flatten(1)
    centres = x[torch.randperm(POINTS, generator=torch.Generator().manual_seed(0))[:CLUSTERS]].clone()
    spread = float((x - x.mean(0)).square().sum())
    for _ in run.epochs(epochs):
        for _ in range(ROUNDS):
            near = torch.cdist(x, centres).argmin(1)
            means = torch.zeros_like(centres).index_add_(0, near, x)
            counts = torch.bincount(near, minlength=CLUSTERS).clamp(min=1)
            centres.lerp_(means / counts[:, None], weight)
        left = float(torch.cdist(x, centres).amin(1).square().sum())
        run.report(accuracy=max(0.0, 1 - left / spread))


_WEIGHT: Final = {"weight": etude.uniform(0.3, 1.0)}

JACOBI: Final = Workload("jacobi", jacobi, space=_WEIGHT)
BFS: Final = Workload("bfs", bfs, space=space("batch_size"))
KMEANS: Final = Workload("k-means", kmeans, space=_WEIGHT)
