"""A small network in PyTorch."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def model(width: int = 16):
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def data(batch_size: int = 50):
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    return DataLoader(TensorDataset(x[:400], y[:400]), batch_size, shuffle=True), (x[400:600], y[400:600])


def train(model, data, run, *, lr: float, momentum: float = 0.9, epochs: int = 2):
    net, (batches, (x_valid, y_valid)) = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=momentum)
    run.keep(net=net, optimizer=optimizer)
    criterion = run.criterion(nn.CrossEntropyLoss())
    for _ in run.epochs(epochs):
        for x, y in batches:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            run.report(accuracy=(net(x_valid).argmax(1) == y_valid).float().mean().item())
