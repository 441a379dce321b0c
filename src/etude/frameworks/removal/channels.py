"""Which of the old channels a tensor consists of, after operations that do not mix them."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

Keep: TypeAlias = tuple[int, ...] | None
"""Which old channels a width consists of; None if that cannot be said."""

SPLITS: Final = frozenset(["chunk", "split", "tensor_split", "unbind", "split_with_sizes"])
RESHAPES: Final = frozenset(["view", "reshape", "flatten", "unflatten", "view_as", "reshape_as"])


def carried(
    name: str,
    keep: tuple[int, ...],
    axis: int,
    given: tuple[tuple[int, ...], tuple[int, ...]],
    made: tuple[tuple[int, ...], tuple[int, ...]],
    start: int,
) -> Keep:
    """Return the old channels after an operation that is no reshape; shapes are as they were and as they are."""
    (whole, first), (before, out) = given, made
    if name == "repeat_interleave" and axis < len(before):
        each = before[axis] // max(whole[axis], 1)
        return tuple(k * each + n for k in keep for n in range(each))
    if name in SPLITS:
        where = [n for n, (a, b) in enumerate(zip(out, before, strict=False)) if a != b]
        end = start + (before[where[0]] if where else 0)
        return tuple(k - start for k in keep if start <= k < end)
    # A part of another axis, or of this one, and then nobody knows what was taken.
    same = axis < min(len(out), len(before)) and out[axis] == first[axis] and whole[axis] == before[axis]
    return None if name == "__getitem__" and not same else keep


def reshaped(
    old: tuple[int, ...], axis: int, keep: tuple[int, ...], before: tuple[int, ...], now: tuple[int, ...]
) -> Keep:
    """Return the old channels after a reshape: of (C, H, W) into one axis, say, each channel stands for H times W."""
    differ = [n for n, (a, b) in enumerate(zip(now, before, strict=False)) if a != b]
    if len(differ) != 1:
        return None
    to = differ[0]
    ahead_old, ahead = math.prod(old[:axis]), math.prod(before[:to])
    behind_old, behind = math.prod(old[axis + 1 :]), math.prod(before[to + 1 :])
    if ahead_old == ahead and behind_old >= behind and behind_old % max(behind, 1) == 0:
        inner = behind_old // max(behind, 1)
        return tuple(k * inner + n for k in keep for n in range(inner))
    if ahead_old == ahead and behind % max(behind_old, 1) == 0:  # of (heads times size) into (heads, size)
        inner = behind // max(behind_old, 1)
        groups = [k // inner for k in keep[::inner]]
        if keep == tuple(g * inner + n for g in groups for n in range(inner)):
            return tuple(groups)
    return None
