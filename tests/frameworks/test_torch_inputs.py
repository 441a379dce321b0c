"""A first layer with fewer inputs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from etude.core.errors import ConfigError
from etude.data.features import columns_without
from etude.frameworks.torch_inputs import first_layer_columns


def test_the_columns_of_the_features_that_are_left_stay_bit_for_bit() -> None:
    kept = columns_without(["age", "sex", "sex", "fare"], {"sex"})
    for layer, inputs in ((nn.Linear(4, 5), torch.rand(3, 2)), (nn.Conv2d(4, 5, 3), torch.rand(3, 2, 6, 6))):
        weight, before = layer.weight, layer.weight.detach().clone()
        first_layer_columns(layer, kept)
        assert layer.weight is weight
        assert layer.weight.equal(before[:, [0, 3]])
        layer(inputs).sum().backward()
        assert layer.weight.grad is not None
        assert layer.weight.grad.shape == layer.weight.shape
    assert str(layer).startswith("Conv2d(2, 5")


@pytest.mark.parametrize("layer", [nn.LSTM(4, 5), nn.Conv2d(4, 4, 3, groups=2), nn.ReLU()])
def test_a_layer_whose_weights_belong_to_no_single_input_is_refused(layer: nn.Module) -> None:
    with pytest.raises(ConfigError, match="only of Linear, Conv1d, Conv2d, Conv3d without groups is known"):
        first_layer_columns(layer, [0])
