"""Names of modules and parameters: what lies in what, what is called how, what is shared."""

from __future__ import annotations

import re
from typing import Final

from torch import nn

SMALL: Final = re.compile(
    r"norm|drop|pool|lu$|lu6$|lu\W|activation|sigmoid|tanh|softmax|softplus|softsign|mish|swish|hardshrink|softshrink"
)
"""What is in the names of the classes of norms, dropouts, poolings and activations, in small letters."""


def under(name: str, path: str) -> bool:
    """Say whether a name is that of a module or of something in it."""
    return name == path or name.startswith(f"{path}.")


def is_small(module: nn.Module) -> bool:
    """Say whether a module is an activation, a norm, a dropout or a pooling: it mixes nothing."""
    mixes = any(p.ndim > 1 for p in module.parameters())
    return not mixes and SMALL.search(type(module).__name__.lower()) is not None


def canonical(model: nn.Module, path: str) -> str:
    """Return the name under which a module is called, of one that has several."""
    module = model.get_submodule(path)
    return next((name for name, other in model.named_modules() if other is module), path)


def names_of_each(model: nn.Module) -> list[list[str]]:
    """Return the names of each parameter: of one that is shared there are several."""
    found: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        found.setdefault(id(parameter), []).append(name)
    return list(found.values())


def tied(model: nn.Module) -> frozenset[str]:
    """Return the names of parameters that are shared."""
    return frozenset(name for names in names_of_each(model) if len(names) > 1 for name in names)


def n_parameters(model: nn.Module) -> int:
    """Return how many parameters there are; one that is shared counts once."""
    return sum(p.numel() for p in model.parameters())
