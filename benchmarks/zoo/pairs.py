"""Pairs of a model and a part of it, and what can be asked of whoever takes the part out.

Nothing here knows a remover: classes come from the untouched model and from putting ``nn.Identity`` blindly into the
part's place.

- *dead*: never called, nothing of it is used, and the model runs with something empty in its place. To take it out
  changes nothing.
- *edge*: reads whole numbers and gives others, or gives what the model gives in another shape than it got (the head),
  or holds more than 90 % of the parameters.
- *must run*: all else.

A pair is *hard* if blind identity does not run, gives another structure, or doubles a summand (see ``sums``).
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from benchmarks.zoo.family import Family, Inputs, call
from benchmarks.zoo.sums import doubled_sums
from benchmarks.zoo.values import floats, parameters, structure, tensors, within

WRAPPER: Final = 0.9
"""A part with a larger share of the parameters is the model, more or less."""
MUST, EDGE, DEAD = "must run", "edge", "dead"


@dataclass(frozen=True)
class Pair:
    """A part of a model.

    Attributes:
        path: Its dotted path.
        type: Name of its class.
        part: Its class: must run, edge or dead.
        hard: Whether identity does not do.
        blind: What became of identity: ``runs``, ``raises``, ``shape`` or ``doubled``.
        why: Why it is an edge or dead; empty for what must run.
    """

    path: str
    type: str
    part: str
    hard: bool
    blind: str
    why: str = ""


def pairs(family: Family, most: int = 1_000_000) -> list[Pair]:
    """Return all parts of a family's model, or so many of them: every leaf and every block, without the model itself.

    Those of a smaller number are the same ones for everybody.
    """
    model, inputs = family.build(), family.example()
    paths = [path for path, _ in model.named_modules() if path]
    drawn = set(random.Random(family.name).sample(paths, min(most, len(paths))))
    seen = Seen(model, inputs)
    already = doubled_sums(model, inputs)
    every = max(1, sum(parameter.numel() for parameter in model.parameters()))
    found = []
    for path, module in model.named_modules():
        if path not in drawn:
            continue
        part, why = MUST, ""
        if not seen.used(path) and _replaced(model, path, _empty(module), inputs) == seen.structure:
            part, why = DEAD, "never used"
        elif sum(parameter.numel() for parameter in module.parameters()) > WRAPPER * every:
            part, why = EDGE, "wrapper"
        elif seen.reads_integers(path):
            part, why = EDGE, "integers"
        elif seen.is_head(path):
            part, why = EDGE, "head"
        blind = _blind(model, path, inputs, seen.structure, already) if part != DEAD else "runs"
        found.append(Pair(path, type(module).__name__, part, blind != "runs", blind, why))
    return found


@dataclass
class _Call:
    """What was seen of a module's calls, in evaluation and in training."""

    reads: list[Tensor]
    gives: list[Tensor]


