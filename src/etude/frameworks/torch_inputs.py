"""A first layer of PyTorch with fewer inputs, whose other weights stay what they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import nn

from etude.core.errors import ConfigError

WIDTHS: Final = {"Linear": "in_features", "Conv1d": "in_channels", "Conv2d": "in_channels", "Conv3d": "in_channels"}
"""Layer -> its attribute that says how many inputs it has."""


def first_layer_columns(layer: Any, kept: Sequence[int]) -> None:
    """Leave a layer only the weights of some of its inputs, bit for bit as they are.

    The model is built for all features, and cut afterwards. So the weights of the features that are left are those that
    they would have beside the dropped ones, and no later layer draws other numbers. They keep the scale of the wider
    layer, too.

    Args:
        layer: A dense layer or a convolution, which is changed where it is; its parameters stay the objects they are.
        kept: Which inputs stay, by number, as ``data.features.columns_without`` gives them.

    Raises:
        ConfigError: It is another layer, or one whose inputs are in groups.
    """
    width = WIDTHS.get(type(layer).__name__) if isinstance(layer, nn.Module) else None
    if width is None or getattr(layer, "groups", 1) != 1:
        raise ConfigError(
            f"Inputs cannot be cut off {layer}: only of {', '.join(WIDTHS)} without groups is known which weights "
            "belong to which input. Begin the model with one of these."
        )
    places = torch.as_tensor(list(kept), dtype=torch.long, device=layer.weight.device)
    with torch.no_grad():
        layer.weight.data = layer.weight.data.index_select(1, places).contiguous()
    setattr(layer, width, len(kept))
