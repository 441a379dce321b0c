"""What made a tensor its width, found in the run of the untouched model."""

from __future__ import annotations

from typing import Any

from torch import nn

from etude.frameworks.removal.channels import Keep
from etude.frameworks.removal.edits import Edit, Resize, ResizeTensor
from etude.frameworks.removal.flow import ADD, MUL, within
from etude.frameworks.removal.resize import Unresizable, sides, width_axis
from etude.frameworks.removal.trace import Call, Op, Trace


class Producers:
    """Finds what made a tensor its width, in the untouched model's run."""

    def __init__(self, model: nn.Module, base: Trace, removed: list[Call], tied: frozenset[str]) -> None:
        self._model, self._base, self._removed, self._tied = model, base, removed, tied

    def producers(self, value: int, axis: int, size: int, keep: Keep) -> list[Edit]:
        """Return the edits that give a value another width; the axis counts from behind."""
        found: dict[tuple[str, str], Edit] = {}
        waiting, seen = [value], set()
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
            if within(op.n, self._removed):
                continue
            waiting += self._before(op, here.shape, axis, size, keep, found)
        return list(found.values())

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
        if not same or (mixing and op.name not in ADD and op.name not in MUL) or op.name in ("matmul", "bmm"):
            raise Unresizable(f"the width that {op.name} gives cannot be changed")
        return same
