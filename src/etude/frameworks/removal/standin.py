"""The module that stands where another one was: it does what its rules say, and to callers it looks like the other one.

- It is of a subclass of the removed module's class, since some models choose modules by class, and has its hooks.
- What callers read of it (``batch_first``, ``weight.dtype``, children) is read from a copy without data, on the meta
  device and outside the registry of modules: shapes and types are right, and computing with it fails loudly.
- It has a length only if the removed module had one: ``if self.downsample:`` asks for it.
"""

from __future__ import annotations

import copy
import functools
from typing import Any, Final

import torch
from torch import nn

from etude.frameworks.removal.adapter import fitted
from etude.frameworks.removal.disguise import Disguised
from etude.frameworks.removal.edits import CallRule, Dim, Fill, Fit, Rule, Same, StandIn
from etude.frameworks.removal.nested import at, bound, filled, tensors

HOOKS: Final = (
    *("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called"),
    *("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"),
    *("_backward_hooks", "_backward_pre_hooks"),
)


class _Standing(Disguised):
    """What all stand-ins do. Their class is made from this and the class of the module that was removed."""

    stands_for: type

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Give what the rules say."""
        inputs = bound(self.stands_for, args, kwargs)
        return results(self._calls, inputs, self._like, training=self.training, owner=self)

    __call__ = nn.Module.__call__

    def __getattr__(self, name: str) -> Any:
        """Read what the stand-in does not have from the copy of what was removed."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "_removed" not in self.__dict__:
                raise
            return getattr(self.__dict__["_removed"], name)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """Move it as any module; what was removed has its own ways, with weights that are not here."""
        before = self._like.dtype
        nn.Module._apply(self, fn, recurse)
        if self._like.dtype != before:  # callers ask for the type of its weight, and cast to it
            self.__dict__["_removed"].to(self._like.dtype)
        return self

    def __reduce__(self) -> Any:
        """Its class cannot be imported: it is made again."""
        return _blank, (self.stands_for,), self.__dict__

    def extra_repr(self) -> str:
        """Say what was here."""
        return f"in place of {self.stands_for.__name__}"


def stand_in(removed: nn.Module, edit: StandIn) -> nn.Module:
    """Return a module that takes the place of another."""
    made: nn.Module = _blank(type(removed))
    for name in HOOKS:
        getattr(made, name).update(getattr(removed, name))
    made.training = removed.training
    made.__dict__["_removed"] = _without_data(removed)
    made.__dict__["_calls"] = edit.calls
    tensor = next((t for t in (*removed.parameters(), *removed.buffers()) if t.is_floating_point()), None)
    like = tensor.new_empty(0) if tensor is not None else torch.empty(0)
    made.register_buffer("_like", like.detach(), persistent=False)
    for name, n_in, n_out in edit.learned:
        made.add_module(name, nn.Linear(n_in, n_out, device=like.device, dtype=like.dtype))
    return made


def results(
    calls: tuple[CallRule, ...], inputs: dict[str, Any], like: torch.Tensor, *, training: bool, owner: Any = None
) -> Any:
    """Return what the rules give for these inputs.

    Args:
        calls: Rules; the one whose shapes are the inputs' is taken.
        inputs: What the module was called with, by the names of arguments.
        like: A tensor whose type and device constants have, unless an input says better.
        training: Whether it is training.
        owner: Has the layers of learned adapters.
    """
    rule = _rule_for(calls, inputs, training=training)
    given = [t for _, t in tensors(inputs) if t.is_floating_point()]
    like = given[0] if given else like
    return filled(rule.form, [_result(each, inputs, like, owner) for each in rule.rules], inputs)


def adapts(module: nn.Module) -> bool:
    """Say whether a module stands for another one and brings something into its shape."""
    calls: tuple[CallRule, ...] = vars(module).get("_calls", ()) if hasattr(type(module), "stands_for") else ()
    return any(call.adapts for call in calls)


