"""The training function that the networks share, and their loaders."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.live.workload import FOLDER

Rows = tuple[torch.Tensor, torch.Tensor]


def train(
    model: Any, data: Any, run: Any, *, lr: float = 0.01, epochs: int = 10, optimizer: str = "sgd", threads: int = 0
) -> None:
    """Train a network to tell classes, and report the accuracy after each epoch.

    With ``threads`` it computes with so many, as code does whose author has set them; 0 leaves them alone.
    """
    if threads:
        torch.set_num_threads(threads)
    net, (train_loader, valid_loader) = model(), data()
    chosen: torch.optim.Optimizer = (
        torch.optim.Adam(net.parameters(), lr=lr)
        if optimizer == "adam"
        else torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    )
    run.keep(net=net, optimizer=chosen)
    for _ in run.epochs(epochs):
        net.train()
        for x, y in train_loader:
            chosen.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            chosen.step()
        run.report(accuracy=_accuracy(net, valid_loader))


def _accuracy(net: nn.Module, loader: Any) -> float:
    net.eval()
    right, many = 0, 0
    with torch.no_grad():
        for x, y in loader:
            right += int((net(x).argmax(1) == y).sum())
            many += len(y)
    return right / many


def loaders(
    train: Dataset[Any] | Rows, valid: Rows, *, batch_size: int, loader_workers: int
) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Return the loaders of what is trained and of what is validated with."""
    examples = TensorDataset(*train) if isinstance(train, tuple) else train
    return (
        DataLoader(examples, batch_size=batch_size, shuffle=True, num_workers=loader_workers),
        DataLoader(TensorDataset(*valid), batch_size=1000, num_workers=loader_workers),
    )


def images(folder: str, many: int, *, after: int = 0) -> Rows:
    """Return training images of MNIST or Fashion-MNIST, from 0 to 1, and their classes.

    Args:
        folder: Where the files are.
        many: How many images.
        after: How many are passed over first.
    """
    with gzip.open(FOLDER / folder / "train-images-idx3-ubyte.gz") as file:
        pixels = file.read(16 + (after + many) * 784)[16 + after * 784 :]
    with gzip.open(FOLDER / folder / "train-labels-idx1-ubyte.gz") as file:
        classes = file.read(8 + after + many)[8 + after :]
    x = np.frombuffer(pixels, np.uint8).reshape(many, 1, 28, 28).astype(np.float32) / 255
    return torch.from_numpy(x), torch.from_numpy(np.frombuffer(classes, np.uint8).astype(np.int64))


def photos(part: str, many: int) -> tuple[np.ndarray[Any, Any], torch.Tensor]:
    """Return the first photos of a file of CIFAR-10, 32 x 32 x 3 bytes each, and their classes."""
    found = np.load(FOLDER / "cifar10" / f"{part}.npz")
    return found["x"][:many], torch.from_numpy(found["y"][:many].astype(np.int64))


def floats(pictures: np.ndarray[Any, Any]) -> torch.Tensor:
    """Return photos as a network takes them: colours first, from 0 to 1."""
    return torch.from_numpy(np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)).astype(np.float32) / 255)
