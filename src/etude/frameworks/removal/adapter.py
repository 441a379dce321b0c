"""An adapter without parameters: a tensor in another shape, and no example sees another.

Positions are laid on the same positions of the result, wherever these lie there. Where there are fewer, neighbours are
averaged; where there are more, they are repeated, as in an image that is enlarged. Positions that the result does not
have are averaged away, or one of them is taken; along those that only the result has, all is the same. Channels and
features stay as they are, and zeros fill up what an addition wants more of. The last thing that is tried is to let them
come again from the first on where more are wanted, and to average neighbours where fewer are, though these have nothing
in common.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from etude.frameworks.removal.edits import Axes


def fitted(
    x: torch.Tensor, of: Axes, sizes: tuple[int, ...], to: Axes, width: int | None = None, *, again: bool = False
) -> torch.Tensor:
    """Return a tensor in another shape.

    Args:
        x: The tensor.
        of: What its axes mean.
        sizes: The shape.
        to: What the axes of that shape mean.
        width: Leave the result with this width instead; for adapters that learn the rest.
        again: Whether channels come again from the first on where more are wanted; else zeros do.
    """
    x = _apart(x, of)
    for n, place in reversed(list(enumerate(of.places, start=1))):
        if place.name not in {other.name for other in to.places}:
            x = x.mean(n) if place.take is None else x.select(n, place.take)
    left = [place.name for place in of.places if place.name in {other.name for other in to.places}]
    there = [place.name for place in to.places if place.name in left]
    x = x.permute(0, *(1 + left.index(name) for name in there), -1)
    lengths = []
    for n, place in enumerate(to.places, start=1):
        if place.name not in left:
            x = x.unsqueeze(n)
        lengths.append(place.size or sizes[place.axis])
        if x.shape[n] != lengths[-1]:
            x = _resized(x, n, lengths[-1])
    n = sizes[to.width] if width is None else width
    if x.shape[-1] < n and again:
        x = x.repeat(*[1] * (x.ndim - 1), math.ceil(n / x.shape[-1]))[..., :n]
    elif x.shape[-1] < n:
        x = functional.pad(x, (0, n - x.shape[-1]))
    elif x.shape[-1] > n:
        x = _resized(x, x.ndim - 1, n)
    return _together(x, lengths, sizes, to, n)


def _apart(x: torch.Tensor, axes: Axes) -> torch.Tensor:
    """Return it as (examples, places..., width)."""
    if axes.width in (x.ndim, axes.batch):  # single numbers, each for itself
        x = x.unsqueeze(-1)
    width = x.ndim - 1 if axes.batch == axes.width else axes.width
    order, shape = [], []
    for axis in ([] if axes.batch is None else [axes.batch]) + _others(x.ndim, axes.batch, width):
        its = [place.size for place in axes.places if place.axis == axis]
        order.append(axis)
        if axis == axes.batch:
            shape += [x.shape[axis] // axes.each, *its]
        else:
            shape += its if len(its) > 1 or its[0] else [x.shape[axis]]
    x = x.permute(*order, width).reshape(*shape, x.shape[width])
    return x.unsqueeze(0) if axes.batch is None else x


def _others(rank: int, batch: int | None, width: int) -> list[int]:
    return [axis for axis in range(rank) if axis not in (batch, width)]


def _together(x: torch.Tensor, lengths: list[int], sizes: tuple[int, ...], to: Axes, width: int) -> torch.Tensor:
    """Return it with its axes where they belong."""
    examples = x.shape[0]
    if to.batch is not None and examples * to.each != sizes[to.batch]:
        examples = sizes[to.batch] // to.each
        x = x.expand(examples, *x.shape[1:])
    if to.batch == to.width:
        return x.reshape(sizes)
    order = [] if to.batch is None else [to.batch]
    order += _others(len(sizes), to.batch, to.width)
    found = [math.prod(n for n, place in zip(lengths, to.places, strict=True) if place.axis == axis) for axis in order]
    if to.batch is not None:
        found[0] *= examples
    x = x.reshape(*found, width)
    order = [*order, to.width]
    return x.permute(*(order.index(axis) for axis in range(len(sizes)))).contiguous()


def _resized(x: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """Return it with another number of positions along one axis."""
    if x.shape[axis] == 1:
        return x.expand(*(size if n == axis else -1 for n in range(x.ndim)))
    moved = x.movedim(axis, -1)
    flat = moved.reshape(1, -1, moved.shape[-1])
    dtype = flat.dtype
    if dtype in (torch.float16, torch.bfloat16):
        flat = flat.float()
    pooled = functional.adaptive_avg_pool1d(flat, size).to(dtype)
    return pooled.reshape(*moved.shape[:-1], size).movedim(-1, axis)
