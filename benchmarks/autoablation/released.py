"""The Titanic network as the paper's released notebook has it, beside which the example's is held.

Three things differ from the example. Numbers are not scaled. Behind the two hidden layers there are a third one, with
two units and a sigmoid, and an output without any activation. And the loss takes this output for a probability: it is
clipped into [1e-7, 1 - 1e-7], so that where it is outside nothing is learned. Weights are drawn as Keras does.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import etude

CLIP: Final = 1e-7


def model(n_features: etude.Derived[int]) -> nn.Module:
    """Return the network."""
    widths = (n_features, 64, 64, 2, 1)
    after = (nn.ReLU(), nn.ReLU(), nn.Sigmoid(), nn.Flatten(0))
    layers: list[nn.Module] = []
    for width_in, width, activation in zip(widths, widths[1:], after, strict=False):
        linear = nn.Linear(width_in, width)
        nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(linear.bias)
        layers += [linear, activation]
    return nn.Sequential(*layers)


def train(model: Any, data: Any, epochs: int = 10, batch_size: int = 30) -> dict[str, float]:
    """Train, and return the test accuracy, and whether all passengers got the same answer."""
    net, parts = model(), data()
    passengers = TensorDataset(*map(torch.as_tensor, parts.train))
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(epochs):
        for x, survived in DataLoader(passengers, batch_size, shuffle=True):
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy(net(x).clamp(CLIP, 1 - CLIP), survived.float()).backward()
            optimizer.step()
    x, survived = map(torch.as_tensor, parts.test)
    with torch.no_grad():
        answers = net(x) > 0.5
    return {
        "accuracy": float((answers == survived).float().mean()),
        "one_answer": float(len(answers.unique()) == 1),
    }
