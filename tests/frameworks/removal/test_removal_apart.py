"""Examples that depend on each other: where they did before, however little, a repair is not blamed for it."""

from __future__ import annotations

import pytest
import torch
from repaired import planned
from torch import nn

from etude.frameworks.removal.apart import mixed
from etude.frameworks.removal.comparing import Examples


class Largest(nn.Module):
    """Scales all examples of a batch by what is largest in it, a little."""

    def __init__(self, share: float, size: float = 1.0) -> None:
        super().__init__()
        self.share, self.low, self.high = share, nn.Linear(7, 7), nn.Linear(7, 5)
        with torch.no_grad():
            self.low.weight.copy_(size * torch.eye(7))
            self.low.bias.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.low(x)
        return self.high(y / (1 + self.share * y.abs().max()))


@pytest.fixture
def example() -> torch.Tensor:
    torch.manual_seed(0)
    x = torch.randn(3, 7)
    x[-1] *= 3  # the largest number is in the example that is changed
    return x


@pytest.mark.parametrize(
    ("before", "after", "blamed"), [(1e-7, 1e-4, False), (1e-7, 1.0, True), (0.0, 1e-4, True), (1.0, 1.0, False)]
)
def test_a_repair_is_blamed_for_what_was_not_there_and_for_much_more_of_it(
    before: float, after: float, blamed: bool, example: torch.Tensor
) -> None:
    one, two = Largest(before).double(), Largest(after).double()
    assert (mixed(one, two, Examples(one, (example,), {})) is not None) is blamed


def test_a_layer_goes_from_a_model_whose_examples_depend_on_each_other_a_little(example: torch.Tensor) -> None:
    assert planned(Largest(1e-3, size=1e-3), "low", example).changes[0] == "low removed"
