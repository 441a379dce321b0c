"""Trains a small convolutional network on CIFAR-10, or on images of its shape that are drawn if there are none."""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class CIFAR10CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, kernel_size=3, padding=1)  #ABLATABLE_COMPONENT
        self.conv3 = nn.Conv2d(64, 128, kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1 = nn.Linear(128 * 4 * 4, 512)  #ABLATABLE_COMPONENT
        self.fc2 = nn.Linear(512, 10)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = self.pool(F.relu(self.conv3(x)))
        x = x.flatten(1)
        x = self.dropout(F.relu(self.fc1(x)))
        return self.fc2(x)


def load(folder, n_train, n_valid):
    """Return images and labels of both parts, as tensors."""
    if folder:
        parts = [np.load(path) for path in sorted(Path(folder).glob("train-*.npz"))]
        train_x, train_y = np.concatenate([part["x"] for part in parts]), np.concatenate([part["y"] for part in parts])
        test = np.load(Path(folder) / "test.npz")
        valid_x, valid_y = test["x"], test["y"]
    else:  # ten colours with noise: images of that shape, and nothing more
        draw = np.random.default_rng(0)
        colours = draw.integers(0, 256, (10, 1, 1, 3))
        train_y, valid_y = draw.integers(0, 10, n_train), draw.integers(0, 10, n_valid)
        train_x = np.clip(colours[train_y] + draw.normal(0, 60, (n_train, 32, 32, 3)), 0, 255).astype("uint8")
        valid_x = np.clip(colours[valid_y] + draw.normal(0, 60, (n_valid, 32, 32, 3)), 0, 255).astype("uint8")

    def tensors(x, y, n):
        images = torch.from_numpy(x[:n]).permute(0, 3, 1, 2).float().div(127.5).sub(1.0)
        return TensorDataset(images, torch.from_numpy(y[:n].astype("int64")))

    return tensors(train_x, train_y, n_train), tensors(valid_x, valid_y, n_valid)


def accuracy(model, loader):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    return right / total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", default=os.environ.get("CIFAR10", ""), help="folder with train-*.npz and test.npz")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="few images, one epoch")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    n_train, n_valid, epochs = (256, 128, 1) if args.quick else (15000, 3000, args.epochs)
    train, valid = load(args.data, n_train, n_valid)
    loader = DataLoader(train, batch_size=64, shuffle=True)
    model = CIFAR10CNN()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        found = accuracy(model, DataLoader(valid, batch_size=256))
        print(f"epoch {epoch + 1}: accuracy: {found:.4f}", flush=True)
    Path("metrics.json").write_text(json.dumps({"accuracy": found}))


if __name__ == "__main__":
    main()
