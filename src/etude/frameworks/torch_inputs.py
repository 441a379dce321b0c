"""Layers of PyTorch with fewer inputs, whose other weights stay what they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import nn

from etude.core.errors import ConfigError


class Inputs(NamedTuple):
    """How a kind of layer takes its inputs.

    Attributes:
        attribute: That of the layer which says how many there are.
        axis: Along which axis of what it is called with they lie.
        weights: The beginnings of names of what it holds for each of them, with the axis along which.
        each: Whether it gives one output for each of them.
    """

    attribute: str
    axis: int
    weights: tuple[tuple[str, int], ...]
    each: bool = False


_NORMED: Final = (("weight", 0), ("bias", 0), ("running_mean", 0), ("running_var", 0))
_RECURRENT: Final = Inputs("input_size", -1, (("weight_ih_l0", 1),))

KINDS: Final[tuple[tuple[type[nn.Module], Inputs], ...]] = (
    (nn.Linear, Inputs("in_features", -1, (("weight", 1),))),
    (nn.Conv1d, Inputs("in_channels", -2, (("weight", 1),))),
    (nn.Conv2d, Inputs("in_channels", -3, (("weight", 1),))),
    (nn.Conv3d, Inputs("in_channels", -4, (("weight", 1),))),
    (nn.LSTM, _RECURRENT),
    (nn.GRU, _RECURRENT),
    (nn.RNN, _RECURRENT),
    (nn.BatchNorm1d, Inputs("num_features", 1, _NORMED, each=True)),
    (nn.BatchNorm2d, Inputs("num_features", 1, _NORMED, each=True)),
    (nn.LayerNorm, Inputs("normalized_shape", -1, _NORMED, each=True)),
)
"""Kinds of layers of which it is known which numbers belong to which input."""


def inputs_of(layer: nn.Module) -> Inputs | None:
    """Return how a layer takes its inputs; None if nobody knows which numbers belong to which of them."""
    known = next((inputs for kind, inputs in KINDS if type(layer).forward is kind.forward), None)
    if known is None or getattr(layer, "groups", 1) != 1 or hasattr(layer, "parametrizations"):
        return None
    several = isinstance(layer, nn.LayerNorm) and len(layer.normalized_shape) != 1
    return None if several else known


def n_inputs(layer: nn.Module) -> int:
    """Return how many inputs a layer has, of a kind that is known."""
    known = inputs_of(layer)
    assert known is not None
    found = getattr(layer, known.attribute)
    return int(found[0] if isinstance(found, tuple) else found)


def keep_inputs(layer: nn.Module, kept: Sequence[int]) -> None:
    """Leave a layer only what it holds for some of its inputs, bit for bit as it is.

    The model is built for all features, and cut afterwards. So the weights of the features that are left are those that
    they would have beside the dropped ones, and no later layer draws other numbers. They keep the scale of the wider
    layer, too.

    Args:
        layer: A layer, which is changed where it is; its parameters stay the objects they are.
        kept: Which inputs stay, by number.

    Raises:
        ConfigError: Nobody knows which numbers of it belong to which input.
    """
    known = inputs_of(layer)
    if known is None:
        kinds = ", ".join(kind.__name__ for kind, _ in KINDS)
        raise ConfigError(
            f"Inputs cannot be cut off {layer}: only of {kinds}, without groups and parametrizations, is known which "
            "weights belong to which input. Begin the model with one of these."
        )
    for tensor, axis in _held(layer, known):
        places = torch.as_tensor(list(kept), dtype=torch.long, device=tensor.device)
        with torch.no_grad():
            tensor.data = tensor.data.index_select(axis, places).contiguous()
    setattr(layer, known.attribute, (len(kept),) if isinstance(layer, nn.LayerNorm) else len(kept))
    if isinstance(layer, nn.RNNBase):
        layer.flatten_parameters()


def _held(layer: nn.Module, known: Inputs) -> Iterator[tuple[Any, int]]:
    own = {**layer._parameters, **layer._buffers}
    for name, tensor in own.items():
        axis = next((axis for begin, axis in known.weights if name in (begin, f"{begin}_reverse")), None)
        if tensor is not None and axis is not None:
            yield tensor, axis
