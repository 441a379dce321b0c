"""Images for trainings whose data is moved: real ones where the data sets are, else made up."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.live.workload import FOLDER

CLASSES: Final = 10
PIXELS: Final = 32 * 32 * 3
RECORD_B: Final = PIXELS + 1
"""An image of CIFAR-10 as its files have it: bytes of pixels, and one for the class."""

CIFAR: Final = tuple(FOLDER / "cifar10" / f"train-{part}.npz" for part in range(3))

Bytes = npt.NDArray[np.uint8]


def cifar(n: int) -> tuple[Bytes, str]:
    """Return ``n`` records of CIFAR-10, shape ``(n, RECORD_B)``, or made-up ones; and which they are."""
    files = [path for path in CIFAR if path.exists()]
    parts: list[Any] = [np.load(path) for path in files]
    if sum(len(part["y"]) for part in parts) < n:
        pixels, classes = made_up(n, PIXELS)
        return np.hstack([pixels, classes[:, None]]), "made-up images"
    pixels = np.concatenate([part["x"].reshape(-1, PIXELS) for part in parts])[:n]
    classes = np.concatenate([part["y"] for part in parts])[:n].astype(np.uint8)
    return np.hstack([pixels, classes[:, None]]), "images of CIFAR-10"


def made_up(n: int, pixels: int, *, seed: int = 0) -> tuple[Bytes, Bytes]:
    """Return noisy images of ten classes, each with noise of its own strength, and their classes."""
    draws = np.random.default_rng(seed)
    classes = draws.integers(0, CLASSES, n)
    centres = draws.normal(0, 20, (CLASSES, pixels))
    noise = draws.normal(size=(n, pixels)) * draws.lognormal(4, 0.7, (n, 1))
    return np.clip(128 + centres[classes] + noise, 0, 255).astype(np.uint8), classes.astype(np.uint8)
