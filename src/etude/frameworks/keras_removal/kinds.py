"""What the layers of Keras do with channels: which mix them, which pass them on, and where their weights have them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

Columns = tuple[int | None, ...]
"""The channels of a tensor then: for each which it was before, or None if it is another one."""

CONVOLUTIONS: Final = frozenset({"Conv1D", "Conv2D", "Conv3D"})
TRANSPOSED: Final = frozenset({"Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"})
DEPTHWISE: Final = frozenset({"DepthwiseConv1D", "DepthwiseConv2D"})
SEPARABLE: Final = frozenset({"SeparableConv1D", "SeparableConv2D"})
RECURRENT: Final = frozenset({"LSTM", "GRU", "SimpleRNN", "Bidirectional"})
NORMS: Final = frozenset({"BatchNormalization", "LayerNormalization", "RMSNormalization", "Normalization"})

JOINS: Final = frozenset({"Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"})
"""Layers and operations of Keras of these names join branches, and it is known what they do without one."""

FREE: Final = NORMS | frozenset({
    *("Activation", "ReLU", "LeakyReLU", "ELU", "PReLU", "Softmax", "Identity", "Masking", "ActivityRegularization"),
    *("Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "GaussianDropout", "GaussianNoise"),
    *("AlphaDropout", "MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "AveragePooling1D", "AveragePooling2D"),
    *("AveragePooling3D", "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D"),
    *("GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D", "AdaptiveAveragePooling2D"),
    *("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D", "Cropping1D", "Cropping2D", "Cropping3D", "UpSampling1D"),
    *("UpSampling2D", "UpSampling3D", "Resizing", "Rescaling", "Relu", "Relu6", "Sigmoid", "Silu", "Gelu", "Tanh"),
    *("HardSigmoid", "HardSilu", "Swish", "Cast", "Abs", "Square", "Sqrt", "Exp", "Log", "Negative", "Clip"),
    *("GroupNormalization", "StochasticDepth", "Elu", "Selu", "Softplus", "LeakyRelu", "Copy", "StopGradient"),
})  # fmt: skip
"""These give each channel from the same channel."""

KEPT: Final = FREE - {
    *("Identity", "Masking", "ActivityRegularization", "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D", "Cropping1D"),
    *("Cropping2D", "Cropping3D", "UpSampling1D", "UpSampling2D", "UpSampling3D", "Resizing", "Rescaling", "Cast"),
    *("Abs", "Square", "Sqrt", "Exp", "Log", "Negative", "Clip", "Copy", "StopGradient"),
}
"""Activations, norms, dropouts and poolings: what stays behind a layer that goes is said of these."""

UNARY: Final = frozenset({"Add", "Multiply", "Subtract", "Divide", "TrueDivide", "Power", "Maximum", "Minimum"})
"""Operations with a number: they change no width."""


class Weight(NamedTuple):
    """How a weight lies.

    Attributes:
        inputs: The axis of inputs, counted from the end; None if it has none.
        outputs: The axis of outputs.
    """

    inputs: int | None
    outputs: int | None


def weights_of(layer: Any) -> dict[str, Weight] | None:  # noqa: PLR0911 - one for each kind
    """Return how the weights of a layer lie, by their names; None if nobody knows."""
    kind = type(layer).__name__
    if channels_first(layer):
        return None
    if kind == "Dense" and not getattr(layer, "lora_enabled", False):
        return {"kernel": Weight(2, 1), "bias": Weight(None, 1)}
    if kind in CONVOLUTIONS and layer.groups == 1:
        return {"kernel": Weight(2, 1), "bias": Weight(None, 1)}
    if kind in TRANSPOSED:
        return {"kernel": Weight(1, 2), "bias": Weight(None, 1)}
    if kind in SEPARABLE and layer.depth_multiplier == 1:
        return {"depthwise_kernel": Weight(2, None), "pointwise_kernel": Weight(2, 1), "bias": Weight(None, 1)}
    if kind in DEPTHWISE and layer.depth_multiplier == 1:
        return {"kernel": Weight(2, None), "depthwise_kernel": Weight(2, None), "bias": Weight(1, None)}
    if kind in RECURRENT:
        return {"kernel": Weight(2, None)}
    if kind in NORMS and _is_last(getattr(layer, "axis", -1), layer):
        names = ("gamma", "beta", "moving_mean", "moving_variance", "scale", "mean", "variance")
        return {name: Weight(1, None) for name in names}
    if kind == "PReLU":
        return {"alpha": Weight(1, None)}
    return None


def _is_last(axis: Any, layer: Any) -> bool:
    axes = list(axis) if isinstance(axis, list | tuple) else [axis]
    return len(axes) == 1 and (axes[0] == -1 or axes[0] + 1 == len(_input_shape(layer)))


def _input_shape(layer: Any) -> tuple[int | None, ...]:
    return tuple(layer._inbound_nodes[0].input_tensors[0].shape)


def channels_first(layer: Any) -> bool:
    """Whether the channels of a layer are not the last axis."""
    return getattr(layer, "data_format", None) == "channels_first"


def mixes(layer: Any) -> bool:
    """Whether a layer makes new channels of others: it learns more than a scale, or nobody knows what it does."""
    if not getattr(layer, "trainable_variables", ()) and not getattr(layer, "weights", ()):
        return False
    return type(layer).__name__ not in FREE


def is_of_keras(operation: Any) -> bool:
    """Whether a layer or an operation is Keras' own, so that its name says what it does."""
    return type(operation).__module__.partition(".")[0] == "keras"


def joins(operation: Any) -> bool:
    """Whether it is known what an operation that joins branches does without one of them."""
    return type(operation).__name__ in JOINS and is_of_keras(operation)


def width_setting(layer: Any) -> str:
    """Return what a layer's configuration calls the number of its outputs; empty if they cannot be changed."""
    kind = type(layer).__name__
    if kind == "Dense":
        return "units"
    return "filters" if kind in CONVOLUTIONS | TRANSPOSED | SEPARABLE else ""
