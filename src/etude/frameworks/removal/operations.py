"""What operations do to a tensor, by their names."""

from __future__ import annotations

from typing import Final

TAKE: Final = frozenset(["sub", "sub_", "__sub__", "__isub__", "subtract", "subtract_"])
"""Additions in which what comes second is taken off."""
ADD: Final = TAKE | frozenset(["add", "add_", "__add__", "__radd__", "__iadd__", "rsub", "__rsub__"])
MUL: Final = frozenset(["mul", "mul_", "__mul__", "__rmul__", "__imul__", "multiply", "multiply_"])
CAT: Final = frozenset(["cat", "concat", "concatenate"])
STACK: Final = frozenset(["stack", "hstack", "vstack", "dstack", "column_stack"])
DIVIDE: Final = frozenset(
    ["div", "div_", "__truediv__", "__itruediv__", "true_divide", "true_divide_", "divide", "divide_"]
)
LEAST: Final = frozenset(["minimum", "min", "fmin"])
GREATEST: Final = frozenset(["maximum", "max", "fmax"])
"""Of two tensors, the one whose entry is smaller, or larger, comes through."""
POWERS: Final = frozenset(["pow", "pow_", "__pow__", "__ipow__"])
ATTENTION: Final = "scaled_dot_product_attention"
SHAPES: Final = frozenset(
    [
        *("view", "reshape", "permute", "transpose", "contiguous", "flatten", "squeeze", "unsqueeze", "expand"),
        *("unflatten", "movedim", "swapaxes", "swapdims", "T", "mT", "H", "mH", "t", "expand_as", "view_as", "repeat"),
        *("to", "float", "type_as", "type", "half", "bfloat16", "double", "clone", "detach", "alias", "requires_grad_"),
        *("__getitem__", "select", "narrow", "repeat_interleave", "reshape_as", "moveaxis", "tile"),
        *("dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout"),
        *("feature_alpha_dropout", "neg", "__neg__", "negative", "cuda", "cpu", "roll", "flip", "data"),
    ]
)
"""Operations that leave a constant 0 what it is, and a 1 but for its scale."""

FAITHFUL: Final = SHAPES - frozenset(
    [
        *("dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout"),
        *("feature_alpha_dropout", "neg", "__neg__", "negative"),
    ]
)
"""Operations that leave any constant what it is."""

CASTS: Final = frozenset(["to", "float", "type_as", "type", "half", "bfloat16", "double", "contiguous", "cuda", "cpu"])
"""Operations that leave the shape and the numbers, but for their type."""

MASKING: Final = frozenset(["where", "masked_fill", "masked_fill_"])

STILL: Final = frozenset(
    [
        *("relu", "relu_", "relu6", "gelu", "silu", "silu_", "tanh", "tanh_", "hardswish", "leaky_relu", "leaky_relu_"),
        *("elu", "elu_", "selu", "celu", "mish", "hardtanh", "hardtanh_", "softsign", "prelu", "rms_norm"),
        *("layer_norm", "batch_norm", "group_norm", "instance_norm"),
        *("max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d"),
        *("max_pool3d", "avg_pool3d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d"),
        *("interpolate", "upsample", "mean", "sum", "abs", "sin", "erf", "expm1", "log1p", "square", "relu_"),
        *("softshrink", "hardshrink", "tanhshrink", "rrelu", "relu6_", "nan_to_num", "index_select", "gather"),
        *("diff", "cumsum", "normalize", "pixel_shuffle", "pixel_unshuffle", "glu"),
    ]
)
"""Operations that make nothing of nothing, or a norm's bias: a branch that ends in them ends with what it lost."""