def _rule_for(calls: tuple[CallRule, ...], inputs: dict[str, Any], *, training: bool) -> CallRule:
    calls = tuple(call for call in calls if call.training in (None, training)) or calls
    if len(calls) == 1:
        return calls[0]
    shapes = dict(signature(inputs))
    alike = [call for call in calls if dict(call.shapes) == shapes]
    alike += [call for call in calls if _ranks(dict(call.shapes)) == _ranks(shapes)]  # a longer text, a larger image
    return (alike or calls)[0]


def _ranks(shapes: dict[Any, tuple[int, ...]]) -> dict[Any, int]:
    return {path: len(shape) for path, shape in shapes.items()}


def signature(inputs: dict[str, Any]) -> tuple[tuple[Any, tuple[int, ...]], ...]:
    """Return the shapes by which calls of one module are told apart."""
    return tuple((path, tuple(tensor.shape[1:])) for path, tensor in tensors(inputs))


def _result(rule: Rule, inputs: dict[str, Any], like: torch.Tensor, owner: Any) -> torch.Tensor:
    if isinstance(rule, Same):
        found: torch.Tensor = at(inputs, rule.source)
        return found.clone() if rule.clone else found
    sizes = tuple(_size(dim, inputs) for dim in rule.dims)
    if isinstance(rule, Fill):
        dtype = getattr(torch, rule.dtype) if rule.dtype else like.dtype
        found = torch.full(sizes, float(rule.value), dtype=dtype, device=like.device)
        for start, end in rule.ones:
            found.narrow(rule.axis, start, end - start).fill_(1)
        return found
    return _fitted(rule, sizes, inputs, like, owner)


def _fitted(rule: Fit, sizes: tuple[int, ...], inputs: dict[str, Any], like: torch.Tensor, owner: Any) -> torch.Tensor:
    total: torch.Tensor | None = None
    for source in rule.sources:
        x: torch.Tensor = at(inputs, source.path)
        if not x.is_floating_point():
            x = x.to(like.dtype if like.is_floating_point() else torch.get_default_dtype())
        if rule.learned:
            layer = getattr(owner, rule.learned)
            x = x.to(layer.weight.dtype)
            wide = fitted(x, source.axes, sizes, rule.axes, width=layer.in_features)
            x = layer(wide.movedim(rule.axes.width, -1)).movedim(-1, rule.axes.width)
        else:
            x = fitted(x, source.axes, sizes, rule.axes, again=rule.channels == "again")
        total = x if total is None else total + x
    assert total is not None, "an adapter reads something"
    return total


def _size(dim: Dim, inputs: dict[str, Any]) -> int:
    if dim.path is None:
        return dim.size
    tensor: Any = at(inputs, dim.path)
    if not isinstance(tensor, torch.Tensor):  # a mask that is left out where it masks nothing
        return dim.size
    return tensor.shape[dim.axis] * dim.times // dim.over


def _without_data(module: nn.Module) -> nn.Module:
    """Return a copy of a module whose tensors have shapes and types, and no data."""
    memo: dict[int, Any] = {}
    for tensor in (*module.parameters(), *module.buffers()):
        bare = torch.empty_like(tensor, device="meta").detach()
        is_parameter = isinstance(tensor, nn.Parameter)
        memo[id(tensor)] = nn.Parameter(bare, requires_grad=tensor.requires_grad) if is_parameter else bare
    try:
        return copy.deepcopy(module, memo)
    except Exception:
        return module


def _blank(kind: type) -> Any:
    standing = _class_for(getattr(kind, "stands_for", kind))
    made: Any = standing.__new__(standing)
    nn.Module.__init__(made)
    return made


@functools.cache
def _class_for(kind: type) -> Any:
    body: dict[str, Any] = {"stands_for": kind, "__module__": __name__, "__doc__": f"Stands in for {kind.__name__}."}
    for name in ("__len__", "__iter__", "__getitem__", "__contains__"):
        if hasattr(kind, name):
            body[name] = _delegated(name)
    return type(f"No{kind.__name__}", (_Standing, kind), body)


def _delegated(name: str) -> Any:
    return lambda self, *args: getattr(self.__dict__["_removed"], name)(*args)
