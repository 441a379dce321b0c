"""The experiment of ``parallel_equal``: a small CNN, without anything that draws or looks at a whole batch."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import etude

BATCH: Final = 32
"""Examples of a global batch; a loader whose batches do not divide is refused."""
EXAMPLES: Final = 301
"""The last batch of an epoch has 13, of which ranks have parts that are not equal."""
BATCHES: Final = 10


def model(kind: str) -> nn.Module:
    """Return the network, in a kind of numbers by its name."""
    net = nn.Sequential(
        *(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(144, 32), nn.Tanh(), nn.Linear(32, 10)),
    )
    return net.to(getattr(torch, kind))


def data(kind: str) -> DataLoader[Any]:
    """Return images and their classes, shuffled in every epoch."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(EXAMPLES, 1, 12, 12, generator=generator, dtype=torch.float64).to(getattr(torch, kind))
    y = x.view(EXAMPLES, 12, 12)[:, 1:11, 1:11].mean(dim=2).argmax(dim=1)
    return DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True)


def train(model: Any, data: Any, run: Any, *, epochs: int) -> None:
    """Train, and report the loss of each global batch: a rank's part counts by its examples."""
    net, loader = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in run.epochs(epochs):
        for nth, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            run.report(loss=loss.item() * len(x) / min(BATCH, EXAMPLES - nth * BATCH))


def losses(kind: str, epochs: int, ranks: int) -> list[float]:
    """Train on so many ranks, and return the loss of each global batch."""
    final = etude.Experiment(train, model=model, data=data, metric="loss", mode="min").fit(
        at={"kind": kind, "epochs": epochs},
        ranks=ranks,
        parallel=etude.DDP(reduce={"loss": "sum"}),
        resources="cpus=1" if ranks == 1 else None,
        name=f"ranks-{ranks}",
    )
    [trial] = final.trials
    assert trial.state == "finished", trial.reason
    assert len(trial.curve) == epochs * BATCHES
    return list(trial.curve)