class Seen:
    """What an untouched model does, in evaluation and in training."""

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        self._calls: dict[str, list[_Call]] = {}
        self._given: set[int] = set()
        self._kept: list[Any] = []  # what was given lives on, so that no other tensor gets its address
        inputs = copy.deepcopy(inputs)
        self._inputs = {_memory(one) for one in tensors(inputs).values() if not one.is_floating_point()}
        self._leaves = {path for path, module in model.named_modules() if not any(module.children())}
        self.structure = both(model, inputs, self)
        self._names = parameters(model)
        self._reached = _reached(model, inputs)

    def watch(self, path: str) -> Any:
        """Return a hook that notes the calls of a module."""

        def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            read = [*tensors(args).values(), *tensors(kwargs).values()]
            self._calls.setdefault(path, []).append(_Call(read, list(floats(output).values())))

        return hook

    def note(self, output: Any) -> None:
        """Note what the model gave."""
        self._kept.append(output)
        self._given.update(id(one) for one in tensors(output).values())

    def used(self, path: str) -> bool:
        """Say whether a part is called, or a parameter in it is used that no layer elsewhere is called for."""
        if self._called(path):
            return True
        for name in self._reached:
            if not within(name, path):
                continue
            tensor = self._names[name]
            others = [o for o, p in self._names.items() if p is tensor and not within(o, path)]
            if not any(other.rpartition(".")[0] in self._calls for other in others):
                return True
        return False

    def reads_integers(self, path: str) -> bool:
        """Say whether a part turns whole numbers into others, or holds what does so with an input of the model.

        A leaf whose first argument they are does so whatever else it reads, as a bag of embeddings reads weights.
        """
        own = self._calls.get(path, [])
        if any(c.reads and c.gives and not any(one.is_floating_point() for one in c.reads) for c in own):
            return True
        return any(
            c.gives and _memory(c.reads[0]) in self._inputs
            for name, calls in self._calls.items()
            if within(name, path)
            for c in calls
            if len(c.reads) == 1 or (c.reads and name in self._leaves)
        )

    def is_head(self, path: str) -> bool:
        """Say whether a part gives what the model gives, in another shape than it got."""
        return any(
            bool(self._given.intersection(id(one) for one in c.gives))
            and bool(c.reads)
            and c.reads[0].shape != c.gives[0].shape
            for c in self._calls.get(path, [])
        )

    def _called(self, path: str) -> bool:
        return any(within(name, path) for name in self._calls)


def _memory(tensor: Tensor) -> int:
    """Return where a tensor's numbers lie; a column of it lies there too."""
    return tensor.untyped_storage().data_ptr()


def both(model: nn.Module, inputs: Inputs, seen: Seen | None = None) -> tuple[Any, Any]:
    """Return the structure of what a model gives in evaluation and in training; the model stays as it is."""
    found = []
    for training in (False, True):
        # In training, running statistics change; and hooks are not to stay.
        used = model.eval() if seen is None and not training else copy.deepcopy(model).train(training)
        if seen is not None:
            for path, module in used.named_modules():
                if path:
                    module.register_forward_hook(seen.watch(path), with_kwargs=True)
        torch.manual_seed(0)
        with torch.no_grad():
            output = call(used, copy.deepcopy(inputs) if seen is None else inputs)
        if seen is not None:
            seen.note(output)
        found.append(structure(output))
    return found[0], found[1]


def _reached(model: nn.Module, inputs: Inputs) -> set[str]:
    """Return names of parameters that the output depends on."""
    trained = copy.deepcopy(model).train()
    torch.manual_seed(0)
    total = sum((one.double() ** 2).sum() for one in floats(call(trained, copy.deepcopy(inputs))).values())
    if isinstance(total, Tensor) and total.requires_grad:
        total.backward()
    return {name for name, parameter in parameters(trained).items() if parameter.grad is not None}


def _blind(model: nn.Module, path: str, inputs: Inputs, shown: Any, already: set[str]) -> str:
    """Say what becomes of a model in which identity takes a part's place."""
    found = _replaced(model, path, nn.Identity(), inputs)
    if found != shown:
        return "raises" if found is None else "shape"
    with _put(model, path, nn.Identity()):
        return "doubled" if doubled_sums(model, inputs) - already else "runs"


def _replaced(model: nn.Module, path: str, module: nn.Module, inputs: Inputs) -> Any:
    """Return the structure of what a model gives with something else in a part's place; None if it does not run."""
    with _put(model, path, module):
        try:
            return both(model, inputs)
        except Exception:
            return None


def _empty(module: nn.Module) -> nn.Module:
    return type(module)() if type(module) in (nn.ModuleList, nn.ModuleDict, nn.Sequential) else nn.Module()


@contextmanager
def _put(model: nn.Module, path: str, module: nn.Module) -> Iterator[None]:
    """Have something else in a part's place for a while."""
    parent, _, name = path.rpartition(".")
    holder, before = model.get_submodule(parent), model.get_submodule(path)
    setattr(holder, name, module)
    try:
        yield
    finally:
        setattr(holder, name, before)