ACTIVATIONS: Final = frozenset(
    [
        *("relu", "relu_", "relu6", "gelu", "silu", "silu_", "tanh", "tanh_", "hardswish", "leaky_relu", "leaky_relu_"),
        *("elu", "elu_", "selu", "celu", "mish", "hardtanh", "hardtanh_", "softsign", "softplus"),
        *("sigmoid", "sigmoid_"),
    ]
)
"""Functions that models call as often as they have a module for it."""
BEHIND: Final = ACTIVATIONS | frozenset(
    [
        *("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"),
        *("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
        *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d"),
    ]
)
"""Functions that belong to the layer in front of them as much as to what comes after."""

GATES: Final = frozenset(["sigmoid", "sigmoid_", "hardsigmoid"])
"""Operations that make a gate, which is open at 1: a large number opens it."""
SHARING: Final = frozenset(["softmax", "softmin", "log_softmax"])
"""Operations that share a 1 out: no constant makes a 1 of each share."""

SPLITS: Final = frozenset(["chunk", "split", "tensor_split", "unbind", "split_with_sizes"])
"""Operations that take a tensor apart."""
BLANKS: Final = frozenset(
    [
        *("zeros", "new_zeros", "zeros_like", "ones", "new_ones", "ones_like", "full", "new_full", "full_like"),
        *("empty_like", "new_empty", "rand_like", "randn_like", "randint_like"),
    ]
)
"""Operations that read of a tensor its shape and type alone."""
LOSSES: Final = frozenset(
    [
        *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "cross_entropy", "nll_loss", "nll_loss_nd"),
        *("binary_cross_entropy", "binary_cross_entropy_with_logits", "gaussian_nll_loss", "cosine_embedding_loss"),
    ]
)
"""Operations that measure how far two values are apart: what is added to such a measure is no skip connection."""

LIMITS: Final = frozenset(["clamp", "clamp_", "clip", "clip_"])
"""Operations that leave a 0 what it is if it lies between their limits."""

PLACES: Final = frozenset(["__setitem__", "copy_", "index_put", "index_put_", "masked_scatter", "masked_scatter_"])
"""Operations that put one value into places of another one, as a concatenation does."""

CONTRACTIONS: Final = frozenset(
    ["matmul", "__matmul__", "__rmatmul__", "bmm", "mm", "mv", "tensordot", "scaled_dot_product_attention"]
)
"""Operations in which each entry of one side meets all of the other one: no side of them is a skip connection."""

ONTO: Final = frozenset(["baddbmm", "baddbmm_", "addmm", "addmm_", "addbmm", "addbmm_", "addmv", "addmv_"])
"""Contractions that are added to their first argument."""

GATHERED: Final = frozenset(
    ["index_add", "index_add_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_"]
)
"""Operations that add entries of one value to places of another one: messages of a graph, to zeros."""

WEIGHING: Final = frozenset(
    [
        *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
        *("linear", "bilinear", "conv_tbc", "deform_conv2d"),
    ]
)
"""Layers as functions: they mix channels also by a weight that was made of others, standardised or styled."""

LOOKUPS: Final = frozenset(["grid_sample", "embedding", "take_along_dim", "index_select", "gather", "__getitem__"])
"""Operations in which one side says where the other one is read."""

STACKED: Final = (
    SHAPES
    | ADD
    | MUL
    | DIVIDE
    | CAT
    | STACK
    | STILL
    | CONTRACTIONS
    | MASKING
    | PLACES
    | SPLITS
    | frozenset(["pow", "__pow__", "einsum", "softmax", "unfold"])
)
"""What may be done to a stack in which a 0 stands for a part that is gone; a product or a maximum would read it."""

LINEAR: Final = (
    SHAPES | ADD | MUL | DIVIDE | CAT | STACK | PLACES | MASKING | SPLITS | frozenset(["pad", "unfold", "mean"])
)
"""Operations that move, scale and add what comes."""

STRAIGHT: Final = (
    LINEAR
    | GATES
    | LIMITS
    | frozenset(
        [
            *("relu", "relu_", "relu6", "relu6_", "gelu", "silu", "silu_", "elu", "elu_", "leaky_relu", "leaky_relu_"),
            *("hardtanh", "hardtanh_", "hardswish", "hardswish_", "tanh", "tanh_", "softplus"),
            *("layer_norm", "batch_norm", "group_norm", "instance_norm", "rms_norm"),
            *("pow", "__pow__", "pow_", "square", "sqrt", "rsqrt", "std", "var"),
        ]
    )
)
"""Operations that have nothing to say of their own: activations and norms as well."""

BLENDS: Final = frozenset(
    [
        *("lerp", "lerp_", "addcmul", "addcmul_", "addcdiv", "addcdiv_", "index_add", "index_add_"),
        *("scatter_add", "scatter_add_"),
    ]
)
"""Additions by other names."""
