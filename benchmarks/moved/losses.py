"""Losses of examples as they are while a network learns: real ones where the data set is, else of made-up images."""

from __future__ import annotations

import gzip
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.live.workload import FOLDER
from benchmarks.moved.images import CLASSES, Bytes, made_up

PIXELS: Final = 28 * 28
HIDDEN: Final = 64
BATCH: Final = 500
LR: Final = 0.02

Losses = npt.NDArray[np.float32]


def losses_of(n: int, epochs: int, *, real: bool) -> tuple[Losses, str]:
    """Train a small network, and return the loss of each example in each epoch, shape ``(epochs, n)``, and on what.

    Args:
        n: How many examples.
        epochs: How many epochs.
        real: Whether to train on the first images of Fashion-MNIST, if they are there.
    """
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    images, classes, which = _examples(n, real=real)
    x, y = torch.from_numpy(images.astype(np.float32) / 255), torch.from_numpy(classes.astype(np.int64))
    net: Any = torch.nn.Sequential(torch.nn.Linear(PIXELS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES))
    optimizer = torch.optim.SGD(net.parameters(), lr=LR, momentum=0.9)
    found = torch.empty(epochs, n)
    for epoch in range(epochs):
        for ids in torch.randperm(n).split(BATCH):
            each = torch.nn.functional.cross_entropy(net(x[ids]), y[ids], reduction="none")
            optimizer.zero_grad()
            each.mean().backward()
            optimizer.step()
            found[epoch, ids] = each.detach()
    return found.numpy(), which


def _examples(n: int, *, real: bool) -> tuple[Bytes, Bytes, str]:
    folder = FOLDER / "fashion-mnist"
    if not real or not folder.is_dir():
        return *made_up(n, PIXELS), "made-up images"
    with gzip.open(folder / "train-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(16 + n * PIXELS)[16:], np.uint8).reshape(n, PIXELS)
    with gzip.open(folder / "train-labels-idx1-ubyte.gz") as file:
        classes = np.frombuffer(file.read(8 + n)[8:], np.uint8)
    return images, classes, "Fashion-MNIST"
