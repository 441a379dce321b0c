"""Keras 3 on its torch backend, trained by several ranks.

Its models are modules, and its ``fit`` calls ``loss.backward()``, so gradients are averaged as those of any module.
But all its variables are parameters of torch: what is not trained stands for buffers, and seeds are whole numbers that
count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import torch
from torch import nn

from etude.core.errors import ConfigError

VARIABLES: Final = "_torch_params"
"""Where a layer has its variables as parameters."""

SEED: Final = "seed_generator_state"
APART: Final = 0x9E3779B1
"""What lies between the seeds of two ranks."""


class Variable(NamedTuple):
    """A variable that no gradient changes: running statistics, a frozen weight, or a seed.

    Attributes:
        holder: The module that has it as a parameter.
        key: Its name there.
        name: Its name in the model.
        tensor: What it holds.
    """

    holder: nn.Module
    key: str
    name: str
    tensor: torch.Tensor

    @property
    def is_seed(self) -> bool:
        """Whether it is a seed, which is each rank's own."""
        return self.key.rpartition("/")[2] == SEED and not self.tensor.is_floating_point()


def untrained(module: nn.Module, *, prefix: str = "") -> Iterator[Variable]:
    """Yield the variables of Keras layers in a module that no gradient changes; nothing in a module of torch's own."""
    if "keras" not in sys.modules:
        return
    seen: set[int] = set()
    for name, part in module.named_modules(prefix=prefix):
        if name.rpartition(".")[2] == VARIABLES:
            for key, parameter in part._parameters.items():
                if parameter is not None and not parameter.requires_grad and id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield Variable(part, key, f"{name}.{key}", parameter)


def draw_apart(module: nn.Module, rank: int, own: dict[int, int]) -> None:
    """Let a rank draw otherwise than rank 0: its dropout is for other examples.

    Args:
        module: Its seeds are those of rank 0, which made it or whose state it was given, or this rank's own by now.
        rank: Which rank this is.
        own: By the seed's id what it was set to; it is kept up to date.
    """
    with torch.no_grad():
        for variable in untrained(module):
            first = variable.tensor.view(-1)[0] if variable.is_seed else None
            if first is not None and int(first) != own.get(id(variable.tensor)):
                first.fill_((int(first) + rank * APART) & 0x7FFFFFFF)
                own[id(variable.tensor)] = int(first)


def is_keras(module: nn.Module) -> bool:
    """Whether a module is a layer or a model of Keras."""
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(module, keras.layers.Layer)


class FitGuard:
    """Looks at what a model's ``fit`` is called with, from now on until ``remove``.

    Args:
        model: Of Keras.
        is_divided: Whether a loader gives this rank's part of batches.
        watched: Whether something wants to know what the criterion sees of each example.

    Raises:
        ConfigError: The model has no variables yet.
    """

    def __init__(self, model: Any, *, is_divided: Callable[[Any], bool], watched: Callable[[], bool]) -> None:
        if not model.built:
            raise ConfigError(
                f"model() returned a {type(model).__name__} of Keras that is not built: it has no weights yet whose "
                "gradients could be averaged. Let it begin with keras.Input(shape=...), or call its build(input_shape)."
            )
        self._model = model
        if not hasattr(model, "fit"):
            return

        def fit(*args: Any, **options: Any) -> Any:
            _check(args[0] if args else options.get("x"), is_divided=is_divided, watched=watched())
            return type(model).fit(model, *args, **options)

        vars(model)["fit"] = fit  # past Keras, which would take it for a part of the model

    def remove(self) -> None:
        """Leave the model as it was."""
        vars(self._model).pop("fit", None)


def _check(x: Any, *, is_divided: Callable[[Any], bool], watched: bool) -> None:
    """Refuse what would train wrongly without a word."""
    if watched:
        raise ConfigError(
            "Keras's fit cannot be with a partition by importance: it computes its loss where run.criterion does not "
            "see it. Write the loop yourself, with criterion = run.criterion(...); or take a partition that goes by no "
            "measure, such as partition=etude.partitions.Random()."
        )
    if is_divided(x):
        return
    loader = isinstance(x, torch.utils.data.DataLoader)
    what = "a DataLoader that data() did not give" if loader else f"{type(x).__name__} objects"
    mend = (
        "Return it from data(), and pass what data() gives."
        if loader
        else "Return DataLoader(TensorDataset(x, y), batch_size=..., shuffle=True) from data(), and pass that to fit."
    )
    raise ConfigError(
        f"Keras's fit was called with {what}, and only loaders that data() gives for training are divided over ranks: "
        f"each rank would train on all examples. {mend}"
    )
