"""Handwritten digits of 8 by 8, and a small convolutional network; once more with a fifth of the labels wrong."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import etude
from benchmarks.live.training import loaders
from benchmarks.live.workload import Workload

TRAIN: Final = 900
VALID: Final = 400
BATCH: Final = 30
SPACE: Final = {
    "lr": etude.loguniform(0.0003, 0.01),
    "weight_decay": etude.loguniform(1e-6, 1e-3),
    "dropout": etude.uniform(0.0, 0.5),
}


def model(dropout: float) -> nn.Module:
    """Return the network."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 128),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(128, 10),
    )


def data(part: float = 1.0, noise: float = 0.0) -> etude.Data:
    """Return the loaders.

    Args:
        part: Of the training images, how many are trained with.
        noise: The share of training images with a wrong label, always the same; final runs are validated and tested
            with right ones.
    """
    images, labels = load_digits(return_X_y=True)
    draw = np.random.RandomState(0)
    order = draw.permutation(len(labels))
    x = torch.tensor(images[order] / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    y = labels[order]
    wrong = draw.permutation(TRAIN)[: round(noise * TRAIN)]
    y[wrong] = (y[wrong] + draw.randint(1, 10, len(wrong))) % 10
    classes = torch.tensor(y)
    first, last = TRAIN, TRAIN + VALID
    return loaders(
        x[:first], classes[:first],
        valid=(x[first:last], classes[first:last]), test=(x[last:], classes[last:]), part=part, batch_size=BATCH,
    )  # fmt: skip


CLEAN: Final = Workload(
    "digits", model, data, SPACE, fixed={"optimizer": "adam", "noise": 0.0}, examples=TRAIN, batch_size=BATCH,
    epochs=12, search_epochs=8, early=2, target=0.957,
)  # fmt: skip
NOISY: Final = Workload(
    "noise", model, data, SPACE, fixed={"optimizer": "adam", "noise": 0.2}, examples=TRAIN, batch_size=BATCH,
    epochs=15, search_epochs=8, early=2, target=0.935,
)  # fmt: skip
