"""Judges of a repaired model. They share no code with a remover, and know of it only the words that it gives back.

Each looks at one thing. What a remover says in its words counts as told, by the dotted name of the layer: a layer that
is told of may have been built anew, and may have lost its gradient. What is not told is wrong.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import torch
from torch import Tensor, nn

from benchmarks.zoo.family import OTHER_BATCH, SEED, Family, Inputs, call
from benchmarks.zoo.stirring import stirred
from benchmarks.zoo.sums import behind, doubled_sums
from benchmarks.zoo.values import Shown, floats, parameters, structure, tensors, within

CLOSE: Final = 1e-4
"""Relative difference of two outputs in float32 up to which they count as equal."""
MOST_REBUILT: Final = 0.2
"""The share of what remains that may have been built anew."""
SOME: Final = 1e-9
"""Of two outputs in double precision, what is no rounding."""
WEAK: Final = 0.01
"""Where examples of the untouched model depend on each other, a repair's may by this share, whichever they are."""
UNREACHED: Final = "no longer reached: "
"""What a remover's words begin with that name what has no effect any more, by commas."""


@dataclass(frozen=True)
class Fault:
    """What an oracle found.

    Attributes:
        oracle: Its name.
        what: What is wrong, in words.
    """

    oracle: str
    what: str

    def __str__(self) -> str:
        return f"{self.oracle}: {self.what}"


@dataclass(frozen=True)
class Repaired:
    """What a remover gave back.

    Attributes:
        model: The model.
        changes: What it says that it did.
        rung: How deep it says that the repair cuts.
    """

    model: nn.Module
    changes: Sequence[str] = ()
    rung: int = 0

    def tells(self, name: str) -> bool:
        """Say whether a layer or parameter is told of, by its whole dotted name or that of its layer.

        That it is kept excuses nothing.
        """
        return any(
            re.search(rf"(?<![\w.]){re.escape(one)}(?![\w]|\.\w)", change)
            for one in {name, name.rpartition(".")[0]} - {""}
            for change in self.changes
            if not change.endswith(" kept")
        )

    def unreached(self) -> set[str]:
        """Return the parameters of which it is told that they have no effect any more."""
        names = {
            name.strip()
            for change in self.changes
            if change.startswith(UNREACHED)
            for name in change.removeprefix(UNREACHED).split(",")
        }
        return {one for one in parameters(self.model) if any(within(one, name) for name in names)}


class Looked:
    """What a repaired model does; each thing is found out when it is asked for, and once."""

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        self._model = model
        self._inputs = inputs

    @cached_property
    def output(self) -> Any:
        """What it gives in evaluation."""
        return run(self._model, self._inputs)

    @cached_property
    def step(self) -> tuple[dict[str, Tensor | None], bool, bool]:
        """Gradients, whether a step of training moves anything, and whether the loss is finite then."""
        model = copy.deepcopy(self._model).train()
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        before = [parameter.detach().clone() for parameter in trainable]
        optimizer = torch.optim.SGD(trainable, lr=1e-3)
        loss(model, self._inputs).backward()
        found = {name: parameter.grad for name, parameter in parameters(model).items()}
        optimizer.step()
        moved = not trainable or not all(torch.equal(a, b) for a, b in zip(trainable, before, strict=True))
        return found, moved, bool(loss(model, self._inputs).isfinite())


