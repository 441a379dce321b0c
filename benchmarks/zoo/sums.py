"""Sums in which a summand stands twice: what a shape-only tool makes of a skip, x + x.

A branch beside a skip, ``x + f(x)``, becomes ``x + x`` if ``f`` is taken out and what goes in comes out: right in
shape, and not the model without ``f``. The same holds for ``x + norm(x)``, where only a norm is left of the branch.
Here a sum is called *doubled* if every operation that mixes positions or channels by parameters and is behind one
summand is behind the other too: then the one says nothing that the other does not. It is read off the graph that
autograd keeps.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from benchmarks.zoo.family import Inputs, call

SUMS: Final = {torch.add, torch.Tensor.add, torch.Tensor.add_, torch.Tensor.__add__, torch.Tensor.__iadd__,
               torch.Tensor.__radd__}  # fmt: skip

PLAIN: Final = frozenset({
    "View", "UnsafeView", "ReshapeAlias", "Permute", "Transpose", "T", "Expand", "Clone", "CopySlices", "ToCopy",
    "Alias", "Mul", "Div", "Add", "Sub", "Rsub", "Neg", "Slice", "Select", "Index", "Cat", "Stack", "Split",
    "SplitWithSizes",
    "Unsqueeze", "Squeeze", "Pow", "Sqrt", "Rsqrt", "Mean", "Std", "Var", "NativeLayerNorm", "NativeBatchNorm",
    "NativeGroupNorm", "NativeDropout", "FusedRmsNorm", "Relu", "Gelu", "Silu", "Elu", "LeakyRelu", "Hardtanh",
    "Hardswish", "Tanh", "Sigmoid", "Softplus", "Clamp", "ClampMin", "Where", "MaskedFill", "Roll", "ConstantPadNd",
    "Unbind", "AsStrided", "Repeat", "Unfold", "Flip",
})  # fmt: skip
"""Names of nodes that move and scale numbers. All others mix."""


class Doubled(TorchFunctionMode):
    """While it is entered, finds the sums of a model that are doubled.

    Attributes:
        found: Module path and the how-manieth sum in it.
    """

    def __init__(self, model: nn.Module) -> None:
        self.found: set[str] = set()
        self._inside = [""]
        self._count: Counter[str] = Counter()
        self._hooks: list[RemovableHandle] = []
        for path, module in model.named_modules():
            if path:
                self._hooks.append(module.register_forward_pre_hook(self._enter(path)))
                self._hooks.append(module.register_forward_hook(self._leave, always_call=True))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in SUMS and len(args) == 2 and all(isinstance(a, Tensor) and a.is_floating_point() for a in args):
            one, other = args
            where = self._inside[-1]
            self._count[where] += 1
            if one.shape == other.shape and one.numel() > 1 and doubled(one, other):
                self.found.add(f"{where} +{self._count[where]}")
        return func(*args, **(kwargs or {}))

    def end(self) -> None:
        """Take the hooks away."""
        for hook in self._hooks:
            hook.remove()

    def _enter(self, path: str) -> Any:
        def hook(module: nn.Module, args: Any) -> None:
            self._inside.append(path)

        return hook

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        self._inside.pop()


def doubled(one: Tensor, other: Tensor) -> bool:
    """Say whether of two summands one says nothing that the other does not."""
    if one.grad_fn is None or other.grad_fn is None or not (one.detach().any() and other.detach().any()):
        return False
    behind, beside = sources(one.grad_fn), sources(other.grad_fn)
    return bool(behind) and bool(beside) and (behind <= beside or beside <= behind)


def sources(node: Any) -> set[Any]:
    """Return the nodes that mix, and are reached from one without passing another.

    What is reached are the last operations of the branch itself; behind them nothing is looked at. A product of two
    things that come from different operations is a gate: it mixes. One of a thing with what was made of it alone, as
    in a norm or an activation that is written out, does not.
    """
    found: dict[Any, set[Any]] = {None: set()}
    todo = [node]
    while todo:
        at = todo[-1]
        before = [one for one, _ in at.next_functions] if at is not None and _is_plain(at) else []
        open_ones = [one for one in before if one not in found]
        if open_ones:
            todo += open_ones
            continue
        todo.pop()
        if at in found:
            continue
        behind = [found[one] for one in before if found[one]]
        if not _is_plain(at):
            # An accumulation is a leaf: a weight of a norm, or an input. Only the input is a source.
            found[at] = {at} if "AccumulateGrad" not in at.name() or _is_input(at) else set()
        elif _kind(at) == "Mul" and len(behind) == 2 and behind[0] != behind[1]:
            found[at] = {at}
        else:
            found[at] = set().union(*behind)
    return found[node]


def _kind(node: Any) -> str:
    return re.sub(r"Backward\d*$", "", node.name())


def _is_plain(node: Any) -> bool:
    return _kind(node) in PLAIN


def _is_input(node: Any) -> bool:
    return not isinstance(node.variable, nn.Parameter)


def doubled_sums(model: nn.Module, inputs: Inputs) -> set[str]:
    """Return the doubled sums of a model, by module and number."""
    finder = Doubled(model)
    try:
        with torch.enable_grad(), finder:
            call(model, with_gradients(inputs))
    finally:
        finder.end()
    return finder.found


def with_gradients(inputs: Inputs) -> Inputs:
    """Return inputs whose tensors of numbers are followed by autograd."""

    def followed(value: Any) -> Any:
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.clone().requires_grad_()
        return value

    if isinstance(inputs, dict):
        return {name: followed(value) for name, value in inputs.items()}
    return tuple(followed(value) for value in inputs)
