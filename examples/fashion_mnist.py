"""Tune a small CNN on Fashion-MNIST, read from the four files as they were published.

    python examples/fashion_mnist.py --data path/to/fashion-mnist
    python examples/fashion_mnist.py --data path/to/fashion-mnist --images 60000 --trials 50     # all of it

The training function is a plain PyTorch loop. By default it sees 3,000 images, so that this is done in a minute.
"""

from __future__ import annotations

import argparse
import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

import etude

FILES = {
    "x": "train-images-idx3-ubyte.gz",
    "y": "train-labels-idx1-ubyte.gz",
    "x_test": "t10k-images-idx3-ubyte.gz",
    "y_test": "t10k-labels-idx1-ubyte.gz",
}


def model(width: int = 16, dropout: float = 0.1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, width, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(2 * width * 7 * 7, 10),
    )


def data(folder: etude.Stateless[str], images: int = 3000, batch_size: int = 64) -> etude.Data:
    read = {name: read_idx(Path(folder) / file) for name, file in FILES.items()}
    n_valid = images // 6  # the search chooses on the last sixth; the test images stay out of it
    first, last = slice(0, images - n_valid), slice(images - n_valid, images)

    def loader(x: Any, y: Any, *, shuffle: bool = False) -> DataLoader[Any]:
        pixels = torch.tensor(x, dtype=torch.float32).unsqueeze(1) / 255
        return DataLoader(TensorDataset(pixels, torch.tensor(y).long()), batch_size=batch_size, shuffle=shuffle)

    return etude.Data(
        loader(read["x"][first], read["y"][first], shuffle=True),
        loader(read["x"][last], read["y"][last]),
        loader(read["x_test"], read["y_test"]),
    )


def read_idx(path: Path) -> Any:
    """Return the array in an idx file: two zero bytes, the type, the number of axes, their lengths, the values."""
    content = gzip.decompress(path.read_bytes())
    axes = content[3]
    shape = np.frombuffer(content, ">i4", count=axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def train(
    model: Any, data: Any, run: Any, *, lr: float, epochs: int = 4, final: etude.Stateless[bool] = False
) -> dict[str, float]:
    net, (train_loader, valid_loader, test_loader) = model(), data()
    optimizer = optim.Adam(net.parameters(), lr=lr)
    for _ in run.epochs(epochs):
        net.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
        run.report(accuracy=accuracy(net, valid_loader))
    result = {"accuracy": accuracy(net, valid_loader)}
    if final:  # once, after everything was chosen
        result["test_accuracy"] = accuracy(net, test_loader)
    return result


@torch.no_grad()
def accuracy(net: nn.Module, loader: DataLoader[Any]) -> float:
    net.eval()
    return float(torch.cat([(net(x).argmax(1) == y).float() for x, y in loader]).mean())


experiment = etude.Experiment(train, model=model, data=data, metric="accuracy", mode="max")


def main() -> None:
    parser = argparse.ArgumentParser(description="Tune a small CNN on Fashion-MNIST.")
    parser.add_argument("--data", default=os.environ.get("ETUDE_DATA"), help="the folder; default: ETUDE_DATA")
    parser.add_argument("--images", type=int, default=3000, help="how many images to train and validate on")
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    missing = [file for file in FILES.values() if not given.data or not (Path(given.data) / file).is_file()]
    if missing:
        parser.error(
            f"{given.data or 'no folder was given, and it'} has no {', '.join(missing)}. Get the four files from "
            "https://github.com/zalandoresearch/fashion-mnist and pass their folder: --data FOLDER."
        )

    fixed = {"folder": str(Path(given.data).absolute()), "images": given.images}
    space = {"lr": etude.loguniform(1e-4, 1e-1), "width": [8, 16], "dropout": etude.uniform(0.0, 0.5)}
    search = experiment.tune({**space, **fixed}, trials=given.trials, workers=given.workers)
    print(search.summary())
    print("The winner once more:", experiment.run(**search.best.params, seed=search.best.seed, final=True))


if __name__ == "__main__":
    main()
