"""What made a tensor its width, found in the run of the untouched model."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from etude.frameworks.removal.channels import Keep
from etude.frameworks.removal.edits import Edit, Resize, ResizeTensor
from etude.frameworks.removal.flow import within
from etude.frameworks.removal.operations import ADD, MUL
from etude.frameworks.removal.permutations import MOVES, moved_axes
from etude.frameworks.removal.positions import RESHAPES
from etude.frameworks.removal.resize import Unresizable, sides, width_axis
from etude.frameworks.removal.trace import Call, Op, Trace


class Producers:
    """Finds what made a tensor its width, in the untouched model's run.

    Attributes:
        visited: Paths of the modules in which it looked.
    """

    def __init__(self, model: nn.Module, base: Trace, removed: list[Call], tied: frozenset[str]) -> None:
        self._model, self._base, self._removed, self._tied = model, base, removed, tied
        self.visited: set[str] = set()

    def producers(self, value: int, axis: int, size: int, keep: Keep) -> list[Edit]:
        """Return the edits that give a value another width; the axis counts from behind."""
        found: dict[tuple[str, str], Edit] = {}
        waiting, seen = [value], set()
        turned: list[tuple[int, int]] = []
        while waiting:
            n = waiting.pop()
            if n in seen:
                continue
            seen.add(n)
            here = self._base.values[n]
            if here.kind in ("parameter", "buffer"):
                if here.name in self._tied:
                    raise Unresizable(f"{here.name} is shared")
                at = axis + len(here.shape)
                found["", here.name] = ResizeTensor(here.name, at, size, keep, here.shape[at])
                continue
            if here.op is None:
                raise Unresizable("the width of an input would have to change")
            op = self._base.ops[here.op]
            self.visited.add(self._base.calls[op.call].path)
            if within(op.n, self._removed) or not op.inputs:  # zeros, say, made to measure: of another width next time
                continue
            moved = self._moved(op, here.shape, axis)
            if moved is not None:
                if moved[1] != axis:
                    turned.append((op.inputs[0], moved[1]))
                else:
                    waiting.append(op.inputs[0])
                continue
            waiting += self._before(op, here.shape, axis, size, keep, found)
        more = [edit for n, at in turned for edit in self.producers(n, at, size, keep)]
        return list(dict.fromkeys([*found.values(), *more]))

    def _moved(self, op: Op, shape: tuple[int, ...], axis: int) -> tuple[int, int] | None:
        """Return where an axis lay before it was moved among the others, from the front and from behind."""
        before = self._base.values[op.inputs[0]].shape
        at = axis % len(shape)
        if op.name in MOVES:
            order = moved_axes(op, len(before))
            return None if order is None else (order[at], order[at] - len(before))
        if op.name not in RESHAPES or len(before) == len(shape):
            return None
        ahead = math.prod(shape[:at])
        same = [n for n, size in enumerate(before) if size == shape[at] > 1 and math.prod(before[:n]) == ahead]
        return (same[0], same[0] - len(before)) if len(same) == 1 else None

    def _before(
        self, op: Op, shape: tuple[int, ...], axis: int, size: int, keep: Keep, found: dict[tuple[str, str], Edit]
    ) -> list[int]:
        """Note what an operation's layer must become; return what else must change."""
        call = self._base.calls[op.call]
        module = self._model.get_submodule(call.path)
        widths = sides(module)
        if widths and width_axis(module) % len(shape) == axis % len(shape):
            side: Any = "through" if "through" in widths else "out"
            if side not in widths:
                raise Unresizable(f"{call.path} cannot have another width")
            if any(f"{call.path}.{name}" in self._tied for name, _ in module.named_parameters(recurse=False)):
                raise Unresizable(f"the weight of {call.path} is shared")
            found[call.path, side] = Resize(call.path, side, size, keep, widths[side])
            return [next(iter(call.inputs.values()))] if side == "through" else []
        at = axis % len(shape)
        same = []
        for n in op.inputs:
            value = self._base.values[n]
            fits = value.is_float and len(value.shape) >= -axis and value.shape[axis] == shape[at]
            if fits and (len(value.shape) == len(shape) or value.kind in ("parameter", "buffer", "constant")):
                same.append(n)
        mixing = [
            n for n in op.inputs if self._base.values[n].kind == "parameter" and len(self._base.values[n].shape) > 1
        ]
        apart = (
            op.name in ADD or op.name in MUL or _selects_beside(op, len(self._base.values[op.inputs[0]].shape), axis)
        )
        if not same or (mixing and not apart) or op.name in ("matmul", "bmm"):
            raise Unresizable(f"the width that {op.name} gives cannot be changed")
        return same


def _selects_beside(op: Op, ndim: int, axis: int) -> bool:
    """Say whether rows of a table are taken, as of positions, and an axis, counted from behind, stays as it is."""
    if op.name != "__getitem__":
        return False
    index = list(op.args[1]) if isinstance(op.args[1], tuple) else [op.args[1]]
    while index and index[0] is None:  # axes in front of all others
        index.pop(0)
    if all(isinstance(one, slice) for one in index):  # none turns an axis round, and this one is as long as before
        return True
    return (
        len(index) == 1 and isinstance(index[0], torch.Tensor) and not index[0].is_floating_point() and ndim + axis > 0
    )
