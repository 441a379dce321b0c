"""Workloads in which there is something to save: a loader that fills the epoch, and code that asks for one thread."""

from __future__ import annotations

import zlib
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from benchmarks.pipetune.training import floats, images, loaders, photos, train
from benchmarks.pipetune.workloads import Workload, space

DECODED: Final = 1_200
TURNED: Final = 2_000
VALID: Final = 300
WIDE: Final = 1_200


class Packed(Dataset[Any]):
    """Photos that lie packed in memory, each unpacked when it is fetched, as files of pictures are."""

    def __init__(self, pictures: np.ndarray[Any, Any], classes: torch.Tensor) -> None:
        self._packed = [zlib.compress(_doubled(each).tobytes(), 6) for each in pictures]
        self._classes = classes

    def __len__(self) -> int:
        return len(self._packed)

    def __getitem__(self, nth: int) -> tuple[torch.Tensor, torch.Tensor]:
        pixels = np.frombuffer(zlib.decompress(self._packed[nth]), np.uint8).reshape(96, 96, 3)
        small = pixels.reshape(32, 3, 32, 3, 3).mean((1, 3), dtype=np.float32) / 255
        return torch.from_numpy(np.ascontiguousarray(small.transpose(2, 0, 1))), self._classes[nth]


class Turned(Dataset[Any]):
    """Photos that are turned, shifted and tinted by chance when they are fetched."""

    def __init__(self, pictures: np.ndarray[Any, Any], classes: torch.Tensor) -> None:
        self._pictures = floats(pictures)
        self._classes = classes

    def __len__(self) -> int:
        return len(self._classes)

    def __getitem__(self, nth: int) -> tuple[torch.Tensor, torch.Tensor]:
        angle, shift = (torch.rand(()) - 0.5) * 0.6, (torch.rand(2) - 0.5) * 0.25
        turn = torch.stack([angle.cos(), -angle.sin(), shift[0], angle.sin(), angle.cos(), shift[1]]).reshape(1, 2, 3)
        where = nn.functional.affine_grid(turn, [1, 3, 32, 32], align_corners=False)
        found = nn.functional.grid_sample(self._pictures[nth][None], where, align_corners=False)[0]
        return (found * (0.8 + 0.4 * torch.rand(3, 1, 1))).clamp(0, 1), self._classes[nth]


def _doubled(picture: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return picture.repeat(3, 0).repeat(3, 1)


def small(dropout: float = 0.2) -> nn.Module:
    """Return a small convolutional network."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(1024, 10),
    )


def packed(batch_size: int = 64, loader_workers: int = 0) -> Any:
    """Return the loaders of photos that are packed."""
    pictures, classes = photos("train-0", DECODED)
    return loaders(Packed(pictures, classes), _valid(), batch_size=batch_size, loader_workers=loader_workers)


def turned(batch_size: int = 64, loader_workers: int = 0) -> Any:
    """Return the loaders of photos that are turned."""
    pictures, classes = photos("train-1", TURNED)
    return loaders(Turned(pictures, classes), _valid(), batch_size=batch_size, loader_workers=loader_workers)


def _valid() -> tuple[torch.Tensor, torch.Tensor]:
    pictures, classes = photos("test", VALID)
    return floats(pictures), classes


def wide(dropout: float = 0.2) -> nn.Module:
    """Return a network of wide layers."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, WIDE),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(WIDE, WIDE),
        nn.ReLU(),
        nn.Linear(WIDE, 10),
    )


def clothes(batch_size: int = 128, loader_workers: int = 0) -> Any:
    """Return the loaders of Fashion-MNIST."""
    valid = images("fashion-mnist", 500, after=5_000)
    return loaders(images("fashion-mnist", 5_000), valid, batch_size=batch_size, loader_workers=loader_workers)


_SPACE: Final = space("batch_size", "dropout", "lr")

DECODING: Final = Workload("decoding", train, small, packed, _SPACE)
AUGMENTED: Final = Workload("augmented", train, small, turned, _SPACE)
ONE_THREAD: Final = Workload("one thread", train, wide, clothes, _SPACE, fixed={"threads": 1}, own_threads=1)
