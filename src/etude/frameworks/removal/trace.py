"""One run of a model, written down: which modules were called, which operations were done, on which tensors.

The model is the user's, run as it is. Hooks tell of the calls of its modules, and a mode that sees every function of
torch tells of operations. Nothing is ever executed from a trace: it is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from etude.core.errors import RefusalCode, RemovalRefused
from etude.frameworks.removal.nested import Path, bound, leaves, tensors


@dataclass
class Value:
    """A tensor between two changes of it.

    Attributes:
        n: Its number; what it was computed from has smaller ones.
        shape: Its shape.
        dtype: Its type.
        kind: ``parameter``, ``buffer``, ``input``, ``made`` by an operation, or ``constant``.
        name: Of a parameter, buffer or input.
        op: The operation that made it, or None.
    """

    n: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    kind: str
    name: str = ""
    op: int | None = None

    @property
    def is_float(self) -> bool:
        """Whether a gradient can flow through it."""
        return self.dtype.is_floating_point or self.dtype.is_complex


@dataclass
class Op:
    """An operation.

    Attributes:
        n: Its number, in the order of the run.
        name: Of the function.
        inputs: Values.
        outputs: Values; also those that it changed in place.
        call: The innermost call that it was done in.
        key: Path of that module, which call of it, and which operation in that call: the same in another run.
        args: What the function was called with.
        kwargs: Likewise.
    """

    n: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    call: int
    key: tuple[str, int, int]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Call:
    """A call of a module.

    Attributes:
        n: Its number.
        path: Of the module.
        nth: Which call of this module, from 0.
        parent: The call that it was done in, or -1.
        first: Its first operation.
        end: The operation after its last.
        inputs: Values that it was given, by their paths.
        outputs: Values that it gave.
        given: All that it was given, by the names of arguments.
        result: What it gave.
        kind: Name of the module's class.
    """

    n: int
    path: str
    nth: int
    parent: int
    first: int
    end: int = -1
    inputs: dict[Path, int] = field(default_factory=dict)
    outputs: dict[Path, int] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    kind: str = ""


@dataclass
class Trace:
    """What happened in one run.

    Attributes:
        values: Tensors.
        ops: Operations.
        calls: Calls of modules; the first one is of the model itself.
        parameters: Names of parameters and buffers -> their values.
    """

    values: list[Value]
    ops: list[Op]
    calls: list[Call]
    parameters: dict[str, int]

    def of(self, path: str) -> list[Call]:
        """Return the calls of a module."""
        return [call for call in self.calls if call.path == path]


class Recorder(TorchFunctionMode):
    """Writes down what is done while it is on."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.trace = Trace([], [], [], {})
        self._numbers: dict[int, int] = {}
        self._alive: list[torch.Tensor] = []  # an id is given again once its tensor is gone
        self._open: list[int] = []
        self._counts: dict[str, int] = {}
        self._done: dict[int, int] = {}
        for kind, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
            for name, tensor in named:
                self.trace.parameters[name] = self._new(tensor, kind, name)

    def number(self, tensor: torch.Tensor) -> int:
        """Return the number of the value that a tensor holds now."""
        found = self._numbers.get(id(tensor))
        if found is not None:
            return found
        if tensor.grad_fn is None or not self._open:
            return self._new(tensor, "constant")
        # Something that no function of torch made, by a custom autograd function for instance: it may depend on
        # all that its surroundings were given, and on all that was made in them.
        call = self.trace.calls[self._open[-1]]
        made = [v for op in self.trace.ops[call.first :] if op.call == call.n for v in op.outputs]
        made += [v for child in self.trace.calls[call.n :] if child.parent == call.n for v in child.outputs.values()]
        made = [v for v in dict.fromkeys(made) if v not in call.inputs.values()]
        return self._op("opaque", [*call.inputs.values(), *made], [tensor], (), {})[0]

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Do an operation, and write it down."""
        kwargs = kwargs or {}
        given = [tensor for _, tensor in tensors((args, kwargs))]
        versions = [_version(tensor) for tensor in given]
        before = [self.number(tensor) for tensor in given]
        result = self.run(func, args, kwargs)
        changed = [t for t, version in zip(given, versions, strict=True) if _version(t) != version]
        changed += [t._base for t in changed if t._is_view() and t._base is not None]
        made = [t for _, t in tensors(result) if id(t) not in self._numbers or self._numbers[id(t)] not in before]
        out = list({id(t): t for t in (*changed, *made)}.values())
        if out:
            old = [self._numbers[id(t)] for t in changed if id(t) in self._numbers]
            self._op(function_name(func), [*before, *(v for v in old if v not in before)], out, args, kwargs)
        return result

    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do an operation; for those who want to see it."""
        return func(*args, **kwargs)

    def enter(self, path: str, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Write down that a call begins."""
        nth = self._counts.get(path, 0)
        self._counts[path] = nth + 1
        parent = self._open[-1] if self._open else -1
        call = Call(len(self.trace.calls), path, nth, parent, len(self.trace.ops), given=bound(kind, args, kwargs))
        call.kind = kind.__name__
        if parent < 0:
            for where, tensor in tensors(call.given):
                if id(tensor) not in self._numbers:
                    self._new(tensor, "input", ".".join(map(str, where)))
        if any(torch._C._functorch.is_batchedtensor(tensor) for _, tensor in tensors(call.given)):
            why = "it is called within torch.vmap, whose tensors cannot be followed. Call it on the whole batch."
            raise RemovalRefused(RefusalCode.UNTRACEABLE, path or "the model", why)
        call.inputs = {where: self.number(tensor) for where, tensor in tensors(call.given)}
        self.trace.calls.append(call)
        self._open.append(call.n)

    def leave(self, result: Any) -> Call:
        """Write down that the innermost call has ended, and return it."""
        call = self.trace.calls[self._open[-1]]
        call.outputs = {where: self.number(tensor) for where, tensor in tensors(result)}
        call.result = result
        call.end = len(self.trace.ops)
        self._open.pop()
        return call

    def _op(
        self, name: str, inputs: list[int], outputs: list[torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[int, ...]:
        call = self._open[-1] if self._open else -1
        nth = self._done.get(call, 0)
        self._done[call] = nth + 1
        where = self.trace.calls[call] if call >= 0 else None
        n = len(self.trace.ops)
        numbers = tuple(self._new(tensor, "made", op=n) for tensor in outputs)
        key = (where.path, where.nth, nth) if where else ("", -1, nth)
        self.trace.ops.append(Op(n, name, tuple(inputs), numbers, call, key, args, kwargs))
        return numbers

    def _new(self, tensor: torch.Tensor, kind: str, name: str = "", op: int | None = None) -> int:
        with torch._C.DisableTorchFunction():  # a look at a shape is no operation of the model
            shape, dtype = tuple(tensor.shape), tensor.dtype
        n = len(self.trace.values)
        self.trace.values.append(Value(n, shape, dtype, kind, name, op))
        self._numbers[id(tensor)] = n
        self._alive.append(tensor)
        return n


def record(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Trace:
    """Run a model once, and return what happened."""
    recorder = Recorder(model)
    with watched(model, recorder), recorder:
        model(*args, **kwargs)
    return recorder.trace


@contextmanager
def watched(model: nn.Module, recorder: Recorder) -> Iterator[None]:
    """Let a recorder know of all calls of a model's modules."""

    def before(path: str) -> Any:
        return lambda module, args, kwargs: recorder.enter(path, kind_of(module), args, kwargs)

    def after(module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        recorder.leave(result)

    handles = []
    try:
        for path, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(before(path), with_kwargs=True))
            handles.append(module.register_forward_hook(after, with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


def kind_of(module: nn.Module) -> type:
    """Return the class of a module; of a stand-in, that of the module that was removed."""
    found: type = getattr(type(module), "stands_for", type(module))
    return found


def constants(call: Call) -> Iterator[tuple[Path, Any]]:
    """Go through what a call was given that is no tensor."""
    return itertools.filterfalse(lambda item: isinstance(item[1], torch.Tensor), leaves(call.given))


def function_name(func: Callable[..., Any]) -> str:
    """Return what a function of torch is called; of a property, its own name."""
    name = getattr(func, "__name__", str(func))
    found = str(getattr(getattr(func, "__self__", None), "__name__", name)) if name == "__get__" else name
    return found.partition(".")[0]  # of "sub.Tensor", which a scripted function calls


def _version(tensor: torch.Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:  # tensors of inference mode have none, and cannot be changed in place
        return 0
