"""What passes the neutral element of a join on: 0 of an addition, 1 of a product.

A branch that is dropped must be worth what its last layer would be worth if it gave the neutral element: relu(0) is 0,
but sigmoid(0) is 1/2. Norms are dropped with their branch, as the page on removal says.
"""

from __future__ import annotations

from typing import Any, Final

import keras

from etude.frameworks.keras_removal.graph import Call
from etude.frameworks.keras_removal.kinds import NORMS, is_of_keras, joins

BOTH: Final = NORMS | frozenset({
    *("GroupNormalization", "Identity", "Masking", "ActivityRegularization", "Dropout", "SpatialDropout1D"),
    *("SpatialDropout2D", "SpatialDropout3D", "GaussianDropout", "StochasticDepth", "Flatten", "Reshape", "Permute"),
    *("RepeatVector", "MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "AveragePooling1D", "AveragePooling2D"),
    *("AveragePooling3D", "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D", "Resizing"),
    *("GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D", "Cropping1D", "Cropping2D", "Cropping3D"),
    *("UpSampling1D", "UpSampling2D", "UpSampling3D", "Transpose", "Squeeze", "ExpandDims", "Cast", "Copy", "GetItem"),
    *("StopGradient", "Mean", "BroadcastTo", "ReLU", "PReLU", "LeakyReLU", "ELU", "Relu", "Relu6", "LeakyRelu", "Elu"),
    *("Abs", "Absolute", "Square", "Sqrt", "AdaptiveAveragePooling2D", "MaxPool", "AveragePool", "Swapaxes"),
})  # fmt: skip
"""These make 0 of 0, and 1 of 1."""

ZERO: Final = frozenset({
    *("Silu", "Gelu", "Tanh", "HardTanh", "Selu", "Softsign", "SoftShrink", "HardShrink", "TanhShrink", "Celu"),
    *("HardSilu", "Swish", "Negative", "Sum", "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D", "Sin"),
    *("Erf", "Sign", "Expm1", "Log1p"),
})  # fmt: skip
"""These make 0 of 0."""

ACTIVATIONS: Final = {
    "linear": "both", "relu": "both", "relu6": "both", "leaky_relu": "both", "elu": "both",
    "silu": "zero", "swish": "zero", "gelu": "zero", "tanh": "zero", "hard_tanh": "zero", "selu": "zero",
    "softsign": "zero", "hard_silu": "zero", "hard_swish": "zero", "celu": "zero", "soft_shrink": "zero",
    "hard_shrink": "zero", "tanh_shrink": "zero", "mish": "zero",
}  # fmt: skip
"""What activations pass on, by name."""


GATES: Final = frozenset({"sigmoid", "hard_sigmoid", "softmax"})
"""Activations of gates, which are 1 at most: a factor that goes with its layer."""


def is_gating(call: Call) -> bool:
    """Whether what a call gives is a gate: a layer with such an activation, or the activation itself."""
    if not is_of_keras(call.operation):
        return False
    own = getattr(getattr(call.operation, "activation", None), "__name__", "")
    return own in GATES or call.kind in ("Sigmoid", "HardSigmoid", "Softmax")


def changes_neutral(call: Call, join: str) -> str:
    """Say why a call does not pass on the neutral element of a join; empty if it does, or nothing has to be passed on.

    Args:
        call: What stands between a layer that goes and the join.
        join: What kind of join it is. An average, a maximum or a concatenation is taken of the others, whatever stood
            in the branch.
    """
    if join not in ("Add", "Subtract", "Multiply"):
        return ""
    number = 1 if join == "Multiply" else 0
    if join == "Multiply" and is_gating(call) and not getattr(call.operation, "weights", ()):
        return ""
    if is_of_keras(call.operation) and _passed(call) in ("both", "zero" if number == 0 else "one"):
        return ""
    name = call.operation.name
    mend = f'Take it along: with_=("{name}",)'
    if not isinstance(call.operation, keras.Layer):
        mend = "Write it as a layer with a name, and take it along in with_"
    return f"{name}, a {call.kind}, in between is not known to make {number} of {number}. {mend}"


def _passed(call: Call) -> str:  # noqa: PLR0911 - one for each kind
    kind, operation = call.kind, call.operation
    if len(call.inputs) > 1:
        return ("zero" if kind in {"Add", "Subtract"} else "both") if joins(operation) else ""
    if kind == "Activation":
        return ACTIVATIONS.get(getattr(operation.activation, "__name__", ""), "")
    if kind == "Rescaling":
        return "zero" if _is_zero(operation.offset) else ""
    if kind == "ReLU":
        return "" if operation.threshold else "both" if operation.max_value is None else "zero"
    if kind == "PReLU" or kind in BOTH:
        return "both"
    if kind == "Multiply":
        return "zero"
    if kind in ("Divide", "TrueDivide"):
        first = call.node.arguments.args[:1]
        return "zero" if first and isinstance(first[0], keras.KerasTensor) else ""
    return "zero" if kind in ZERO else ""


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and value == 0
