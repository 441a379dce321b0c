"""Cuts of layers whose tensors have blocks: a block for each group of channels, or for each gate and direction."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from etude.core.text import count
from etude.frameworks.removal.edits import Resize
from etude.frameworks.removal.resize import (
    CONVOLUTIONS,
    RECURRENT,
    TRANSPOSED,
    Unresizable,
    put,
    resize,
    set_numbers,
    taken,
)


def resized(module: nn.Module, edit: Resize, *, seed: int) -> list[str]:
    """Give a layer of any kind another width, in place; return the names of the tensors that were drawn anew.

    Raises:
        Unresizable: It cannot have it.
    """
    if edit.side == "hidden":
        cut_hidden(module, edit.keep or ())
        return []
    grouped = isinstance(module, CONVOLUTIONS + TRANSPOSED) and module.groups > 1
    if grouped and edit.side != "through":
        cut_grouped(module, edit)
        return []
    if isinstance(module, nn.GroupNorm) and edit.size % module.num_groups and edit.keep is not None:
        evenly(edit.path, edit.keep, module.num_groups, edit.before)
    return resize(module, edit, seed=seed)


def cut_grouped(module: nn.Module, edit: Resize) -> None:
    """Cut channels of a convolution with groups, in place: as many of each group.

    Raises:
        Unresizable: They are not as many of each.
    """
    layer: Any = module
    keep = edit.keep
    if keep is None:
        raise Unresizable(f"{edit.path} is a convolution with groups, of which it is not known what they would read")
    within = evenly(edit.path, keep, layer.groups, edit.before)
    blocked = (edit.side == "in") != isinstance(layer, TRANSPOSED)  # each group has its own columns
    if blocked:
        blocks = layer.weight.detach().chunk(layer.groups)
        weight = torch.cat([taken(block, 1, len(of), of) for block, of in zip(blocks, within, strict=True)])
    else:
        weight = taken(layer.weight, 0, len(keep), keep)
    put(layer, "weight", weight)
    if edit.side == "out" and layer.bias is not None:
        put(layer, "bias", taken(layer.bias, 0, len(keep), keep))
    set_numbers(module, edit)


def evenly(path: str, keep: tuple[int, ...], groups: int, before: int) -> list[tuple[int, ...]]:
    """Return what is left of each group, counted within it.

    Raises:
        Unresizable: It is not as much of each; the message has the counts that would do.
    """
    each = before // groups
    within = [tuple(k % each for k in keep if k // each == n) for n in range(groups)]
    if len({len(of) for of in within}) > 1 or not within[0]:
        counts = [str(n) for n in range(groups, before, groups)]
        can = f"{', '.join(counts[:4])}{', ...' if len(counts) > 4 else ''} in all" if counts else "none can"  # noqa: PLR2004
        raise Unresizable(
            f"{path} has {groups} groups of {count(each, 'channel')}, and as many must go of each group: {can}"
        )
    return within


def cut_hidden(module: nn.Module, keep: tuple[int, ...]) -> None:
    """Cut hidden units of a recurrent layer or cell, in place: in all its layers, directions and gates."""
    layer: Any = module
    size, proj_size = layer.hidden_size, getattr(layer, "proj_size", 0)
    projected = proj_size > 0  # then what is read by the next step has another width
    if len(keep) <= proj_size:
        raise Unresizable(f"an LSTM that projects to {proj_size} needs more hidden units than that")
    for name, parameter in list(layer.named_parameters(recurse=False)):
        tensor = parameter
        if not name.startswith("weight_hr"):
            tensor = taken(tensor, 0, 0, spread(keep, size, tensor.shape[0]))
        reads_hidden = name.startswith("weight_hh") or (name.startswith("weight_ih_l") and "_l0" not in name)
        if name.startswith("weight_hr") or (reads_hidden and not projected):
            tensor = taken(tensor, 1, 0, spread(keep, size, tensor.shape[1]))
        put(layer, name, tensor.detach())
    layer.hidden_size = len(keep)
    if isinstance(layer, RECURRENT):
        layer._flat_weights = [getattr(layer, name, None) for name in layer._flat_weights_names]


def spread(keep: tuple[int, ...], size: int, whole: int) -> tuple[int, ...]:
    """Return the same entries of each of several blocks of a size, of gates or directions.

    Example:
        >>> spread((0, 2), 3, 6)
        (0, 2, 3, 5)
    """
    return tuple(block * size + k for block in range(whole // size) for k in keep)
