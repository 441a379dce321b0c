"""Which of the old channels a tensor consists of, after operations that do not mix them."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from etude.frameworks.removal.operations import SPLITS

Keep: TypeAlias = tuple[int, ...] | None
"""Which old channels a width consists of; None if that cannot be said."""

RESHAPES: Final = frozenset(["view", "reshape", "flatten", "unflatten", "view_as", "reshape_as"])
TOGETHER: Final = frozenset(
    [
        *("flip", "roll", "sort", "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "diff", "rot90"),
        *("pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "max_pool1d", "avg_pool1d", "lp_pool1d", "unfold"),
        *("adaptive_avg_pool1d", "adaptive_max_pool1d", "fold", "interpolate", "renorm", "fft", "rfft", "ifft"),
    ]
)
"""Operations that may move channels or take them together."""


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
    if name == "glu":  # channel n and that of the other half make one
        half = whole[axis] // 2
        first_half, second = (tuple(k - by for k in keep if by <= k < by + half) for by in (0, half))
        return first_half if first_half == second else None
    if name in TOGETHER and axis > 0:
        return None
    # A part of other axes, so that this one is whole; or of this one, and then nobody knows what was taken.
    same = [(a, b) for a, b in zip(out, before, strict=False) if a != b] == [(first[axis], whole[axis])]
    return None if name in ("__getitem__", "select") and not same else keep


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
