"""Four more workloads, so that there is more to be told apart: larger and smaller steps, other layers, other losses."""

from __future__ import annotations

import csv
import gzip
from typing import Any, Final

import torch
from torch import nn

from benchmarks.live.workload import FOLDER
from benchmarks.pipetune.texts import WORDS, numbered
from benchmarks.pipetune.training import floats, images, loaders, photos, train
from benchmarks.pipetune.workloads import Workload, space

WORDS_READ: Final = 32
COLUMNS: Final = (0, 2, 4, 10, 11, 12)
"""Which of the 14 columns of Adult are numbers."""


def convolutional(dropout: float = 0.2) -> nn.Module:
    """Return a convolutional network whose steps are long."""
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(24, 48, 3, padding=1),
        nn.BatchNorm2d(48),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(3072, 10),
    )


def cifar(batch_size: int = 128, loader_workers: int = 0) -> Any:
    """Return the loaders of CIFAR-10."""
    (pictures, classes), (others, their) = photos("train-2", 1_000), photos("test", 200)
    rows = (floats(pictures), classes), (floats(others), their)
    return loaders(*rows, batch_size=batch_size, loader_workers=loader_workers)


class Attention(nn.Module):
    """One layer of attention over the words of a text."""

    def __init__(self, embedding: int, dropout: float) -> None:
        super().__init__()
        width = 8 * round(embedding / 8)
        self.words = nn.Embedding(WORDS, width, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout, batch_first=True)
        self.classes = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what speaks for each class."""
        said: torch.Tensor = self.classes(self.layer(self.words(x)).mean(1))
        return said


def attention(embedding: int = 96, dropout: float = 0.2) -> nn.Module:
    """Return the network with attention."""
    return Attention(embedding, dropout)


def news(batch_size: int = 128, loader_workers: int = 0) -> Any:
    """Return the loaders of AG News."""
    with gzip.open(FOLDER / "ag-news" / "test.csv.gz", "rt", encoding="utf-8") as lines:
        rows = [row for _, row in zip(range(1_800), csv.reader(lines), strict=False)]
    x = torch.tensor([numbered(" ".join(row[1:]), WORDS_READ) for row in rows])
    y = torch.tensor([int(row[0]) - 1 for row in rows])
    return loaders((x[:1_500], y[:1_500]), (x[1_500:], y[1_500:]), batch_size=batch_size, loader_workers=loader_workers)


def reconstructing() -> nn.Module:
    """Return a network that says again what it is shown, through a narrow place."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 24), nn.ReLU(), nn.Linear(24, 256), nn.ReLU(),
        nn.Linear(256, 784),
    )  # fmt: skip


def clothes(batch_size: int = 256, loader_workers: int = 0) -> Any:
    """Return the loaders of Fashion-MNIST, with more pictures than elsewhere."""
    valid = images("fashion-mnist", 1_000, after=15_000)
    return loaders(images("fashion-mnist", 15_000), valid, batch_size=batch_size, loader_workers=loader_workers)


def reconstruct(model: Any, data: Any, run: Any, *, lr: float = 0.001, epochs: int = 10, threads: int = 0) -> None:
    """Train a network to say again what it is shown, and report how much of the pictures it explains."""
    if threads:
        torch.set_num_threads(threads)
    net, (train_loader, valid_loader) = model(), data()
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    for _ in run.epochs(epochs):
        for x, _ in train_loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(net(x), x.flatten(1)).backward()
            optimizer.step()
        left = spread = 0.0
        with torch.no_grad():
            for x, _ in valid_loader:
                left += float((net(x) - x.flatten(1)).square().sum())
                spread += float((x - x.mean(0)).square().sum())
        run.report(accuracy=max(0.0, 1 - left / spread))


def layers(dropout: float = 0.2) -> nn.Module:
    """Return a network so small that its steps are hardly more than what starts them."""
    return nn.Sequential(nn.Linear(len(COLUMNS), 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 2))


def table(batch_size: int = 64, loader_workers: int = 0) -> Any:
    """Return the loaders of the numbers in Adult."""
    with gzip.open(FOLDER / "adult" / "adult.data.gz", "rt") as lines:
        told = csv.reader(lines, skipinitialspace=True)
        rows = [row for _, row in zip(range(32_000), (row for row in told if len(row) == 15), strict=False)]
    x = torch.tensor([[float(row[column]) for column in COLUMNS] for row in rows])
    y = torch.tensor([int(row[14].startswith(">")) for row in rows])
    x = (x - x.mean(0)) / x.std(0)
    many = len(rows) - 2_000
    return loaders((x[:many], y[:many]), (x[many:], y[many:]), batch_size=batch_size, loader_workers=loader_workers)


CIFAR: Final = Workload("cnn cifar", train, convolutional, cifar, space("batch_size", "dropout", "lr"))
TRANSFORMER: Final = Workload(
    "transformer news", train, attention, news, space("batch_size", "dropout", "embedding", "lr"),
    fixed={"optimizer": "adam", "lr": 0.001},
)  # fmt: skip
AUTOENCODER: Final = Workload("autoencoder", reconstruct, reconstructing, clothes, space("batch_size", "lr"))
TABLE: Final = Workload("table", train, layers, table, space("batch_size", "dropout", "lr"))