class Judge:
    """Judges repairs of one family's model; what is known of the untouched model is found out once.

    Attributes:
        fresh: The untouched model, to be copied: it never runs, for there are models that remember what they ran on.
    """

    def __init__(self, family: Family) -> None:
        self.family = family
        self.inputs = family.example()
        self.fresh = family.build()
        self.model = model = copy.deepcopy(self.fresh)
        self.shown = tuple(structure(run(model, self.inputs, training=t)) for t in (False, True))
        self.output = floats(run(model, self.inputs))
        self.gradients = gradients(model, self.inputs)
        self.doubled = doubled_sums(model, self.inputs)
        self.other_inputs: Inputs = ()
        self.other_shown: Shown = ()
        self.tied: set[tuple[str, int, int]] = set()
        if family.batched:
            self.other_inputs = family.example(OTHER_BATCH)
            self.other_shown = structure(run(model, self.other_inputs))
            self.tied = influences(model, family, self.output)

    def faults(self, repaired: Repaired, path: str) -> list[Fault]:
        """Return what is wrong with a model without a part; an oracle that cannot finish finds a fault."""
        found: list[Fault] = []
        looked = Looked(repaired.model, self.inputs)
        for oracle in (
            self._kept, self._gone, self._outputs, self._other_batch, self._sums, self._effect, self._identity,
            self._gradients, self._independent, self._training,
        ):  # fmt: skip
            name = oracle.__name__.strip("_").replace("_", " ")
            try:
                found += [Fault(name, what) for what in oracle(repaired, path, looked)]
            except Exception as error:
                found.append(Fault(name, f"{type(error).__name__}: {str(error)[:160]}"))
        return found

    def _kept(self, repaired: Repaired, path: str, looked: Looked) -> Iterator[str]:
        """All that is not the part's is there, to the bit, and nothing else."""
        before, after = state(self.fresh), state(repaired.model)
        left = {name: tensor for name, tensor in before.items() if not within(name, path)}
        new: dict[int, int] = {}
        for name, tensor in left.items():
            names = [other for other, one in before.items() if one is tensor]
            told = any(repaired.tells(one) for one in names)
            if name not in after:
                if not told and not any(within(one, path) for one in names):
                    yield f"{name} is lost"
            elif after[name].shape != tensor.shape or not torch.equal(after[name], tensor):
                built = isinstance(after[name], nn.Parameter) and not is_cut(after[name], tensor)
                new[id(after[name])] = after[name].numel() if built else 0
                if not told:
                    yield f"{name} is changed"
        rest = sum(parameter.numel() for parameter in repaired.model.parameters())
        if sum(new.values()) > MOST_REBUILT * max(1, rest):
            yield f"{100 * sum(new.values()) / rest:.1f} % of what remains is built anew"
        for name in saved(repaired.model) - before.keys() - self._stayed(repaired, path):
            yield f"{name} is new"
        tied = [(a, b) for a in left for b in left if a < b and left[a] is left[b]]
        for a, b in tied:
            if a in after and b in after and after[a] is not after[b]:
                yield f"{a} and {b} are no longer shared"

    def _stayed(self, repaired: Repaired, path: str) -> set[str]:
        """Return weights that the part made of others, and that stay as they were: told, and the same to the bit."""
        after, found = state(repaired.model), set[str]()
        new = after.keys() - state(self.fresh).keys()
        if not new:
            return found
        untouched = copy.deepcopy(self.fresh).eval()
        for name in new:
            layer, _, weight = name.rpartition(".")
            made = getattr(untouched.get_submodule(layer), weight, None) if within(path, layer) or not layer else None
            if isinstance(made, Tensor) and repaired.tells(name) and torch.equal(made, after[name]):
                found.add(name)
        return found

    def _gone(self, repaired: Repaired, path: str, looked: Looked) -> Iterator[str]:
        """Nothing of the part is there."""
        for name in sorted(saved(repaired.model)):
            if within(name, path):
                yield f"{name} is still there"

    def _outputs(self, repaired: Repaired, path: str, looked: Looked) -> Iterator[str]:
        """The model gives what it gave, in structure and shape, and it is finite."""
        for training, shown in zip((False, True), self.shown, strict=True):
            output = run(repaired.model, self.inputs, training=True) if training else looked.output
            if structure(output) != shown:
                yield f"{'training' if training else 'evaluation'} gives {differing(structure(output), shown)}"
            before = self.output if not training else {}
            for where, one in floats(output).items():
                if not one.isfinite().all() and (where not in before or before[where].isfinite().all()):
                    yield f"{where or 'the output'} is not finite"

    def _other_batch(self, repaired: Repaired, path: str, looked: Looked) -> Iterator[str]:
        """Another batch size gives what it gave."""
        if self.family.batched:
            found = structure(run(repaired.model, self.other_inputs))
            if found != self.other_shown:
                yield f"gives {differing(found, self.other_shown)}"

    def _sums(self, repaired: Repaired, path: str, looked: Looked) -> Iterator[str]:
        """No summand is doubled that was not."""
        model = repaired.model.eval()
        if doubled_sums(model, self.inputs) - self.doubled:
            kept = behind(self.model, path, self.inputs)
            for where in sorted(doubled_sums(model, self.inputs, kept) - self.doubled):
                yield f"{where} adds something to itself"

    def _effect(self, repaired: Repaired, path: str, looked: Looked) -> Iterator[str]:
        """If other weights in the part change the output, so does its removal."""
        if not equal(floats(looked.output), self.output) or self._stayed(repaired, path):
            return
        if not self._gives_the_same(repaired.model):
            return
        if not self._gives_the_same(stirred(self.fresh, path)):
            yield "the output is the same as with it"

    def _gives_the_same(self, model: nn.Module) -> bool:
        """Say whether a model gives what the untouched one gives, in double precision where both can.

        Where weights are small, each layer leaves less of what an early one did, and single precision does not tell.
        """
        models = (model, self.fresh)
        try:
            one, other = (floats(run(copy.deepcopy(each).double(), double(self.inputs))) for each in models)
        except RuntimeError:  # it is made for single precision
            return equal(floats(run(copy.deepcopy(model), self.inputs)), self.output)
        return equal(one, other, SOME)

    def _identity(self, repaired: Repaired, path: str, looked: Looked) -> Iterator[str]:
        """On rung 1, a part with one input and one output of its shape: the untouched model, its output overridden."""
        if repaired.rung != 1:
            return
        entered, plain = list[Tensor](), list[bool]()

        def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
            read = list(floats((args, kwargs)).values())
            plain.append(len(read) == 1)
            entered[:] = [one.clone() for one in read]  # it may be changed in place

        def leave(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
            plain.append(isinstance(output, Tensor) and len(entered) == 1 and output.shape == entered[0].shape)
            return entered[0] if all(plain) else None

        part = self.model.get_submodule(path)
        with (
            part.register_forward_pre_hook(enter, with_kwargs=True),
            # before the model's own hooks: one that collects hidden states has to collect what stands in
            part.register_forward_hook(leave, with_kwargs=True, prepend=True),
        ):
            wanted = floats(run(self.model, self.inputs))
        found = floats(looked.output)
        if plain and all(plain) and not all(near(found[where], one, 1e-5) for where, one in wanted.items()):
            yield "the output is not that of the untouched model with what went in instead of what came out"

    def _gradients(self, repaired: Repaired, path: str, looked: Looked) -> Iterator[str]:
        """All that remains and had a gradient has one, unless it only led to the part and that is told."""
        found, _, _ = looked.step
        told = repaired.unreached()
        for name, had in self.gradients.items():
            if had is not None and name in found and found[name] is None and name not in told:
                yield f"{name} has none"
        for name in sorted(told & found.keys()):
            if found[name] is not None:
                yield f"{name} is told to be no longer reached, and has one"
        if any(self.gradients.get(name) is not None for name in told):
            only = leading_to(self.model, path, self.inputs)
            for name in sorted(told - only):
                if self.gradients.get(name) is not None:
                    yield f"{name} did not lead to the part alone, and is no longer reached"

    def _independent(self, repaired: Repaired, path: str, looked: Looked) -> Iterator[str]:
        """An example's output does not depend on another example."""
        if self.family.batched:
            found = influences(repaired.model, self.family, floats(looked.output))
            if found - self.tied:  # which example it is that changes others may be another one without the part
                strong = influences(repaired.model, self.family, floats(looked.output), limit=WEAK)
                found = {one for one in found if one in strong or one[0] not in self.mixed}
            for where, one, other in sorted(found - self.tied):
                yield f"example {one} changes {where or 'the output'} of example {other}"

    @cached_property
    def mixed(self) -> set[str]:
        """What of the untouched model's output depends on other examples at all, in double precision.

        A largest number of a batch, for instance, is that of one example, and the others depend on it: which one it
        is, and how much comes of it, changes with the weights.
        """
        model = copy.deepcopy(self.fresh).double()
        try:
            base = floats(run(model, double(self.family.example())))
            found = [
                influences(model, self.family, base, limit=SOME, seed=SEED + nth, of=double) for nth in range(2, 5)
            ]
        except RuntimeError:  # it is made for single precision
            return set()
        return {where for each in found for where, _, _ in each}

    def _training(self, repaired: Repaired, path: str, looked: Looked) -> Iterator[str]:
        """A step of training changes weights, and the model runs on."""
        _, moved, finite = looked.step
        if not moved:
            yield "no weight moves"
        if not finite:
            yield "the loss is not finite"


def run(model: nn.Module, inputs: Inputs, *, training: bool = False) -> Any:
    """Return what a model gives; in training, what a copy gives, since running statistics change."""
    used = copy.deepcopy(model).train() if training else model.eval()
    torch.manual_seed(SEED)
    with torch.no_grad():
        return call(used, copy.deepcopy(inputs))


def is_cut(after: Tensor, before: Tensor) -> bool:
    """Say whether a tensor is another one without some of its rows or columns, those left being the same to the bit."""
    axes = [axis for axis, (a, b) in enumerate(zip(after.shape, before.shape, strict=False)) if a != b]
    if after.ndim != before.ndim or len(axes) != 1 or after.shape[axes[0]] > before.shape[axes[0]]:
        return False
    left = iter(before.unbind(axes[0]))
    return all(any(torch.equal(one, other) for other in left) for one in after.unbind(axes[0]))


def state(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by all of their names."""
    return {**parameters(model), **dict(model.named_buffers(remove_duplicate=False))}


def saved(model: nn.Module) -> set[str]:
    """Return names of parameters, and of all that is saved with a model."""
    return {*parameters(model), *model.state_dict()}


def loss(model: nn.Module, inputs: Inputs) -> Tensor:
    """Return how far a model's output is from some fixed numbers."""
    torch.manual_seed(SEED)
    output = floats(call(model, copy.deepcopy(inputs)))
    generator = torch.Generator().manual_seed(SEED)
    parts = [((one - torch.randn(one.shape, generator=generator)) ** 2).mean() for one in output.values()]
    return torch.stack(parts).sum()


def gradients(model: nn.Module, inputs: Inputs) -> dict[str, Tensor | None]:
    """Return the gradient of each parameter in training; None where there is none."""
    used = copy.deepcopy(model).train()
    loss(used, inputs).backward()
    return {name: parameter.grad for name, parameter in parameters(used).items()}


def leading_to(model: nn.Module, path: str, inputs: Inputs) -> set[str]:
    """Return the parameters that only lead to a part: without a gradient where none goes back through it."""
    used = copy.deepcopy(model).train()
    for name, module in used.named_modules():
        if within(name, path):
            module.register_forward_hook(lambda module, args, output: _detached(output))
    value = loss(used, inputs)
    if value.requires_grad:
        value.backward()
    return {name for name, parameter in parameters(used).items() if parameter.grad is None}


def _detached(value: Any) -> Any:
    """Return an output through which no gradient goes; what is no plain container of tensors stays as it is."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, dict):
        made = copy.copy(value)
        for key, one in value.items():
            made[key] = _detached(one)
        return made
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_detached(one) for one in value)
    return value


def influences(
    model: nn.Module,
    family: Family,
    base: dict[str, Tensor],
    *,
    limit: float = CLOSE,
    seed: int = SEED + 2,
    of: Callable[[Inputs], Inputs] = lambda inputs: inputs,
) -> set[tuple[str, int, int]]:
    """Return which example of a batch changes what the model gives for which other.

    Args:
        model: The model.
        family: Whose inputs it reads.
        base: What it gives for all of them.
        limit: What differs by no more than this share is the same.
        seed: Of the examples that take the place of others.
        of: What is made of inputs before they are used.
    """
    inputs = of(family.example())
    size = next(iter(tensors(inputs).values())).shape[0]
    others = tensors(of(family.example(seed=seed)))
    found = set()
    for one in (0, size - 1):
        changed = copy.deepcopy(inputs)  # one example is that of another batch
        for where, tensor in tensors(changed).items():
            if where.strip(".") not in family.shared:
                tensor[one] = others[where][one]
        for where, output in floats(run(model, changed)).items():
            axis = next((k for k, length in enumerate(output.shape) if length == size), None)
            if axis is None or where not in base or base[where].shape != output.shape:
                continue
            for other in set(range(size)) - {one}:
                if not near(output.select(axis, other), base[where].select(axis, other), limit):
                    found.add((where, one, other))
    return found


def double(inputs: Inputs) -> Inputs:
    """Return inputs whose numbers are in double precision."""

    def wide(value: Any) -> Any:
        return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value

    if isinstance(inputs, dict):
        return {name: wide(value) for name, value in inputs.items()}
    return tuple(wide(value) for value in inputs)


def equal(one: dict[str, Tensor], other: dict[str, Tensor], limit: float = 1e-7) -> bool:
    """Say whether two outputs are the same, up to a share of the largest number in each."""
    return one.keys() == other.keys() and all(near(one[where], other[where], limit) for where in one)


def near(one: Tensor, other: Tensor, limit: float = CLOSE) -> bool:
    """Say whether two tensors are the same up to a share of the largest number in them."""
    if one.shape != other.shape:
        return False
    one, other = one.double().nan_to_num(0, 1e30, -1e30), other.double().nan_to_num(0, 1e30, -1e30)
    return bool((one - other).abs().max() <= limit * max(1e-12, float(other.abs().max()))) if one.numel() else True


def differing(found: Shown, wanted: Shown) -> str:
    """Tell the first difference of two structures."""
    for one, other in zip(found, wanted, strict=False):
        if one != other:
            return f"{' '.join(one)} instead of {' '.join(other)}"
    return f"{len(found)} values instead of {len(wanted)}"
