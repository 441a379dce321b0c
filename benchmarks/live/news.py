"""News in four classes (the test part of AG News), and the mean of word embeddings."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from typing import Final

import numpy as np
import torch
from torch import nn

import etude
from benchmarks.live.training import loaders
from benchmarks.live.workload import FOLDER, Workload

WORDS: Final = 2**13
"""Numbers that a word may have; some words share one, and 0 stands for no word."""
LENGTH: Final = 48
"""Words of a text that are read."""
TRAIN: Final = 5_000
VALID: Final = 1_300
BATCH: Final = 50


def model(dropout: float) -> nn.Module:
    """Return the network."""
    return nn.Sequential(nn.EmbeddingBag(WORDS, 32, mode="mean", padding_idx=0), nn.Dropout(dropout), nn.Linear(32, 4))


def data(part: float = 1.0) -> etude.Data:
    """Return the loaders, of texts in an order that is always the same."""
    with gzip.open(FOLDER / "ag-news" / "test.csv.gz", "rt", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))
    order = np.random.RandomState(0).permutation(len(rows))
    x = torch.tensor([numbered(" ".join(rows[nth][1:])) for nth in order])
    y = torch.tensor([int(rows[nth][0]) - 1 for nth in order])
    last = TRAIN + VALID
    return loaders(
        x[:TRAIN], y[:TRAIN],
        valid=(x[TRAIN:last], y[TRAIN:last]), test=(x[last:], y[last:]), part=part, batch_size=BATCH,
    )  # fmt: skip


def numbered(text: str) -> list[int]:
    """Return the numbers of a text's first words."""
    words = re.findall(r"[a-z0-9]+", text.lower())[:LENGTH]
    return [1 + zlib.crc32(word.encode()) % (WORDS - 1) for word in words] + [0] * (LENGTH - len(words))


WORKLOAD: Final = Workload(
    "news",
    model,
    data,
    {
        "lr": etude.loguniform(0.0003, 0.01),
        "weight_decay": etude.loguniform(1e-6, 1e-3),
        "dropout": etude.uniform(0.0, 0.5),
    },
    fixed={"optimizer": "adam"},
    examples=TRAIN, batch_size=BATCH, epochs=12, search_epochs=6, early=2, target=0.839,
)  # fmt: skip
