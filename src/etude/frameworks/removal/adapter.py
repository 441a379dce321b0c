"""An adapter without parameters: a tensor in another shape, and no example sees another.

Axes of one tensor are laid on axes of another: examples on examples, width on width, the others in their order. An axis
that shrinks is averaged over windows, one that grows is repeated. Slicing instead would starve whatever made the rest.
"""

from __future__ import annotations

import math

import torch

from etude.frameworks.removal.edits import Axes


def fitted(x: torch.Tensor, of: Axes, sizes: tuple[int, ...], to: Axes, width: int | None = None) -> torch.Tensor:
    """Return a tensor in another shape.

    Args:
        x: The tensor.
        of: What its axes mean.
        sizes: The shape.
        to: What the axes of that shape mean.
        width: Leave the result with this width instead; for adapters that learn the rest.
    """
    x, inner = _canonical(x, of)
    outer = [size for axis, size in enumerate(sizes) if axis not in (to.batch, to.width)]
    if to.batch is not None and to.each > 1:
        outer.insert(0, to.each)
    x = _resized(x, inner, outer)
    n = sizes[to.width] if width is None else width
    if x.shape[-1] != n:
        x = _pooled(x, -1, n)
    return _arranged(x, outer, sizes, to, n)


def _canonical(x: torch.Tensor, axes: Axes) -> tuple[torch.Tensor, list[int]]:
    """Return it as (examples, others..., width), and the sizes of the others."""
    if axes.width == x.ndim:  # single numbers, each for itself
        x = x.unsqueeze(-1)
    width = axes.width
    others = [axis for axis in range(x.ndim) if axis not in (axes.batch, width)]
    if axes.batch is None:
        x = x.permute(*others, width).unsqueeze(0)
    elif axes.batch == width:
        x = x.unsqueeze(-1)
    else:
        x = x.permute(axes.batch, *others, width)
    if axes.batch is not None and axes.each > 1:
        x = x.reshape(x.shape[0] // axes.each, axes.each, *x.shape[1:])
    return x, list(x.shape[1:-1])


def _resized(x: torch.Tensor, inner: list[int], outer: list[int]) -> torch.Tensor:
    """Return it with other sizes between examples and width."""
    if inner == outer:
        return x
    if len(inner) == len(outer):
        for axis, size in enumerate(outer, start=1):
            if x.shape[axis] != size:
                x = _pooled(x, axis, size)
        return x
    flat = x.reshape(x.shape[0], math.prod(inner), x.shape[-1])
    flat = _pooled(flat, 1, math.prod(outer))
    return flat.reshape(x.shape[0], *outer, x.shape[-1])


def _arranged(x: torch.Tensor, outer: list[int], sizes: tuple[int, ...], to: Axes, width: int) -> torch.Tensor:
    """Return it with its axes where they belong."""
    if to.batch is None:
        x = x.squeeze(0) if x.shape[0] == 1 else x.mean(0)
    elif to.each > 1:
        x = x.reshape(x.shape[0] * to.each, *x.shape[2:])
    if to.batch == to.width:
        return x.squeeze(-1)
    order = [axis for axis in range(len(sizes)) if axis not in (to.batch, to.width)]
    order = ([] if to.batch is None else [to.batch]) + order + [to.width]
    x = x.permute(*(order.index(axis) for axis in range(len(sizes)))).contiguous()
    wanted = tuple(width if axis == to.width else size for axis, size in enumerate(sizes))
    return x if x.shape == wanted else x.expand(wanted).contiguous()


def _pooled(x: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """Return it with another size along one axis."""
    moved = x.movedim(axis, -1)
    flat = moved.reshape(1, -1, moved.shape[-1])
    dtype = flat.dtype
    if dtype in (torch.float16, torch.bfloat16):
        flat = flat.float()
    pooled = torch.nn.functional.adaptive_avg_pool1d(flat, size).to(dtype)
    return pooled.reshape(*moved.shape[:-1], size).movedim(-1, axis)
