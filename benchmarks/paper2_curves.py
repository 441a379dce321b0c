"""The learning curves that ``benchmarks.paper2`` goes along: 100 small networks, trained here on a part of the data.

    python -m benchmarks.paper2_curves                  # some six minutes of CPU time
    python -m benchmarks.paper2_curves --trials 2       # the first two: shows that it runs
    python -m benchmarks.paper2_curves --out FILE       # elsewhere than to the file of this repository

The experiment is that of Maggy's paper: a convolutional network of three layers and a fully connected one, on
Fashion-MNIST, with random search over the size of the kernels, the size of the pooling, the dropout and the learning
rate. The paper does not say how wide the layers are, where it pools, by what it optimises, how large a batch is or how
many epochs there are; that is ours, and so is the part of the images.

The file's first line says how the curves were made; each other one is a trial, as ``etude.RecordedCurves`` takes it.
Seconds are CPU seconds of the one thread that a trial has, so what else the machine does changes them little.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import ROOT, commit, machine

FILE: Final = Path(__file__).resolve().parent / "data" / "paper2-curves.jsonl"
"""Where the curves are kept, with the repository."""

FOLDER: Final = Path(os.environ.get("ETUDE_DATA") or ROOT / "../shared/data/fashion-mnist")
"""Where the four files of Fashion-MNIST are looked for; ``ETUDE_DATA`` names another place."""

METRIC: Final = "accuracy"
TRIALS: Final = 100
WORKERS: Final = 2
SEED: Final = 0
IMAGES: Final = 1_000
"""Trained on, out of 60,000."""
VALID: Final = 1_000
"""The next ones, which accuracies are taken on. The test images stay out of it."""
EPOCHS: Final = 8
BATCH: Final = 32
WIDTHS: Final = (8, 16, 16)


def records(file: Path = FILE) -> list[dict[str, Any]]:
    """Return the trials, as ``etude.RecordedCurves`` takes them."""
    return [json.loads(line) for line in file.read_text().splitlines()[1:]]


def how(file: Path = FILE) -> dict[str, Any]:
    """Return what the file says about how it was made."""
    found: dict[str, Any] = json.loads(file.read_text().splitlines()[0])
    return found


def space() -> dict[str, Any]:
    """Return the space of the paper's fourth listing."""
    import etude

    return {
        "kernel": etude.integers(2, 8),
        "pool": etude.integers(2, 8),
        "dropout": etude.uniform(0.01, 0.99),
        "learning_rate": etude.uniform(0.000001, 0.99),
    }


# --- training -------------------------------------------------------------------------------------


def model(kernel: int, pool: int, dropout: float) -> Any:
    """Return the network: a convolution, the pooling, two more convolutions, dropout, and the fully connected layer."""
    from torch import nn

    first, second, third = WIDTHS
    around = kernel // 2
    pooled = (29 - kernel % 2) // pool  # an even kernel makes an image larger by one
    side = pooled + 2 * (1 - kernel % 2)
    return nn.Sequential(
        nn.Conv2d(1, first, kernel, padding=around),
        nn.ReLU(),
        nn.MaxPool2d(pool),
        nn.Conv2d(first, second, kernel, padding=around),
        nn.ReLU(),
        nn.Conv2d(second, third, kernel, padding=around),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(third * side**2, 10),
    )


def images(folder: str) -> tuple[Any, Any]:
    """Return the first training images, from 0 to 1, and their classes."""
    import numpy as np
    import torch

    many = IMAGES + VALID
    with gzip.open(Path(folder) / "train-images-idx3-ubyte.gz") as file:
        pixels = file.read(16 + many * 784)[16:]
    with gzip.open(Path(folder) / "train-labels-idx1-ubyte.gz") as file:
        classes = file.read(8 + many)[8:]
    x = torch.from_numpy(np.frombuffer(pixels, np.uint8).reshape(many, 1, 28, 28).astype(np.float32) / 255)
    return x, torch.from_numpy(np.frombuffer(classes, np.uint8).astype(np.int64))


def train(model: Any, run: Any, *, learning_rate: float, folder: str, epochs: int) -> None:
    """Train by Adadelta, to which rates up to 1 are ordinary; report accuracy and CPU seconds of each epoch."""
    import torch
    from torch.nn.functional import cross_entropy

    torch.set_num_threads(1)
    x, y = images(folder)
    net = model()
    optimizer = torch.optim.Adadelta(net.parameters(), lr=learning_rate)
    for _ in run.epochs(epochs):
        began = time.process_time()
        net.train()
        for batch in torch.randperm(IMAGES).split(BATCH):
            optimizer.zero_grad()
            cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            right = torch.cat([net(part).argmax(1) for part in x[IMAGES:].split(500)]) == y[IMAGES:]
        run.report(accuracy=right.float().mean().item(), seconds=time.process_time() - began)


def measure(trials: int, out: Path) -> None:
    """Train the first trials of the search, two at a time, and write down their curves."""
    import etude

    experiment = etude.Experiment(train, model=model, metric=METRIC, mode="max")
    given = {**space(), "folder": str(FOLDER.resolve()), "epochs": EPOCHS}
    study = experiment.tune(
        given, trials=trials, workers=WORKERS, sampler="random", stopper="none", seed=SEED, name=f"paper2-{trials}",
        reuse_child=True,
    )  # fmt: skip
    print(study.summary())
    told = machine()
    first = {
        "made by": f"python -m benchmarks.paper2_curves --trials {trials}",
        "commit": commit(),
        "data": f"Fashion-MNIST, the first {IMAGES} training images of 60,000, and the next {VALID} to validate on",
        "epochs": EPOCHS,
        "batch size": BATCH,
        "widths": WIDTHS,
        "optimizer": "Adadelta",
        "seed": SEED,
        "seconds": "CPU seconds of one thread for an epoch, its validation included",
        "machine": {name: told[name] for name in ("cores", "cpu", "python")},
    }
    lines = [first, *(_record(trial) for trial in study.trials)]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(f"{out}: {len(study.trials)} trials")


def _record(trial: Any) -> Mapping[str, Any]:
    """Return a trial as a record, of this space's parameters alone."""
    reports: Sequence[Any] = [report for report in trial.reports if report.attempt == trial.attempts]
    assert len(reports) == EPOCHS, f"trial {trial.number} is {trial.state}, with {len(reports)} reports"
    return {
        "params": {name: trial.params[name] for name in space()},
        "seconds": [round(report.metrics["seconds"], 4) for report in reports],
        "metrics": {METRIC: [round(report.metrics[METRIC], 4) for report in reports]},
    }


def main() -> None:
    """Run as a command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper2_curves")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args()
    measure(options.trials, options.out)


if __name__ == "__main__":
    from benchmarks import paper2_curves  # noqa: PLW0406 - one module, not two

    paper2_curves.main()
