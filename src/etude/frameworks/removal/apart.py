"""Whether examples stay apart: changing one of a batch does not move the results of others, where it did not before."""

from __future__ import annotations

from typing import Final

import torch
from torch import nn

from etude.frameworks.removal.comparing import Examples, moved

MOVED: Final = 1e-5
"""A result that moves by more than this share of its size depends on the example that was changed."""
SOME: Final = 1e-9
"""Likewise in double precision, of the untouched model: in it, examples depend on each other, however little."""
WEAK: Final = 0.01
"""Where they do, those of a repaired model may as well, by this share: which one of a batch is the largest, and how
much comes of it, changes with the weights."""


def mixed(before: nn.Module, after: nn.Module, examples: Examples) -> str | None:
    """Return the name of a result in which a repair makes examples depend on each other; None if it does not.

    Args:
        before: The untouched model.
        after: The repaired one.
        examples: Examples for both.
    """
    for model in (before, after):
        model.eval()
    with torch.no_grad():
        had, has = _movements(before, examples), _movements(after, examples)
    for name, by in has.items():
        if name not in had or had[name] > MOVED:
            continue
        depends = examples.in_double and had[name] > SOME
        if by > (WEAK if depends else MOVED):
            return name
    return None


def _movements(model: nn.Module, examples: Examples) -> dict[str, float]:
    """Return by which share of their size results of the other examples move when the last one is changed."""
    rows = examples.rows
    plain = examples.called(model, rows)
    changed = examples.called(model, [*rows[:-1], rows[0]])
    return {
        name: moved(value[:-1], changed[name][:-1])
        for name, value in plain.items()
        if value.ndim and value.shape[0] == len(rows) and name in changed and value.is_floating_point()
    }
