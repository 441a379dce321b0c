# ruff: noqa: D102 - what `forward` does, its class says
"""Layers of PyTorch-Geometric, where it is installed; nothing else needs it."""

from __future__ import annotations

import importlib.util
from typing import Any, Final

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.family import Family
from benchmarks.zoo.graphs import graph


class Geometric(nn.Module):
    """Three layers of one kind: the second beside a skip, the third of another width."""

    def __init__(self, layer: str, **how: Any) -> None:
        from torch_geometric import nn as geometric

        super().__init__()
        kind = getattr(geometric, layer)
        self.conv1, self.conv2, self.conv3 = kind(9, 20, **how), kind(20, 20, **how), kind(20, 16, **how)
        self.norm1, self.norm2 = geometric.BatchNorm(20), nn.LayerNorm(20)
        self.dropout = nn.Dropout(0.3)
        self.out = nn.Linear(16, 7)

    def forward(self, x: Tensor, edges: Tensor) -> Any:
        x = F.relu(self.norm1(self.conv1(x, edges)))
        x = x + F.relu(self.norm2(self.conv2(x, edges)))
        return self.out(self.dropout(F.relu(self.conv3(x, edges))))


LAYERS: Final[dict[str, dict[str, Any]]] = {"GCNConv": {}, "GATConv": {"heads": 2, "concat": False}, "SAGEConv": {}}


def family(layer: str, how: dict[str, Any]) -> Family:
    """Return a family of nets with layers of one kind."""
    name = f"geometric_{layer.removesuffix('Conv').lower()}"
    return Family(name, "graph", lambda: Geometric(layer, **how), graph, shared=("[1]",))


INSTALLED: Final = importlib.util.find_spec("torch_geometric") is not None
GEOMETRIC: Final = tuple(family(layer, how) for layer, how in LAYERS.items() if INSTALLED)
