"""Plans as plain data, and carried out again: a driver makes them, and workers do what they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from torch import nn

from etude.frameworks.removal.apply import apply
from etude.frameworks.removal.edits import Plan
from etude.frameworks.removal.tracing import forward_of
from etude.frameworks.torch_readers import Cuts, cut


def replay(modules: Mapping[str, nn.Module], plain: Mapping[str, Any], *, seed: int) -> None:
    """Carry out a plan on the modules that a model function gave, in place.

    Args:
        modules: By their place in the model; a single one has no name.
        plain: The plan as plain data.
        seed: Of the trial.
    """
    apply(whole(modules), msgspec.convert(plain, Plan), seed=seed)


def without_inputs(modules: Mapping[str, nn.Module], plain: Mapping[str, Any]) -> None:
    """Take off the modules that a model function gave what reads features that are dropped, in place.

    Args:
        modules: By their place in the model; a single one has no name.
        plain: The cuts as plain data.

    Raises:
        ConfigError: Layers have other inputs than were planned for.
    """
    cut(whole(modules), msgspec.convert(plain, Cuts))


def whole(modules: Mapping[str, nn.Module]) -> nn.Module:
    """Return the modules that a model function gave as one, with their places in the names."""
    return modules[""] if list(modules) == [""] else forward_of(dict(modules))
