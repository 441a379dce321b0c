# ruff: noqa: D102 - what `forward` does, its class says
"""Graph networks in plain torch: nodes with features, and edges as pairs of node numbers."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.family import BATCH, Family

NODES: Final = 13
EDGES: Final = 31
FEATURES: Final = 9


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


def graph(batch: int) -> tuple[Tensor, Tensor]:
    """Return nodes and edges of two graphs that do not touch: what happens in one cannot be seen in the other.

    Another batch size is another number of nodes and edges.
    """
    more = 2 * (batch - BATCH)
    nodes, edges = NODES + more, EDGES + more
    half, split = nodes // 2, edges // 2
    first, second = torch.randint(0, half, (2, split)), torch.randint(half, nodes, (2, edges - split))
    return torch.randn(nodes, FEATURES), torch.cat([first, second], 1)


GRAPHS: Final = (
    Family("gcn", "graph", Gcn, graph, shared=("[1]",)),
    Family("gin", "graph", Gin, graph, shared=("[1]",)),
)
