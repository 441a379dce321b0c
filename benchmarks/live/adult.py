"""Who earns more than 50,000 dollars, by the census of 1994 (Adult), and a network of two hidden layers."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import nn

import etude
from benchmarks.live.training import loaders
from benchmarks.live.workload import FOLDER, Workload

NUMBERS: Final = (0, 2, 4, 10, 11, 12)
"""Which of the 14 columns are numbers; the others are words."""
INPUTS: Final = 108
TRAIN: Final = 4_000
VALID: Final = 5_000
BATCH: Final = 50


def model(dropout: float) -> nn.Module:
    """Return the network."""
    return nn.Sequential(
        nn.Linear(INPUTS, 128), nn.ReLU(), nn.Dropout(dropout), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2)
    )


def data(part: float = 1.0) -> etude.Data:
    """Return the loaders: numbers by the mean and deviation of the training rows, a column of 0 and 1 for each word."""
    rows, tests = read("adult.data.gz"), read("adult.test.gz")
    words = {column: sorted({row[column] for row in [*rows, *tests]}) for column in range(14) if column not in NUMBERS}
    x, tested = _inputs(rows, words), _inputs(tests, words)
    mean, deviation = x[:TRAIN].mean(0), x[:TRAIN].std(0)
    many = len(NUMBERS)
    for part_of in (x, tested):
        part_of[:, :many] = (part_of[:, :many] - mean[:many]) / deviation[:many]
    y, classes = _classes(rows), _classes(tests)
    last = TRAIN + VALID
    return loaders(
        x[:TRAIN], y[:TRAIN],
        valid=(x[TRAIN:last], y[TRAIN:last]), test=(tested, classes), part=part, batch_size=BATCH,
    )  # fmt: skip


def read(name: str) -> list[list[str]]:
    """Return the rows of a file."""
    with gzip.open(FOLDER / "adult" / name, "rt") as lines:
        return [row for row in csv.reader(lines, skipinitialspace=True) if len(row) == 15]


def _inputs(rows: Sequence[Sequence[str]], words: dict[int, list[str]]) -> torch.Tensor:
    numbers = np.array([[float(row[column]) for column in NUMBERS] for row in rows], np.float32)
    places = {column: {word: nth for nth, word in enumerate(known)} for column, known in words.items()}
    told = [
        np.eye(len(known), dtype=np.float32)[[places[column][row[column]] for row in rows]]
        for column, known in words.items()
    ]
    return torch.from_numpy(np.concatenate([numbers, *told], axis=1))


def _classes(rows: Sequence[Sequence[str]]) -> torch.Tensor:
    return torch.tensor([int(row[14].startswith(">")) for row in rows])


WORKLOAD: Final = Workload(
    "adult",
    model,
    data,
    {
        "lr": etude.loguniform(0.0001, 0.003),
        "weight_decay": etude.loguniform(1e-6, 1e-3),
        "dropout": etude.uniform(0.0, 0.5),
    },
    fixed={"optimizer": "adam"},
    examples=TRAIN, batch_size=BATCH, epochs=12, search_epochs=6, early=2, target=0.852,
)  # fmt: skip
