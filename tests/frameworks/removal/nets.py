"""Small nets for the tests of removal; the sizes of their axes differ, so that none fits by luck."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Plain(nn.Module):
    """Convolutions one behind the other."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(8, 12, 3, padding=1)
        self.relu2 = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.conv3 = nn.Conv2d(12, 5, 3, padding=1)
        self.fc = nn.Linear(5 * 4 * 4, 40)
        self.head = nn.Linear(40, 10)
        self.big = nn.Linear(40, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu1(self.conv1(x))
        x = self.pool(self.relu2(self.conv2(x)))
        x = F.relu(self.fc(self.conv3(x).flatten(1)))
        return self.head(x + torch.tanh(self.big(x)))


IMAGE = (6, 3, 8, 8)


class Residual(nn.Module):
    """A branch beside the identity, with a norm before it; a gate; a branch of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 6)
        self.norm = nn.LayerNorm(6)
        self.branch = nn.Linear(6, 6)
        self.gate = nn.Sequential(nn.Linear(6, 6), nn.Sigmoid())
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = x + self.branch(self.norm(x))
        x = x * self.gate(x)
        x = x + self.second(torch.relu(self.first(x)))
        return self.head(x)


class Dense(nn.Module):
    """Each layer reads all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 5, 3, padding=1)
        self.one = nn.Conv2d(5, 4, 3, padding=1)
        self.two = nn.Conv2d(9, 7, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.head = nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = torch.cat([x, self.one(x)], 1)
        x = torch.cat([x, self.two(x)], 1)
        return self.head(self.norm(x))


class Stage(nn.Module):
    """A stage whose width is held together by an addition."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.bn = nn.BatchNorm2d(6)
        self.depthwise = nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.conv = nn.Conv2d(6, 6, 3, padding=1)
        self.wide = nn.Linear(6 * 4 * 4, 60)
        self.head = nn.Linear(60, 400)  # much that need not be rebuilt

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn(self.stem(x)))
        x = x + self.conv(self.depthwise(x))
        x = F.adaptive_avg_pool2d(x, 4).flatten(1)
        return self.head(torch.relu(self.wide(x)))


class Tagger(nn.Module):
    """Tokens to tags."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(31, 6)
        self.lstm = nn.LSTM(6, 7, batch_first=True, bidirectional=True)
        self.middle = nn.Linear(14, 40)
        self.tags = nn.Linear(40, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.tags(torch.relu(self.middle(self.lstm(self.embed(tokens))[0])))


class Owner(nn.Module):
    """Its first block gives the others a bias of its own, as in T5."""

    class Block(nn.Module):
        def __init__(self, owns: bool) -> None:
            super().__init__()
            self.mix = nn.Linear(6, 6)
            self.table = nn.Embedding(9, 6) if owns else None

        def forward(self, x: torch.Tensor, bias: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
            if bias is None:
                assert self.table is not None
                bias = self.table(torch.arange(x.shape[1], device=x.device))
            return x + torch.tanh(self.mix(x) + bias), bias

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 6)
        self.blocks = nn.ModuleList([self.Block(owns=n == 0) for n in range(3)])
        self.head = nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, bias = self.stem(x), None
        for block in self.blocks:
            x, bias = block(x, bias)
        return self.head(x)
