"""The experiment of ``importance_verdict``: a small network for handwritten digits, trained by several ranks."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import etude
from benchmarks.live import digits

BATCH: Final = 32
"""Divisible by two ranks."""


def data(noise: float = 0.0) -> etude.Data:
    """Return loaders of the training and the test images; nothing is chosen, so there is no validation part."""
    parts = digits.data(noise=noise)
    rows, test = (TensorDataset(part.dataset.x, part.dataset.y) for part in (parts.train, parts.test))
    return etude.Data(DataLoader(rows, BATCH, shuffle=True), None, DataLoader(test, len(test)))


def train(model: Any, data: Any, run: Any, *, lr: float = 0.003, epochs: int = 20) -> float:
    """Train, and return the test accuracy after the last epoch, in percent."""
    net, parts = model(), data()
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    criterion = run.criterion(nn.CrossEntropyLoss())
    for _ in run.epochs(epochs):
        net.train()
        for x, y in parts.train:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
    net.eval()
    with torch.no_grad():
        right = sum((net(x).argmax(1) == y).sum().item() for x, y in parts.test)
    return float(100 * right / len(parts.test.dataset))


EXPERIMENT: Final = etude.Experiment(train, model=digits.model, data=data, metric="accuracy", mode="max")
