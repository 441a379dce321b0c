"""The study of small networks for the benchmark of chaos: they go on from their states, within epochs too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn, optim

import etude
from etude.frameworks.trees import digest_of

WORKERS = 4
EPOCHS = 8


class Loader:
    """Noisy images in an order of each epoch's own. Its state is what is left of that."""

    def __init__(self) -> None:
        self.x = torch.linspace(-1, 1, 320 * 64).reshape(320, 1, 8, 8)
        self.order: list[torch.Tensor] = []

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        self.order = self.order or list(torch.randperm(320).split(8))
        while self.order:
            chosen, *self.order = self.order
            yield self.x[chosen] + 0.1 * torch.randn(8, 1, 8, 8), chosen % 3

    def __len__(self) -> int:
        return 40

    def state_dict(self) -> dict[str, Any]:
        """Return what is left of the order."""
        return {"order": list(self.order)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with what is left of an order."""
        self.order = state["order"]


def model() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(288, 3))


def train(model: Any, run: Any, lr: float) -> dict[str, float]:
    net, loader = model(), Loader()
    optimizer = optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    kept = run.keep(net=net, optimizer=optimizer, total=0.0)
    for _ in run.epochs(EPOCHS):
        kept.total = 0.0
        for x, y in run.steps(loader, every=15):
            loss = nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            kept.total += loss.item()
        run.report(score=-kept.total)
    with open(os.environ["ETUDE_CHAOS_LOG"], "a") as log:
        log.write(f"done {run.trial}\n")
    return {"score": -kept.total, "digest": float(int(digest_of(dict(net.state_dict()))[:12], 16))}


def study(trials: str) -> None:
    """Run the study; it is started again by this same call whenever its driver was killed."""
    etude.Experiment(train, model=model, metric="score", mode="max").tune(
        {"lr": etude.loguniform(1e-3, 1e-1)}, trials=int(trials), workers=WORKERS, sampler="random", stopper="none"
    )
