"""Ten thousand images of Fashion-MNIST, and a small convolutional network."""

from __future__ import annotations

import gzip
from typing import Final

import numpy as np
import torch
from torch import nn

import etude
from benchmarks.live.training import Batch, loaders
from benchmarks.live.workload import FOLDER, Workload

TRAIN: Final = 10_000
VALID: Final = 2_000
TEST: Final = 2_000
BATCH: Final = 100


def model(dropout: float) -> nn.Module:
    """Return the network."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(784, 10),
    )


def data(part: float = 1.0) -> etude.Data:
    """Return the loaders: the first training images, the next ones to validate with, and the first test images."""
    x, y = images("train", TRAIN + VALID)
    return loaders(
        x[:TRAIN], y[:TRAIN],
        valid=(x[TRAIN:], y[TRAIN:]), test=images("t10k", TEST), part=part, batch_size=BATCH,
    )  # fmt: skip


def images(which: str, many: int) -> Batch:
    """Return the first images of a file, from 0 to 1, and their classes."""
    folder = FOLDER / "fashion-mnist"
    with gzip.open(folder / f"{which}-images-idx3-ubyte.gz") as file:
        pixels = file.read(16 + many * 784)[16:]
    with gzip.open(folder / f"{which}-labels-idx1-ubyte.gz") as file:
        classes = file.read(8 + many)[8:]
    x = np.frombuffer(pixels, np.uint8).reshape(many, 1, 28, 28).astype(np.float32) / 255
    return torch.from_numpy(x), torch.from_numpy(np.frombuffer(classes, np.uint8).astype(np.int64))


WORKLOAD: Final = Workload(
    "fashion",
    model,
    data,
    {
        "lr": etude.loguniform(0.003, 0.03),
        "weight_decay": etude.loguniform(1e-5, 1e-2),
        "dropout": etude.uniform(0.0, 0.5),
    },
    examples=TRAIN, batch_size=BATCH, epochs=10, search_epochs=5, early=1, target=0.847,
)  # fmt: skip
