"""What do four layers of a small CNN contribute? A convolution, a dense layer and two dropouts are taken out in turn.

    python examples/mnist_layers.py path/to/mnist
    python examples/mnist_layers.py path/to/mnist --images 60000 --batch-size 512     # all of it, as in the paper

It is the second experiment of Sheikholeslami et al. 2021, "AutoAblation: Automated Parallel Ablation Studies for Deep
Learning". The folder holds the four files of MNIST as they were published, *-ubyte.gz. By default it trains on 2,000
images, and tests on as many, so that this is done in minutes.
"""

from __future__ import annotations

import argparse
import gzip
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import etude

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
LAYERS = (
    "layer:second_conv with=second_relu",
    "layer:dense_layer with=dense_relu",
    "layer:first_dropout",
    "layer:second_dropout",
)


def model(dropout: float = 0.85) -> nn.Module:
    return nn.Sequential(
        OrderedDict(
            first_conv=nn.Conv2d(1, 32, 4),
            first_relu=nn.ReLU(),
            second_conv=nn.Conv2d(32, 64, 4),
            second_relu=nn.ReLU(),
            pool=nn.MaxPool2d(7),
            first_dropout=nn.Dropout(dropout),
            flatten=nn.Flatten(),
            dense_layer=nn.Linear(64 * 3 * 3, 128),
            dense_relu=nn.ReLU(),
            second_dropout=nn.Dropout(dropout),
            output=nn.Linear(128, 10),
        )
    )


def data(folder: etude.Stateless[str], images: int = 2000, batch_size: int = 32) -> etude.Data:
    x, y, x_test, y_test = (read_idx(Path(folder) / f"{file}.gz") for file in FILES)

    def loader(x: Any, y: Any, *, shuffle: bool) -> DataLoader[Any]:
        pixels = torch.tensor(x, dtype=torch.float32).unsqueeze(1) / 255
        return DataLoader(TensorDataset(pixels, torch.tensor(y).long()), batch_size, shuffle=shuffle)

    return etude.Data(
        loader(x[:images], y[:images], shuffle=True), None, loader(x_test[:images], y_test[:images], shuffle=False)
    )


def read_idx(path: Path) -> Any:
    """Return the array in an idx file: two zero bytes, the type, the number of axes, their lengths, the values."""
    content = gzip.decompress(path.read_bytes())
    axes = content[3]
    shape = np.frombuffer(content, ">i4", count=axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def train(model: Any, data: Any, run: Any, epochs: int = 10) -> float:
    net, parts = model(), data()
    optimizer = torch.optim.Adadelta(net.parameters(), lr=1.0, rho=0.95)
    for _ in run.epochs(epochs):
        for x, y in parts.train:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
    net.eval()
    with torch.no_grad():
        return float(torch.cat([(net(x).argmax(1) == y).float() for x, y in parts.test]).mean())


experiment = etude.Experiment(train, model=model, data=data, metric="accuracy", mode="max")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the four files of MNIST are")
    parser.add_argument(
        "--images", type=int, default=2000, help="how many images to train on, and how many at most to test on"
    )
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--force", action="store_true", help="train with so few seeds that nothing could be decided")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    if missing := [file for file in FILES if not (Path(args.folder) / f"{file}.gz").is_file()]:
        parser.error(f"{args.folder} has no {', '.join(f'{file}.gz' for file in missing)}.")
    at = {"folder": args.folder, "images": args.images, "batch_size": args.batch_size, "epochs": args.epochs}
    ablation: Any = experiment.ablate(LAYERS, at=at, seeds=args.seeds, workers=args.workers, force=args.force)
    for arm in sorted(ablation.arms, key=lambda arm: arm.mean):
        print(f"{arm.name:36} accuracy {arm.mean:.3f}, effect {arm.effect:+.3f}")


if __name__ == "__main__":
    main()
