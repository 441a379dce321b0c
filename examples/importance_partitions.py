"""ResNet-18 on CIFAR-10, data-parallel, with training examples assigned to ranks by their importance.

    python examples/importance_partitions.py --data path/to/cifar10
    python examples/importance_partitions.py --data path/to/cifar10 --gpus      # a rank for each GPU, as in the paper

It is the experiment of Sheikholeslami et al. 2023, "The Impact of Importance-Aware Dataset Partitioning on
Data-Parallel Training of Deep Neural Networks". The data are `train-*.npz` and `test.npz`, with images in `x` and
labels in `y`. By default it has a narrow network, 600 images and six epochs, so that two ranks of a laptop are done in
minutes: it shows how this is done, and not whether it helps. With `--gpus` it has the sizes of the paper, and NCCL.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

import etude

MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
DEVIATION = torch.tensor([0.2470, 0.2435, 0.2616]).view(3, 1, 1)


class Block(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or width_in != width:
            self.around = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return images of the next size."""
        out = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(out + self.around(x))


def model(width: int = 64) -> nn.Module:
    """Return ResNet-18 for images of 32 by 32; 64 is its usual width."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    wide = width
    for stage in range(4):
        for nth in range(2):
            layers.append(Block(wide, width * 2**stage, stride=2 if stage and not nth else 1))
            wide = width * 2**stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide, 10))


def data(folder: etude.Stateless[str], images: int = 50_000, batch_size: int = 256) -> etude.Data:
    def loader(files: list[Path], most: int, *, shuffle: bool) -> DataLoader[Any]:
        parts = [np.load(file) for file in files]
        x = torch.from_numpy(np.concatenate([part["x"] for part in parts])[:most]).permute(0, 3, 1, 2)
        y = torch.from_numpy(np.concatenate([part["y"] for part in parts])[:most]).long()
        return DataLoader(TensorDataset(((x / 255) - MEAN) / DEVIATION, y), batch_size, shuffle=shuffle)

    there = Path(folder)
    return etude.Data(
        loader(sorted(there.glob("train-*.npz")), images, shuffle=True),
        None,
        loader([there / "test.npz"], images // 2, shuffle=False),
    )


def train(model: Any, data: Any, run: Any, *, lr: float = 0.1, epochs: int = 100) -> dict[str, float]:
    net, parts = model(), data()
    optimizer = optim.SGD(net.parameters(), lr=lr, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    run.keep(net=net, optimizer=optimizer, schedule=schedule)
    criterion = run.criterion(nn.CrossEntropyLoss())  # as it is, but a partition learns what it sees
    for _ in run.epochs(epochs):
        net.train()
        for x, y in parts.train:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        schedule.step()
        run.report(accuracy=accuracy(net, parts.test))
    return {"accuracy": accuracy(net, parts.test)}  # after the last epoch: the best one would be chosen by the test


@torch.no_grad()
def accuracy(net: nn.Module, loader: DataLoader[Any]) -> float:
    net.eval()
    right: int = sum(int((net(x).argmax(1) == y).sum()) for x, y in loader)
    return right / len(loader.dataset)  # type: ignore[arg-type] # a TensorDataset


experiment = etude.Experiment(train, model=model, data=data, metric="accuracy", mode="max")

SMALL = {"width": 8, "images": 600, "batch_size": 64, "epochs": 6}
PAPER = {"width": 64, "images": 50_000, "batch_size": 1024, "epochs": 100}  # 256 for each of four ranks

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="the folder with train-*.npz and test.npz")
    parser.add_argument("--gpus", action="store_true", help="a rank for each GPU, and the sizes of the paper")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--images", type=int, help="another number of training images")
    args = parser.parse_args()
    if not (Path(args.data) / "test.npz").is_file():
        parser.error(f"{args.data} has no test.npz.")
    ranks = torch.cuda.device_count() if args.gpus else args.ranks
    if args.gpus and ranks < 2:
        parser.error(f"--gpus needs two GPUs or more, and there are {ranks}. Leave it out.")

    sizes = (PAPER if args.gpus else SMALL) | ({"images": args.images} if args.images else {})
    first: dict[str, Any] = (
        {"warmup": 15, "ignore": 5, "interval": 10} if args.gpus else {"warmup": 3, "ignore": 1, "interval": 1}
    )
    arms = {
        "vanilla": None,
        "stripes": etude.partitions.Stripes(**first),
        "blocks": etude.partitions.Blocks(**first),
        "sticky stripes": etude.partitions.StickyStripes(**first),
    }
    for name, partition in arms.items():
        final = experiment.fit(
            at={"folder": args.data, **sizes},
            seed=args.seed,
            ranks=ranks,
            partition=partition,
            resources="gpus=1" if args.gpus else None,
        )
        told = final.best.metrics
        moved = f", {told['examples_moved']:,.0f} examples moved" if partition is not None else ""
        print(f"{name}: accuracy {final.value:.3f} after {sizes['epochs']} epochs{moved}")
