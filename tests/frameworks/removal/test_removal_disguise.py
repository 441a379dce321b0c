"""Stand-ins for layers with ways of their own: to save themselves, to be copied, to be brought back."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import torch
from repaired import planned, without
from torch import nn


class Careful(nn.Linear):
    """A layer that saves, copies and restores itself by hand, as those of PyTorch-Geometric do."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.sizes = sizes

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[f"{prefix}weight"] = self.weight.detach()
        destination[f"{prefix}bias"] = self.bias.detach()

    def __deepcopy__(self, memo: Any) -> Any:
        made = Careful(*self.sizes)
        made.load_state_dict(self.state_dict())
        return made

    def __setstate__(self, state: Any) -> None:
        self.sizes = state["sizes"]
        super().__setstate__(state)  # type: ignore[no-untyped-call]


def test_a_layer_that_keeps_itself_in_its_own_way_is_gone_all_the_same() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), Careful(8, 8), nn.Linear(8, 3)).eval()
    x = torch.randn(5, 6)
    changed = without(net, planned(net, "1", x))
    assert not [name for name in changed.state_dict() if name.startswith("1.")]
    for again in (copy.deepcopy(changed), pickle.loads(pickle.dumps(changed))):
        torch.testing.assert_close(again(x), net[2](net[0](x)))
        again.load_state_dict(changed.state_dict())
