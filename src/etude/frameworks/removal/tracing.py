"""A model's runs that a plan is made from: in training and in evaluation, with two numbers of examples."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import nn

from etude.core.errors import RemovalRefused
from etude.frameworks.removal.apply import for_a_try
from etude.frameworks.removal.edits import Edit
from etude.frameworks.removal.fake import Copy, batch_of
from etude.frameworks.removal.flow import Flow
from etude.frameworks.removal.joins import Joins
from etude.frameworks.removal.meaning import Meaning
from etude.frameworks.removal.nested import tensors
from etude.frameworks.removal.sources import Sources
from etude.frameworks.removal.trace import Recorder, Trace, watched
from etude.frameworks.removal.unrun import said, unrun

BATCHES: Final = (7, 11, 13, 17, 19, 23, 29, 31, 5, 3)
"""Numbers of examples to choose from: no other axis has that many, so that none is taken for another by luck."""
SMALL: Final = (3, 5, 2, 4)
"""Likewise, where something is computed."""


class Mode:
    """One run, and what can be read from it.

    Attributes:
        trace: What happened.
        flow: What depends on what.
        joins: Where values meet.
        sources: Which layers speak in values.
        meaning: What axes mean.
        train: Whether the model was training.
    """

    def __init__(self, trace: Trace, meaning: Meaning, *, train: bool) -> None:
        self.trace, self.meaning, self.train = trace, meaning, train
        self.flow = Flow(trace)
        self.joins = Joins(self.flow)
        self.sources = Sources(self.flow)


def different(modes: Sequence[Mode]) -> list[Mode]:
    """Return the runs in which different things are done: what fits in one of those that are alike fits in all."""
    found: dict[Any, Mode] = {tuple((op.name, op.key) for op in mode.trace.ops): mode for mode in modes}
    return list(found.values())


class Runs:
    """A copy of a model, and runs of it.

    Args:
        model: The model; it is not touched.
        args: Its inputs.
        kwargs: Likewise.
        without_fakes: Why fake tensors do not do, if that is known already.

    Raises:
        RemovalRefused: It does not run.
    """

    def __init__(
        self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, without_fakes: str = ""
    ) -> None:
        self.notes: list[str] = []
        failures: list[str] = [without_fakes] if without_fakes else []
        last: Exception | None = None
        ways = ((True, True), (True, False), (False, True), (False, False))
        for fake, free in ways[2:] if without_fakes else ways:
            try:
                self.copy = Copy(model, args, kwargs, fake=fake)
                self.batch: int | None = None
                self.other: int | None = None
                if free:
                    self.batch, self.other = _batches(model, args, kwargs, fake=fake)
                self.modes = self._record()
            except RemovalRefused:
                raise
            except Exception as broken:
                failures.append(said(broken))
                last = broken
                continue
            self.fake = fake
            if not fake:
                self.notes.append(f"planned on a real copy, since fake tensors do not do: {failures[0]}")
            if not free:
                self.notes.append("the model runs with the example's number of examples only")
            return
        assert last is not None
        raise unrun(last, (args, kwargs)) from None

    def again(self) -> list[Mode]:
        """Run the copy as it is now, and return what happened."""
        return self._record()

    def run(self, *, train: bool) -> Any:
        """Run the copy without writing it down."""
        return self.copy.run(self.batch, train=train)

    @contextmanager
    def trying(self) -> Iterator[Callable[[Iterable[Edit]], list[str]]]:
        """Give a function that carries out edits on the copy, and undo them in the end."""
        with self.copy.at_work(), for_a_try(self.copy.model) as carry:
            yield carry

    def _record(self) -> list[Mode]:
        evaluation, training = self.traced(train=False), self.traced(train=True)
        other = self._with_others(train=False)
        first = Mode(evaluation, Meaning(evaluation, self._size, other, self.other or 0), train=False)
        if [call.path for call in evaluation.calls] != [call.path for call in training.calls]:
            other = self._with_others(train=True)
        return [first, Mode(training, Meaning(training, self._size, other, self.other or 0), train=True)]

    def _with_others(self, *, train: bool) -> Trace | None:
        """Run the copy with another number of examples, if it can be."""
        return self._traced(self.other, train=train) if self.other is not None else None

    def traced(self, *, train: bool) -> Trace:
        """Run the copy as it is now, and return what happened."""
        return self._traced(self.batch, train=train)

    @property
    def _size(self) -> int:
        return self.batch if self.batch is not None else batch_of(self.copy._args, self.copy._kwargs)

    def _traced(self, batch: int | None, *, train: bool) -> Trace:
        self.copy.model.train(train)
        args, kwargs = self.copy.inputs(batch)
        with self.copy.at_work(), torch.enable_grad():
            recorder = Recorder(self.copy.model)
            with watched(self.copy.model, recorder), recorder:
                self.copy.model(*args, **kwargs)
        return recorder.trace


def _batches(model: nn.Module, args: Any, kwargs: Any, *, fake: bool) -> tuple[int, int]:
    taken = {size for _, t in tensors((args, kwargs)) for size in t.shape[1:]}
    if fake:
        taken |= {size for p in model.parameters() for size in p.shape}
    free = [n for n in itertools.chain(BATCHES if fake else SMALL, range(37, 200)) if n not in taken]
    return free[0], free[1]


def forward_of(models: dict[str, nn.Module]) -> nn.Module:
    """Return several models as one, each of which is run with its own example."""
    return _Several(models)


class _Several(nn.Module):
    """Models by name: a generator and a discriminator, for instance."""

    def __init__(self, models: dict[str, nn.Module]) -> None:
        super().__init__()
        for name, model in models.items():
            self.add_module(name, model)

    def forward(self, **examples: Any) -> dict[str, Any]:
        """Run each with its example."""
        return {name: called(self.get_submodule(name), example) for name, example in examples.items()}


def called(model: Callable[..., Any], example: Any) -> Any:
    """Call a model with an example: a tensor, a tuple of arguments, or a dict of them by name."""
    args, kwargs = arguments(example)
    return model(*args, **kwargs)


def arguments(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return an example as arguments of a call."""
    if isinstance(example, tuple | list):
        return tuple(example), {}
    if hasattr(example, "items"):
        return (), dict(example.items())
    return (example,), {}
