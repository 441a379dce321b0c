# ruff: noqa: D102 - what `forward` does, its class says
"""Graph networks in plain torch: nodes with features, and edges as pairs of node numbers."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.family import Family

NODES: Final = 13
EDGES: Final = 31


class GraphConvolution(nn.Module):
    """The mean of what the neighbours send, and what the node is itself."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.own = nn.Linear(width, out)
        self.sent = nn.Linear(width, out, bias=False)

    def forward(self, x: Tensor, edges: Tensor) -> Any:
        start, end = edges
        sent = self.sent(x)[start]
        summed = torch.zeros(x.shape[0], sent.shape[1], dtype=sent.dtype).index_add(0, end, sent)
        degree = torch.bincount(end, minlength=x.shape[0]).clamp(min=1)
        return self.own(x) + summed / degree.unsqueeze(1)


class Gcn(nn.Module):
    """A class for each node."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = GraphConvolution(9, 20)
        self.norm1 = nn.BatchNorm1d(20)
        self.conv2 = GraphConvolution(20, 20)
        self.norm2 = nn.LayerNorm(20)
        self.conv3 = GraphConvolution(20, 16)
        self.dropout = nn.Dropout(0.3)
        self.out = nn.Linear(16, 7)

    def forward(self, x: Tensor, edges: Tensor) -> Any:
        x = F.relu(self.norm1(self.conv1(x, edges)))
        x = x + F.relu(self.norm2(self.conv2(x, edges)))
        return self.out(self.dropout(F.relu(self.conv3(x, edges))))


class Gin(nn.Module):
    """Two rounds of sums over neighbours, each read by a small network; all rounds are put beside each other."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(9, 14)
        self.rounds = nn.ModuleList(
            nn.Sequential(nn.Linear(14, 22), nn.BatchNorm1d(22), nn.ReLU(), nn.Linear(22, 14)) for _ in range(2)
        )
        self.out = nn.Sequential(nn.Linear(42, 12), nn.ReLU(), nn.Linear(12, 4))

    def forward(self, x: Tensor, edges: Tensor) -> Any:
        start, end = edges
        x = self.before(x)
        seen = [x]
        for read in self.rounds:
            x = read(x + torch.zeros_like(x).index_add(0, end, x[start]))
            seen.append(x)
        return self.out(torch.cat(seen, 1).mean(0, keepdim=True))


def graph(_: int) -> tuple[Tensor, Tensor]:
    return torch.randn(NODES, 9), torch.randint(0, NODES, (2, EDGES))


GRAPHS: Final = (
    Family("gcn", "graph", Gcn, graph, batched=False),
    Family("gin", "graph", Gin, graph, batched=False),
)
