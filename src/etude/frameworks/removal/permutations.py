"""Operations that give a tensor's axes another order, and which one."""

from __future__ import annotations

from typing import Final

import torch

from etude.frameworks.removal.trace import Op

MOVES: Final = frozenset(
    [*("permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims", "T", "mT", "H", "mH", "t", "adjoint")]
)
PRIMES: Final = (2, 3, 5, 7, 11, 13, 17, 19)


def moved_axes(op: Op, rank: int) -> list[int] | None:
    """Return which axis each axis of a permutation's result was; None if that is not known."""
    coded = torch.empty(PRIMES[:rank], device="meta")
    try:
        with torch._C.DisableTorchFunction():
            if op.name in ("T", "mT", "H", "mH"):
                moved = getattr(coded, op.name)
            else:
                kwargs = {name: value for name, value in op.kwargs.items() if name != "input"}
                moved = getattr(torch.Tensor, op.name)(coded, *op.args[1:], **kwargs)
        return [PRIMES.index(size) for size in moved.shape]
    except (TypeError, ValueError, IndexError, AttributeError, RuntimeError):
        return None
