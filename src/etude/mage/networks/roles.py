"""What modules and functions of a network are there for, as far as their names say it."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What something does in a network."""

    LAYER = "layer"
    """It has weights of its own, or nobody knows what it is."""
    ACTIVATION = "activation"
    NORM = "normalisation"
    POOL = "pooling"
    DROPOUT = "dropout"
    RESHAPE = "reshape"
    LOSS = "loss"
    NOTHING = "nothing"


ACTIVATIONS: Final = frozenset(
    re.findall(
        r"\w+",
        "relu relu6 leakyrelu prelu rrelu elu selu celu gelu silu swish mish sigmoid hardsigmoid logsigmoid tanh "
        "hardtanh softplus softsign softmax logsoftmax softmin hardswish hardshrink softshrink threshold activation "
        "glu",
    )
)
TWICE_IS_ONCE: Final = frozenset({"relu", "relu6", "hardtanh", "threshold"})
"""Activations of which a second one changes nothing."""
RESHAPES: Final = frozenset(
    re.findall(
        r"\w+",
        "flatten unflatten view reshape squeeze unsqueeze permute transpose contiguous mean sum size float to",
    )
)
OVER_ALL: Final = re.compile(r"adaptive|global|^mean$", re.IGNORECASE)


def role_of(name: str) -> Role:  # noqa: PLR0911 - one for each role
    """Return what a class or function is there for, by the last part of its name.

    Example:
        >>> [role_of(name).value for name in ("torch.nn.functional.relu", "MaxPool2d", "BatchNorm2d", "SAGEConv")]
        ['activation', 'pooling', 'normalisation', 'layer']
    """
    last = name.rpartition(".")[2]
    plain = last.lower().replace("_", "")
    if plain == "identity":
        return Role.NOTHING
    if plain in ACTIVATIONS or plain == "thresholdedrelu":
        return Role.ACTIVATION
    if "dropout" in plain or plain in ("droppath", "stochasticdepth"):
        return Role.DROPOUT
    if "pool" in plain or plain.startswith(("upsampl", "downsampl", "pixelshuffle", "interpolate")):
        return Role.POOL
    if plain.endswith("loss") or "crossentropy" in plain:
        return Role.LOSS
    if re.fullmatch(r"(sync)?(batch|layer|group|instance|rms|local\w*)norm(alization)?(1d|2d|3d)?", plain):
        return Role.NORM
    return Role.RESHAPE if plain in RESHAPES else Role.LAYER


def changes_nothing_again(kind: str, before: str) -> bool:
    """Say whether an activation does nothing to what came out of the same one before.

    Example:
        >>> changes_nothing_again("torch.nn.functional.relu", "ReLU"), changes_nothing_again("GELU", "GELU")
        (True, False)
    """
    name, earlier = (one.rpartition(".")[2].lower().replace("_", "") for one in (kind, before))
    return name == earlier and name in TWICE_IS_ONCE


def is_over_all(name: str) -> bool:
    """Say whether what comes out has one size whatever comes in, such as ``AdaptiveAvgPool2d``."""
    return bool(OVER_ALL.search(name.rpartition(".")[2]))
