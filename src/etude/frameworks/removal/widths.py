"""Rungs 3 and 4: the model is run with another width in it, and what does not fit is given the width that comes.

A layer that gets another number of inputs is rebuilt. Norms, activations and depthwise convolutions pass the width on.
Where an addition or a product meets two widths, what made the other operand is found in the trace of the untouched
model and resized, and the run begins again. Of a width it is known, as far as can be, which of the old channels it
consists of; then nothing is drawn anew, and what is left keeps its values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import nn

from etude.frameworks.removal.apply import carry_out
from etude.frameworks.removal.budget import DEAR
from etude.frameworks.removal.channels import RESHAPES, Keep, carried, reshaped
from etude.frameworks.removal.cuts import spread
from etude.frameworks.removal.edits import Edit, Padded, Resize, ResizeTensor, StandIn
from etude.frameworks.removal.fake import NeedsValues, refuse_fakes
from etude.frameworks.removal.nested import tensors
from etude.frameworks.removal.operations import ADD, CAT, MUL, SPLITS
from etude.frameworks.removal.producers import Producers
from etude.frameworks.removal.resize import Side, Unresizable, sides, width_axis
from etude.frameworks.removal.standin import adapts
from etude.frameworks.removal.trace import Call, Op, Recorder, Trace, watched
from etude.frameworks.removal.unrun import shown

FEWEST: Final = 3
"""A norm over fewer numbers gives hardly more than their signs."""
RESTARTS: Final = 60


@dataclass
class Widened:
    """What it took.

    Attributes:
        edits: Resized layers and tensors, in order.
        coupled: Whether layers beyond those that read the width had to change.
        touched: Paths of the modules that met the width, or were asked where it comes from.
    """

    edits: list[Edit] = field(default_factory=list)
    coupled: bool = False
    touched: set[str] = field(default_factory=set)


class _TwoWidths(Exception):  # noqa: N818 - it is not an error: the run begins again
    """An operation meets two widths."""

    def __init__(self, value: int, axis: int, size: int, keep: Keep) -> None:
        super().__init__()
        self.value, self.axis, self.size, self.keep = value, axis, size, keep


def widen(
    model: nn.Module,
    base: Trace,
    first: list[Edit],
    removed: list[Call],
    run: Callable[[], Any],
    *,
    affordable: Callable[[Iterable[Edit]], bool],
    a_try: Callable[[], AbstractContextManager[Any]],
    tied: frozenset[str],
) -> Widened:
    """Find the edits with which a model runs in which a width has changed.

    Args:
        model: A copy that may be changed; it is as before afterwards.
        base: The untouched model's run.
        first: What changes the width.
        removed: Calls of the module that is taken out, in that run.
        run: Runs the copy.
        affordable: Says whether so much may be drawn anew.
        a_try: Gives a context in which changes of the copy are undone.
        tied: Names of parameters that several layers share.

    Raises:
        Unresizable: No widths fit.
    """
    search = Producers(model, base, removed, tied)
    more: list[Edit] = []
    touched = search.visited
    for _ in range(RESTARTS):
        with a_try():
            for edit in (*first, *more):
                carry_out(model, edit, seed=0)
            recorder = _Widths(model, base, [*first, *more], tied, touched)
            try:
                with watched(model, recorder), recorder:
                    run()
            except _TwoWidths as met:
                found = search.producers(met.value, met.axis, met.size, met.keep)
                new = [edit for edit in found if edit not in more and edit not in first]
                if not new:
                    raise Unresizable("an addition meets two widths that do not become one") from None
                more += new
                if not affordable([*more, *recorder.edits]):
                    raise Unresizable(DEAR) from None
                continue
            except (Unresizable, NeedsValues):
                raise
            except Exception as broken:
                refuse_fakes(broken)
                raise Unresizable(f"another width does not go: {broken}") from None
            if not affordable([*more, *recorder.edits]):
                raise Unresizable(DEAR)
            return Widened([*more, *recorder.edits], bool(more), touched)
    raise Unresizable("too many layers are coupled")


class _Widths(Recorder):
    """Watches widths while a model runs, and resizes what reads them."""

    def __init__(
        self, model: nn.Module, base: Trace, edits: list[Edit], tied: frozenset[str], touched: set[str]
    ) -> None:
        super().__init__(model)
        self.edits: list[Edit] = []
        self._touched = touched
        self._model, self._base, self._tied = model, base, tied
        self._ops = {op.key: op for op in base.ops}
        self._calls = {(call.path, call.nth): call for call in base.calls}
        self._changed: dict[int, tuple[int, Keep]] = {}
        self._out = {edit.path: edit.keep for edit in edits if isinstance(edit, Resize) and edit.side == "out"}
        self._hidden = {edit.path: edit for edit in edits if isinstance(edit, Resize) and edit.side == "hidden"}
        self._stands = {edit.path for edit in edits if isinstance(edit, StandIn | Padded)}
        self._stands |= {path for path, module in model.named_modules() if adapts(module)}
        for edit in edits:
            if isinstance(edit, ResizeTensor):
                path, _, name = edit.name.rpartition(".")
                tensor = getattr(model.get_submodule(path), name)
                self._changed[id(tensor)] = (edit.axis, edit.keep)

    def enter(self, path: str, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Give a layer the width that comes to it."""
        super().enter(path, kind, args, kwargs)
        module = self._model.get_submodule(path)
        widths = sides(module)
        x = next((t for _, t in tensors((args, kwargs))), None)
        if not widths or x is None or id(x) not in self._changed or path in self._stands:
            return
        axis, keep = self._changed[id(x)]
        side: Side = "through" if "through" in widths else "in"
        if side not in widths or widths[side] == x.shape[axis]:
            return
        own_ways = isinstance(module, nn.LayerNorm) and type(module) is not nn.LayerNorm  # channels may lie elsewhere
        if axis != width_axis(module) % x.ndim and not own_ways:
            return
        if isinstance(module, nn.LayerNorm | nn.RMSNorm) and x.shape[axis] < FEWEST <= widths[side]:
            raise Unresizable(f"{path} would norm {x.shape[axis]} numbers, which leaves hardly more than their signs")
        edit = Resize(path, side, int(x.shape[axis]), keep, widths[side])
        self._check_tied(path, edit)
        with torch._C.DisableTorchFunction():  # what this does is no operation of the model
            carry_out(self._model, edit, seed=0)
        for name, parameter in module.named_parameters(recurse=False):
            self.trace.parameters[f"{path}.{name}"] = self._new(parameter, "parameter", f"{path}.{name}")
        self.edits.append(edit)

    def leave(self, result: Any) -> Call:
        """Note what is known of a width that a stand-in or a resized layer gives."""
        call = super().leave(result)
        base = self._calls.get((call.path, call.nth))
        if base is None:
            return call
        for where, tensor in tensors(result):
            if where not in base.outputs:
                continue
            before = self._base.values[base.outputs[where]].shape
            if call.parent < 0 and tuple(tensor.shape) != before:
                now, then = shown(tuple(tensor.shape), self._base), shown(before, self._base)
                raise Unresizable(f"the model would give {now} instead of {then}")
            if call.path in self._out or call.path in self._stands:
                self._note(tensor, before, self._out.get(call.path) if call.path in self._out else _empty(tensor))
            elif call.path in self._hidden:  # in each of its directions
                hidden = self._hidden[call.path]
                self._note(tensor, before, spread(hidden.keep or (), hidden.before, before[-1]))
        return call

    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do an operation, and see whether two widths meet in it."""
        call = self._open[-1] if self._open else -1
        where = self.trace.calls[call] if call >= 0 else None
        key = (where.path, where.nth, self._done.get(call, 0)) if where else ("", -1, self._done.get(call, 0))
        given = [t for _, t in tensors((args, kwargs))]
        if any(id(t) in self._changed for t in given):
            self._touched.add(key[0])
        name = getattr(func, "__name__", "")
        if name in ADD or name in MUL:
            self._meet(key, given)
        try:
            return func(*args, **kwargs)
        except (_TwoWidths, Unresizable, NeedsValues):
            raise
        except Exception as broken:
            refuse_fakes(broken)
            if any(id(t) in self._changed for t in given):
                self._meet(key, given)
            raise Unresizable(
                f"{name} does not take it: {str(broken).splitlines()[0] if str(broken) else ''}"
            ) from None

    def _op(
        self, name: str, inputs: list[int], outputs: list[torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[int, ...]:
        numbers = super()._op(name, inputs, outputs, args, kwargs)
        op = self.trace.ops[-1]
        here = self.trace.calls[op.call].path if op.call >= 0 else ""
        if here in self._stands:
            return numbers
        base = self._ops.get(op.key)
        if base is None or base.name != name or len(base.outputs) != len(outputs):
            if op.call >= 0:  # inputs are made before the model is called
                self._touched.add(here)
            if any(id(t) in self._changed for _, t in tensors((args, kwargs))):
                raise Unresizable("the model takes another course with another width")
            return numbers
        start = 0
        for tensor, before in zip(outputs, base.outputs, strict=True):
            shape = self._base.values[before].shape
            keep = self._kept(name, base, tensor, shape, args, kwargs, start)
            self._note(tensor, shape, keep)
            if name in SPLITS and id(tensor) in self._changed:
                start += shape[self._changed[id(tensor)][0]]
        return numbers

    def _note(self, tensor: torch.Tensor, before: tuple[int, ...], keep: Keep) -> None:
        """Remember that a tensor has another width than before; raise Unresizable if more than one axis differs."""
        now = tuple(tensor.shape)
        self._changed.pop(id(tensor), None)
        if now == before:
            return
        differ = [n for n, (a, b) in enumerate(zip(now, before, strict=False)) if a != b]
        if len(now) != len(before) or len(differ) != 1:
            raise Unresizable(f"a tensor of shape {before} would get shape {now}")
        axis = differ[0]
        if keep is not None and len(keep) != now[axis]:
            keep = None
        self._touched.add(self.trace.calls[self._open[-1]].path if self._open else "")
        self._changed[id(tensor)] = (axis, keep)

    def _kept(
        self, name: str, base: Op, out: torch.Tensor, before: tuple[int, ...], args: Any, kwargs: Any, start: int
    ) -> Keep:
        """Return which old channels an operation's result consists of."""
        given = [t for _, t in tensors((args, kwargs))]
        changed = [(n, t, *self._changed[id(t)]) for n, t in enumerate(given) if id(t) in self._changed]
        if not changed:
            return None
        _, first, axis, keep = changed[0]
        dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) if name in CAT else None
        if dim is not None and dim % out.ndim == axis:
            return self._joined(base, given, axis)
        if keep is None or any(other[3] != keep for other in changed):
            return None
        whole = self._base.values[base.inputs[changed[0][0]]].shape
        if name in RESHAPES:
            return reshaped(whole, axis, keep, before, tuple(out.shape))
        return carried(name, keep, axis, (whole, tuple(first.shape)), (before, tuple(out.shape)), start)

    def _joined(self, base: Op, given: list[torch.Tensor], axis: int) -> Keep:
        found: list[int] = []
        offset = 0
        for tensor, n in zip(given, base.inputs, strict=False):
            size = self._base.values[n].shape[axis]
            _, keep = self._changed.get(id(tensor), (axis, tuple(range(size))))
            if keep is None:
                return None
            found += [offset + k for k in keep]
            offset += size
        return tuple(found)

    def _meet(self, key: tuple[str, int, int], given: list[torch.Tensor]) -> None:
        """Raise if an operation has an operand of another width beside one that is as it was."""
        base = self._ops.get(key)
        changed = [t for t in given if id(t) in self._changed]
        if base is None or not changed:
            return
        axis, keep = self._changed[id(changed[0])]
        behind = axis - changed[0].ndim
        size = changed[0].shape[axis]
        for tensor, n in zip(given, base.inputs, strict=False):
            old = self._base.values[n].shape
            if -behind > len(old) or old[behind] == 1 or id(tensor) in self._changed:
                continue
            if tensor.shape[behind] != size:
                raise _TwoWidths(n, behind, size, keep)

    def _check_tied(self, path: str, edit: Resize) -> None:
        module = self._model.get_submodule(path)
        for name, _ in module.named_parameters(recurse=False):
            if f"{path}.{name}" in self._tied:
                raise Unresizable(f"{path}.{name} is shared")


def _empty(tensor: torch.Tensor) -> Keep:
    return () if 0 in tensor.shape else None
