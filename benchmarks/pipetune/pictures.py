"""LeNet-5 on pictures of digits and of clothes: type I of the paper."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from torch import nn

from benchmarks.pipetune.training import images, loaders, train
from benchmarks.pipetune.workloads import Workload, space

TRAIN: Final = 6_000
VALID: Final = 1_000


def model(dropout: float = 0.2) -> nn.Module:
    """Return the network of LeCun et al. 1998, with rectifiers, pooling by the maximum, and dropout."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def digits(batch_size: int = 128, loader_workers: int = 0) -> Any:
    """Return the loaders of MNIST."""
    return _of("mnist", batch_size, loader_workers)


def clothes(batch_size: int = 128, loader_workers: int = 0) -> Any:
    """Return the loaders of Fashion-MNIST."""
    return _of("fashion-mnist", batch_size, loader_workers)


def _of(folder: str, batch_size: int, loader_workers: int) -> Any:
    valid = images(folder, VALID, after=TRAIN)
    return loaders(images(folder, TRAIN), valid, batch_size=batch_size, loader_workers=loader_workers)


_LENET: Final = partial(Workload, train=train, model=model, space=space("batch_size", "dropout", "lr"))

MNIST: Final = _LENET("lenet5 mnist", data=digits)
FASHION: Final = _LENET("lenet5 fashion", data=clothes)
