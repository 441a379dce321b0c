"""Modules that nobody calls: a dropout whose share is read, and one that is dead."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import etude
from etude.core.errors import RefusalCode, RemovalRefused


class Reads(nn.Module):
    """Its dropouts are never called; the share of one is read."""

    def __init__(self, share: float = 0.4) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(4, 40), nn.Linear(40, 2)
        self.dropout, self.other = nn.Dropout(share), nn.Dropout(0.2)

    def forward(self, x: torch.Tensor) -> Any:
        return self.head(F.dropout(self.stem(x), self.dropout.p, self.training))


@pytest.mark.parametrize("share", [0.4, 0.0])
def test_a_dropout_whose_share_is_read_drops_nothing_afterwards(share: float) -> None:
    net, x = Reads(share), torch.randn(5, 4)
    removed = etude.remove(net, "layer:dropout", x)
    assert removed.changes == ("dropout removed", "dropout.p = 0", "as many parameters")
    assert net.dropout.p == 0
    net.train()
    assert torch.equal(net(x), net(x))


def test_a_dropout_that_nobody_reads_is_dead() -> None:
    with pytest.raises(RemovalRefused) as refused:
        etude.remove(Reads(), "layer:other", torch.randn(5, 4))
    assert refused.value.code is RefusalCode.DEAD
