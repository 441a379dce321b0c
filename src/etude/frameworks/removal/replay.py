"""Plans as plain data, and carried out again: a driver makes them, and workers do what they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from torch import nn

from etude.frameworks.removal.apply import apply
from etude.frameworks.removal.edits import Plan
from etude.frameworks.removal.tracing import forward_of


def as_plain(plan: Plan) -> dict[str, Any]:
    """Return a plan as data that every journal and every wire can carry."""
    plain: dict[str, Any] = msgspec.to_builtins(plan)
    return plain


def replay(modules: Mapping[str, nn.Module], plain: Mapping[str, Any], *, seed: int) -> None:
    """Carry out a plan on the modules that a model function gave, in place.

    Args:
        modules: By their place in the model; a single one has no name.
        plain: The plan, as ``as_plain`` gave it.
        seed: Of the trial.
    """
    apply(whole(modules), msgspec.convert(plain, Plan), seed=seed)


def whole(modules: Mapping[str, nn.Module]) -> nn.Module:
    """Return the modules that a model function gave as one, with their places in the names."""
    return modules[""] if list(modules) == [""] else forward_of(dict(modules))
