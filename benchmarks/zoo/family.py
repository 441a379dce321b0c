"""A family of models: how one is built, and what goes into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

BATCH: Final = 3
"""Examples in a batch. It differs from every other size of every model, so that no wrong axis fits by luck."""
OTHER_BATCH: Final = 5
SEED: Final = 20261122

Inputs = tuple[Any, ...] | dict[str, Any]
"""What a model is called with: arguments in order, or by name."""


@dataclass(frozen=True)
class Family:
    """A family of models.

    Attributes:
        name: What it is called in tables.
        kind: What its models read: images, text, sound, several of them, graphs, numbers.
        make: Makes a model; its weights are drawn from torch's global generator. What is passed are sizes of its own,
            where it can have others.
        inputs: Makes inputs from a number of examples; drawn from the same generator.
        batched: Whether the first axis of the inputs holds examples, of which there can be another number. Of a graph,
            those are its nodes, which depend on each other; a repair must not make more of them do so.
        shared: Names of inputs that all examples have in common, or such as ``[1]`` by place.
    """

    name: str
    kind: str
    make: Callable[..., nn.Module]
    inputs: Callable[[int], Inputs]
    batched: bool = True
    shared: tuple[str, ...] = ()

    def build(self, seed: int = SEED) -> nn.Module:
        """Return a model in which nothing is at its neutral value, so that nothing can go unnoticed.

        Fresh norms do little, and fresh biases nothing: a wrong repair of those would look right.
        """
        torch.manual_seed(seed)
        model = self.make()
        with torch.no_grad():
            for tensor in model.parameters():
                if tensor.is_floating_point():
                    tensor.add_(0.05 * torch.randn_like(tensor))
            for module in model.modules():
                mean, variance = getattr(module, "running_mean", None), getattr(module, "running_var", None)
                if isinstance(mean, Tensor) and isinstance(variance, Tensor):
                    mean.add_(0.1 * torch.randn_like(mean))
                    variance.mul_(1 + 0.3 * torch.rand_like(variance))
        return model.eval()

    def resize(self, **sizes: Any) -> nn.Module:
        """Return a fresh model of other sizes."""
        return self.make(**sizes)

    def example(self, batch: int = BATCH, seed: int = SEED + 1) -> Inputs:
        """Return inputs of a batch."""
        torch.manual_seed(seed)
        return self.inputs(batch)


def call(model: nn.Module, inputs: Inputs) -> Any:
    """Run a model on inputs."""
    return model(**inputs) if isinstance(inputs, Mapping) else model(*inputs)
