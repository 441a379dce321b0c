"""A convolutional and a recurrent network on the texts of 20 Newsgroups: type II of the paper."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from typing import Any, Final

import torch
from torch import nn

from benchmarks.live.workload import FOLDER
from benchmarks.pipetune.training import loaders, train
from benchmarks.pipetune.workloads import Workload, space

WORDS: Final = 2**12
"""Numbers that a word may have; some words share one, and 0 stands for no word."""
CLASSES: Final = 20
VALID: Final = 500
WIDTHS: Final = (3, 4, 5)
FILTERS: Final = 32


class Convolutions(nn.Module):
    """Filters of several widths over the words of a text, and the largest answer of each (Kim 2014)."""

    def __init__(self, embedding: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, embedding, padding_idx=0)
        self.filters = nn.ModuleList(nn.Conv1d(embedding, FILTERS, width) for width in WIDTHS)
        self.dropout = nn.Dropout(dropout)
        self.classes = nn.Linear(FILTERS * len(WIDTHS), CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what speaks for each class."""
        words = self.words(x).transpose(1, 2)
        answers = [torch.relu(each(words)).amax(2) for each in self.filters]
        said: torch.Tensor = self.classes(self.dropout(torch.cat(answers, 1)))
        return said


class Recurrent(nn.Module):
    """A long short-term memory that reads a text, and the mean of what it says at each word."""

    def __init__(self, embedding: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, embedding, padding_idx=0)
        self.memory = nn.LSTM(embedding, 64, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.classes = nn.Linear(64, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what speaks for each class."""
        said: torch.Tensor = self.classes(self.dropout(self.memory(self.words(x))[0].mean(1)))
        return said


def convolutions(embedding: int = 100, dropout: float = 0.2) -> nn.Module:
    """Return the convolutional network."""
    return Convolutions(embedding, dropout)


def recurrent(embedding: int = 100, dropout: float = 0.2) -> nn.Module:
    """Return the recurrent network."""
    return Recurrent(embedding, dropout)


def long_texts(batch_size: int = 128, loader_workers: int = 0) -> Any:
    """Return the loaders of texts of 128 words."""
    return _of(128, 1_500, batch_size, loader_workers)


def short_texts(batch_size: int = 128, loader_workers: int = 0) -> Any:
    """Return the loaders of texts of 48 words: reading one takes a step for each."""
    return _of(48, 4_000, batch_size, loader_workers)


def _of(length: int, many: int, batch_size: int, loader_workers: int) -> Any:
    texts, classes = [], []
    with gzip.open(FOLDER / "20newsgroups" / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
        for _, line in zip(range(many + VALID), lines, strict=False):
            told = json.loads(line)
            texts.append(numbered(f"{told['subject']} {told['text']}", length))
            classes.append(told["label"])
    x, y = torch.tensor(texts), torch.tensor(classes)
    rows = (x[:many], y[:many]), (x[many:], y[many:])
    return loaders(*rows, batch_size=batch_size, loader_workers=loader_workers)


def numbered(text: str, length: int) -> list[int]:
    """Return the numbers of a text's first words."""
    words = re.findall(r"[a-z0-9]+", text.lower())[:length]
    return [1 + zlib.crc32(word.encode()) % (WORDS - 1) for word in words] + [0] * (length - len(words))


_SPACE: Final = space("batch_size", "dropout", "embedding", "lr")

CNN: Final = Workload("cnn news", train, convolutions, long_texts, _SPACE, fixed={"optimizer": "adam"})
LSTM: Final = Workload("lstm news", train, recurrent, short_texts, _SPACE, fixed={"optimizer": "adam"})
