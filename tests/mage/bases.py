"""Small programs that nobody parametrised: what patches are tried on, and what the probe and the judge look at.

``CNN_FILES`` is the network of listing 1 of the thesis' paper 6 (layers and sizes as there, 1,147,466 parameters) as a
script that knows nothing of Étude: ``python train.py --seed N`` trains it on a few hundred generated images and writes
``metrics.json``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

TRAIN: Final = '''\
"""Train a small convolutional network on generated images; its accuracy is written into metrics.json."""

import argparse
import json

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from evaluate import accuracy

EPOCHS = 2
BATCH_SIZE = 32
LEARNING_RATE = 1e-3


class CNN(nn.Module):
    """Three convolutions and two dense layers."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, kernel_size=3, padding=1)  # ABLATABLE_COMPONENT
        self.conv3 = nn.Conv2d(64, 128, kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1 = nn.Linear(128 * 4 * 4, 512)  # ABLATABLE_COMPONENT
        self.fc2 = nn.Linear(512, 10)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = self.pool(F.relu(self.conv3(x)))
        x = x.view(-1, 128 * 4 * 4)
        x = F.relu(self.fc1(x))
        x = self.dropout(x)
        return self.fc2(x)


def make_images(count, draws):
    """Return images of ten classes: a pattern for each, and noise."""
    patterns = torch.randn(10, 3, 32, 32, generator=torch.Generator().manual_seed(7))
    labels = torch.randint(10, (count,), generator=draws)
    return TensorDataset(patterns[labels] + torch.randn(count, 3, 32, 32, generator=draws), labels)


def train(model, loader, optimizer):
    """Go through the images once; return the mean loss."""
    model.train()
    total = 0.0
    for images, labels in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    draws = torch.Generator().manual_seed(1)
    train_loader = DataLoader(make_images(256, draws), batch_size=BATCH_SIZE, shuffle=True)
    test_loader = DataLoader(make_images(128, draws), batch_size=BATCH_SIZE)

    model = CNN()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, weight_decay=1e-4)
    for epoch in range(args.epochs):
        loss = train(model, train_loader, optimizer)
        print(f"epoch {epoch}: loss {loss:.4f}")

    metrics = {"accuracy": accuracy(model, test_loader)}
    print(f"accuracy {metrics['accuracy']:.4f}")
    with open("metrics.json", "w") as file:
        json.dump(metrics, file)


if __name__ == "__main__":
    main()
'''

EVALUATE: Final = '''\
"""How good a network is."""

import torch


@torch.no_grad()
def accuracy(model, loader):
    """Return the share of images whose class was found."""
    model.eval()
    correct, total = 0, 0
    for images, labels in loader:
        correct += (model(images).argmax(1) == labels).sum().item()
        total += len(labels)
    return correct / total
'''

CNN_FILES: Final[dict[str, str]] = {"train.py": TRAIN, "evaluate.py": EVALUATE}
"""The network, its training, and how it is judged."""


def write_cnn(folder: Path) -> Path:
    """Write ``CNN_FILES`` into a folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in CNN_FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder
