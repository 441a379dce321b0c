"""The experiment of ``parallel_fails``: a training of which one rank raises, while the others are at a known place."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import etude

STEPS: Final = 5
"""Steps that all ranks make before one of them raises."""
LONG_S: Final = 600.0
"""What a rank is busy with that is elsewhere: nothing that this benchmark waits for."""
GO: Final = "go"
RAISED: Final = "raised"
PATIENCE_S: Final = 120.0


def model() -> nn.Module:
    """Return a small network."""
    return nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 2))


def data() -> DataLoader[Any]:
    """Return a loader of far more steps than are made."""
    x = torch.randn(64 * STEPS, 8, generator=torch.Generator().manual_seed(0))
    return DataLoader(TensorDataset(x, (x.sum(1) > 0).long()), batch_size=16, shuffle=True)


def train(model: Any, data: Any, run: Any, *, place: str, raises: int, elsewhere: bool) -> None:
    """Train for some steps; then one rank raises once it is told to, and the others go on, or are elsewhere."""
    net, loader = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for nth, (x, y) in enumerate(loader):
        if nth == STEPS:
            note(Path(place) / f"rank-{run.rank}", os.getpid())
            if run.rank == raises:
                wait_for(Path(place) / GO)
                note(Path(place) / RAISED, time.time())
                raise ValueError("this rank gives up")
            if elsewhere:
                time.sleep(LONG_S)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()


def note(path: Path, value: float) -> None:
    """Write a number; who finds the file finds all of it."""
    part = path.with_suffix(".part")
    part.write_text(repr(value))
    part.rename(path)


def wait_for(path: Path) -> None:
    """Wait until a file is there."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not path.exists():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{path} did not come within {PATIENCE_S:g} s")
        time.sleep(0.005)


EXPERIMENT: Final = etude.Experiment(train, model=model, data=data, metric="loss", mode="min")
