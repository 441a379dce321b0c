"""The layer of GraphSAGE: what a node knows, and the largest of what its neighbours know."""

import torch
from torch import nn


class SAGEConv(nn.Module):
    def __init__(self, dim_in, dim_out):
        super().__init__()
        self.own = nn.Linear(dim_in, dim_out)
        self.neighbours = nn.Linear(dim_in, dim_out, bias=False)

    def forward(self, x, edges):
        source, target = edges
        most = torch.zeros_like(x).index_reduce(0, target, x[source], "amax", include_self=False)
        return self.own(x) + self.neighbours(most)
