"""Blocks that repeat: what was found for one of them holds for those that are like it.

A block stands for another one only if nothing that decides can differ: both have the same modules with the same
tensors and settings, did the same operations on the same shapes, and nobody reads what is inside. Then edits differ in
names alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import torch
from torch import nn

from etude.frameworks.removal.edits import Edit, ResizeTensor, StandIn
from etude.frameworks.removal.flow import within
from etude.frameworks.removal.names import under
from etude.frameworks.removal.nested import leaves
from etude.frameworks.removal.numbering import PLACE
from etude.frameworks.removal.trace import Call, Trace
from etude.frameworks.removal.tracing import Mode, Runs
from etude.frameworks.removal.widths import Widened

REGISTRIES: Final = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
PLAIN: Final = (bool, int, float, complex, str, bytes, slice, torch.dtype, torch.device, torch.layout)


class Repeats:
    """What earlier plans found, for plans of the same model.

    Args:
        runs: Runs of a copy of the model, from which nothing was taken out.
    """

    def __init__(self, runs: Runs) -> None:
        self._model, self._modes, self._is_fake = runs.copy.model, runs.modes, runs.fake
        self._kinds: dict[Any, int] = {}
        self._kind_of: dict[str, int | None] = {}
        self._shared = _shared(self._model)
        self._fitting: set[Any] = set()
        self._widened: dict[Any, dict[int, Widened]] = {}

    # --- stand-ins of the same width ------------------------------------------------------------------

    def is_known(self, edit: StandIn) -> bool:
        """Say whether a stand-in was seen to fit in the place of a module that is like this one."""
        return self._key(edit) in self._fitting

    def note(self, edit: StandIn) -> None:
        """Note that a stand-in fits."""
        if self.kind(edit.path) is not None:
            self._fitting.add(self._key(edit))

    def _key(self, edit: StandIn) -> Any:
        parent = self._model.get_submodule(edit.path.rpartition(".")[0])
        return self.kind(edit.path), type(parent), edit.calls

    # --- another width ------------------------------------------------------------------------------

    def recall(self, first: Sequence[Edit], *, part: bool) -> Widened | None:
        """Return what the same edits took in a block that is like the one that these are in; None if nobody knows."""
        block = _around(map(_place, first))
        while block:
            known = self._widened.get((part, tuple(_moved(edit, block, "") for edit in first)))
            kind = self.kind(block) if known else None
            if known and kind is not None and kind in known:
                of = known[kind]
                return Widened([_moved(edit, "", block) for edit in of.edits], of.coupled)
            block = block.rpartition(".")[0]
        return None

    def remember(self, first: Sequence[Edit], found: Widened, *, part: bool) -> None:
        """Remember what edits took, if all that it changed lies in one block."""
        block = _around([*map(_place, (*first, *found.edits)), *found.touched])
        while block and self.kind(block) is None:
            block = block.rpartition(".")[0]
        kind = self.kind(block) if block else None
        again = any(call.nth and under(call.path, block) for mode in self._modes for call in mode.trace.calls)
        if kind is None or again:  # a layer that is called again may meet the width before it has it
            return
        key = part, tuple(_moved(edit, block, "") for edit in first)
        edits = [_moved(edit, block, "") for edit in found.edits]
        self._widened.setdefault(key, {})[kind] = Widened(edits, found.coupled)

    # --- which blocks are alike ---------------------------------------------------------------------

    def kind(self, path: str) -> int | None:
        """Return a number that blocks have in common that are alike; None if this one is like no other."""
        if not self._is_fake:  # with values more may differ than shapes
            return None
        if path not in self._kind_of:
            found = self._described(path)
            self._kind_of[path] = None if found is None else self._kinds.setdefault(found, len(self._kinds))
        return self._kind_of[path]

    def _described(self, path: str) -> Any:
        """Return all of a block that a plan can depend on; None if it is tied to what is around it."""
        block = self._model.get_submodule(path)
        modules = list(block.named_modules())
        tensors = [t for _, module in modules for t in (*module._parameters.values(), *module._buffers.values())]
        if any(id(one) in self._shared for one in (*(m for _, m in modules), *tensors)):
            return None
        places = frozenset(int(step) for step in path.split(".") if step.isdecimal())
        built = [(name, _settings(module, places)) for name, module in modules]
        did = [_did(mode, path) for mode in self._modes]
        if any(one is None for _, one in built) or any(one is None for one in did):
            return None
        return tuple(built), tuple(did)


def _shared(model: nn.Module) -> set[int]:
    """Return the ids of modules and tensors that have several names."""
    seen, found = set[int](), set[int]()
    for named in (model.named_modules, model.named_parameters, model.named_buffers):
        for _, one in named(remove_duplicate=False):
            (found if id(one) in seen else seen).add(id(one))
    return found


def _settings(module: nn.Module, places: frozenset[int]) -> Any:
    """Return what a module is, but for its place; None if hooks are on it, which may do anything."""
    own = vars(module)
    if own["_forward_hooks"] or own["_forward_pre_hooks"]:
        return None
    held = [(name, _plain(t), getattr(t, "requires_grad", False)) for r in REGISTRIES[:2] for name, t in own[r].items()]
    children = tuple((name, child is None) for name, child in own["_modules"].items())
    rest = [
        (name, "its place" if PLACE.match(name) and type(value) is int and value in places else _plain(value))
        for name, value in own.items()
        if name not in REGISTRIES and name != "training"
    ]
    return type(module), tuple(held), children, tuple(sorted(rest, key=lambda item: item[0]))


def _did(mode: Mode, path: str) -> Any:
    """Return what a block did in a run; None if others look into it, or it calls what is not in it."""
    trace = mode.trace
    roots = trace.of(path)
    inside = _inside(trace, roots)
    if any(under(call.path, path) != (call.n in inside) for call in trace.calls):
        return None
    own = {n: name.removeprefix(path) for name, n in trace.parameters.items() if under(name, path)}
    if any(not within(op, roots) for n in own for op in mode.flow.consumers[n]):
        return None
    names: dict[int, Any] = dict(own)
    outer: dict[int, str] = {n: name for name, n in trace.parameters.items() if n not in own}

    def named(n: int) -> Any:
        if n not in names:
            value = trace.values[n]
            names[n] = (len(names), value.shape, value.dtype, value.kind, outer.get(n, ""))
        return names[n]

    begun = {n: nth for nth, n in enumerate(sorted(inside))}
    ops = []
    for op in (op for root in roots for op in trace.ops[root.first : root.end]):
        read = tuple(named(n) for n in op.inputs)
        made = tuple((named(n), mode.flow.used_outside(n, roots)) for n in op.outputs)
        ops.append((op.name, begun[op.call], op.key[1:], read, made, _constants((op.args, op.kwargs))))
    calls = []
    for call in (trace.calls[n] for n in sorted(inside)):
        given, gave = (tuple((where, named(n)) for where, n in of.items()) for of in (call.inputs, call.outputs))
        plain = _constants(call.given), _constants(call.result)
        calls.append((call.path.removeprefix(path), call.kind, begun.get(call.parent), given, gave, plain))
    return tuple(calls), tuple(ops)


def _inside(trace: Trace, roots: Sequence[Call]) -> set[int]:
    """Return these calls, and those that were made in them."""
    found = {call.n for call in roots}
    for call in trace.calls:
        if call.parent in found:
            found.add(call.n)
    return found


def _constants(value: Any) -> Any:
    return tuple((where, _plain(leaf)) for where, leaf in leaves(value) if not isinstance(leaf, torch.Tensor))


def _plain(value: Any) -> Any:
    """Return what tells a value from others: its own self, where nothing else is known of it."""
    if isinstance(value, torch.Tensor):
        return "tensor", type(value), tuple(value.shape), value.dtype, value.device
    if value is None or isinstance(value, PLAIN):
        return type(value), repr(value)
    if isinstance(value, tuple | list):
        return type(value), tuple(map(_plain, value))
    if isinstance(value, dict):
        return type(value), tuple((_plain(key), _plain(item)) for key, item in value.items())
    return type(value), id(value)


def _around(paths: Iterable[str]) -> str:
    """Return the smallest block that all of these lie in."""
    steps: Iterator[tuple[str, ...]] = zip(*(path.split(".") for path in paths), strict=False)
    common = []
    for each in steps:
        if len(set(each)) > 1:
            break
        common.append(each[0])
    return ".".join(common)


def _place(edit: Edit) -> str:
    """Return the path of the module that an edit changes."""
    return edit.name.rpartition(".")[0] if isinstance(edit, ResizeTensor) else edit.path


def _moved(edit: Edit, old: str, new: str) -> Edit:
    """Return an edit of a block as one of another block."""
    field = "name" if isinstance(edit, ResizeTensor) else "path"
    rest = getattr(edit, field).removeprefix(old).removeprefix(".")
    moved: Edit = msgspec.structs.replace(edit, **{field: ".".join(step for step in (new, rest) if step)})
    return moved
