"""Sums in which a summand stands twice: what a shape-only tool makes of a skip, x + x.

A branch beside a skip, ``x + f(x)``, becomes ``x + x`` if ``f`` is taken out and what goes in comes out: right in
shape, and not the model without ``f``. The same holds for ``x + norm(x)``, where only a norm is left of the branch.
Here a sum is called *doubled* if every operation that mixes positions or channels by parameters and is behind one
summand is behind the other too: then the one says nothing that the other does not. It is read off the graph that
autograd keeps.

One case is none of these: a norm with weights *behind* the part that is taken out, as in ``x + norm(f(x))``. What
follows a part stays, and reads what went in: ``x + norm(x)`` is what a person gets who strikes ``f`` out. So layers
that were behind the part in the untouched model count as mixing (see ``behind``).
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Collection
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from benchmarks.zoo.family import Inputs, call
from benchmarks.zoo.values import floats, parameters

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

    Args:
        model: The model.
        kept: Parameters whose layers mix, whatever they are.

    Attributes:
        found: Module path and the how-manieth sum in it.
    """

    def __init__(self, model: nn.Module, kept: Collection[nn.Parameter] = ()) -> None:
        self._kept = {id(one) for one in kept}
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
            if one.shape == other.shape and one.numel() > 1 and doubled(one, other, self._kept):
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


def doubled(one: Tensor, other: Tensor, kept: Collection[int] = ()) -> bool:
    """Say whether of two summands one says nothing that the other does not."""
    if one.grad_fn is None or other.grad_fn is None or not (one.detach().any() and other.detach().any()):
        return False
    first, second = (_of_step(sources(x.grad_fn, kept), x.grad_fn, x.output_nr) for x in (one, other))
    return bool(first) and bool(second) and (first <= second or second <= first)


def sources(node: Any, kept: Collection[int] = ()) -> set[Any]:
    """Return the nodes that mix, and are reached from one without passing another.

    What is reached are the last operations of the branch itself; behind them nothing is looked at. A product of two
    things that come from different operations is a gate: it mixes. One of a thing with what was made of it alone, as
    in a norm or an activation that is written out, does not. Steps of a sequence that was taken apart are different
    things: what each has from its own place is told apart.
    """
    found: dict[Any, set[Any]] = {None: set()}
    todo = [node]
    while todo:
        at = todo[-1]
        edges = list(at.next_functions) if at is not None and _is_plain(at) else []
        before = [one for one, _ in edges]
        open_ones = [one for one in before if one not in found]
        if open_ones:
            todo += open_ones
            continue
        todo.pop()
        if at in found:
            continue
        behind = [_of_step(found[one], one, nth) for one, nth in edges if found[one]]
        if not _is_plain(at):
            # An accumulation is a leaf: a weight of a norm, or an input. Only the input is a source.
            found[at] = {at} if "AccumulateGrad" not in at.name() or _is_input(at) else set()
        else:
            is_gate = _kind(at) == "Mul" and len(behind) == 2 and behind[0] != behind[1]
            is_kept = bool(behind) and any(_is_parameter(one) and id(one.variable) in kept for one in before)
            found[at] = {at} if is_gate or is_kept else set().union(*behind)
    return found[node]


def _of_step(sources: set[Any], node: Any, nth: int) -> set[Any]:
    """Return what is behind the nth result of a node: of one that takes a sequence apart, by steps."""
    return {(source, nth) for source in sources} if _kind(node) == "Unbind" else sources


def _kind(node: Any) -> str:
    return re.sub(r"Backward\d*$", "", node.name())


def _is_plain(node: Any) -> bool:
    return _kind(node) in PLAIN


def _is_input(node: Any) -> bool:
    return not isinstance(node.variable, nn.Parameter)


def _is_parameter(node: Any) -> bool:
    return node is not None and "AccumulateGrad" in node.name() and isinstance(node.variable, nn.Parameter)


def behind(model: nn.Module, path: str, inputs: Inputs) -> set[str]:
    """Return names of the parameters of layers that read what a part gives, before the next sum and the next mixing."""
    given: list[Tensor] = []
    model = copy.deepcopy(model)

    def cut(module: nn.Module, args: Any, output: Any) -> Any:
        if type(output) in (list, tuple):
            return type(output)(cut(module, args, one) for one in output)
        if not isinstance(output, Tensor) or not output.is_floating_point():
            return output
        given.append(output.detach().requires_grad_())
        return given[-1].clone()  # what comes next may change it in place

    with torch.enable_grad(), model.get_submodule(path).register_forward_hook(cut):
        given_by_model = list(floats(call(model, with_gradients(inputs))).values())
    names = {id(parameter): name for name, parameter in parameters(model).items()}
    reached: dict[Any, bool] = {None: False}
    found = set()
    todo: list[Any] = [one.grad_fn for one in given_by_model if one.grad_fn is not None]
    while todo:
        at = todo[-1]
        before = [one for one, _ in at.next_functions]
        if open_ones := [one for one in before if one not in reached]:
            todo += open_ones
            continue
        todo.pop()
        if "AccumulateGrad" in at.name():
            reached[at] = any(at.variable is one for one in given)
        elif reached.setdefault(at, _is_plain(at) and _kind(at) != "Add" and any(reached[one] for one in before)):
            found |= {names[id(one.variable)] for one in before if _is_parameter(one)}
    return found


def doubled_sums(model: nn.Module, inputs: Inputs, kept: Collection[str] = ()) -> set[str]:
    """Return the doubled sums of a model, by module and number; layers of parameters that are kept mix."""
    model = copy.deepcopy(model)  # one that remembers would remember what autograd followed, and could not be copied
    own = parameters(model)
    finder = Doubled(model, [own[name] for name in kept if name in own])
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
            return value.clone().requires_grad_().clone()  # so that it has an operation behind it, as all others
        return value

    if isinstance(inputs, dict):
        return {name: followed(value) for name, value in inputs.items()}
    return tuple(followed(value) for value in inputs)
