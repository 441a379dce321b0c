"""The loss of each example, where a loss function gives one number for a whole batch.

It is the loss's own ``reduction="none"``, on a shallow copy, so that class weights, label smoothing and ignored indices
count as they do for the user.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, Literal, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

from etude.core.errors import ConfigError
from etude.core.text import brief
from etude.frameworks.coats import plain_class
from etude.frameworks.torch import random_state, restore_random_state

Classes = Literal["softmax", "sigmoid", "given", "guess"]
"""How scores become probabilities: one class of several, each label by itself, as they are; or by the look of them."""

IGNORED: Final = -100
"""What torch's own functions ignore unless told otherwise."""

SUMS: Final = ("sum", "batchmean")


class Kind(NamedTuple):
    """What is known of a loss.

    Attributes:
        classes: How it sees classes; None if it has none.
        later: Whether it takes scores and targets of examples that know nothing of each other, and draws nothing, so
            that it can be computed for several steps at once, when there is time.
    """

    classes: Classes | None = None
    later: bool = False


ONE_OF_SEVERAL: Final = Kind("softmax", later=True)
REGRESSION: Final = Kind(None, later=True)
OTHER: Final = Kind(None, later=False)
OWN: Final = Kind("guess", later=False)

KINDS: Final[Mapping[Any, Kind]] = {
    nn.CrossEntropyLoss: ONE_OF_SEVERAL,
    F.cross_entropy: ONE_OF_SEVERAL,
    nn.NLLLoss: ONE_OF_SEVERAL,  # the softmax of logarithms of probabilities is these probabilities
    F.nll_loss: ONE_OF_SEVERAL,
    nn.BCEWithLogitsLoss: Kind("sigmoid", later=True),
    F.binary_cross_entropy_with_logits: Kind("sigmoid", later=True),
    nn.BCELoss: Kind("given", later=True),
    F.binary_cross_entropy: Kind("given", later=True),
    nn.MSELoss: REGRESSION,
    F.mse_loss: REGRESSION,
    nn.L1Loss: REGRESSION,
    F.l1_loss: REGRESSION,
    nn.SmoothL1Loss: REGRESSION,
    F.smooth_l1_loss: REGRESSION,
    nn.HuberLoss: REGRESSION,
    F.huber_loss: REGRESSION,
}


@dataclass(frozen=True, eq=False)
class Form:
    """How a loss gives one number for each example.

    Attributes:
        name: What it is called in messages.
        unreduced: Called as the loss is, gives one number or several for each example.
        kind: What is known of it.
        settings: Of a module, what it was made with; of a function, nothing.
    """

    name: str
    unreduced: Callable[..., Any]
    kind: Kind
    settings: Any = None

    def sums(self, kwargs: Mapping[str, Any]) -> bool:
        """Say whether the user's loss adds up what an example has several of."""
        return kwargs.get("reduction", getattr(self.settings, "reduction", "mean")) in SUMS

    def ignored(self, kwargs: Mapping[str, Any]) -> int:
        """Return the class that does not count."""
        return int(kwargs.get("ignore_index", getattr(self.settings, "ignore_index", IGNORED)))

    def can_be_joined(self, args: tuple[torch.Tensor, torch.Tensor], kwargs: Mapping[str, Any]) -> bool:
        """Say whether this call can be computed together with others: its rows know nothing of each other."""
        scores, targets = args
        if self.kind.classes == "softmax":
            return scores.dim() > 1
        alone = getattr(self.settings, "weight", None) is None and kwargs.get("weight") is None
        return alone and scores.shape == targets.shape  # weights of the batch's examples, and broadcasts, are no rows


PAIR: Final = ("input", "target")
"""What calls may name; all other names are settings."""


def pair(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the scores and the targets of a call; None for what is not there."""
    scores = args[0] if args else kwargs.get("input")
    return scores, args[1] if len(args) > 1 else kwargs.get("target")


def form_of(loss: Any, per_example: Callable[..., Any] | None = None) -> Form:
    """Return how a loss gives one number for each example.

    Args:
        loss: The user's.
        per_example: The user's own way: called as the loss is, returns one number for each example.

    Raises:
        ConfigError: There is no way.
    """
    cls = plain_class(loss)
    name = cls.__name__ if isinstance(loss, nn.Module) else getattr(loss, "__name__", cls.__name__)
    kind: Kind
    if per_example is not None:
        if not callable(per_example):
            raise ConfigError(
                f"per_example={brief(per_example)} cannot be called. Pass a function that takes what {name} takes, "
                "and returns one number for each example."
            )
        return Form(name, _alone(per_example, loss), OWN)
    if isinstance(getattr(loss, "reduction", None), str):
        kind = KINDS.get(cls) or (OTHER if cls.__module__.startswith("torch.nn.") else OWN)
        unreduced = _twin(loss)
        return Form(name, unreduced if kind is not OWN else _alone(unreduced, loss), kind, loss)
    if callable(loss) and _takes_reduction(loss):
        partly = isinstance(loss, functools.partial) and not loss.args
        function = loss.func if partly else loss
        kind = KINDS.get(function) or (OTHER if getattr(function, "__module__", "").startswith("torch.nn.") else OWN)
        settings = SimpleNamespace(**loss.keywords) if partly else None
        return Form(name, _told(loss) if kind is not OWN else _alone(_told(loss), loss), kind, settings)
    raise ConfigError(
        f"The criterion {name} gives one number for a batch, and has no reduction='none' that would give one for each "
        "example. Say how: run.criterion(loss, per_example=function). The function takes what the loss takes, and "
        "returns one number for each example."
    )


def _takes_reduction(function: Any) -> bool:
    try:
        return "reduction" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # it does not say what it takes
        return False


def _twin(loss: Any) -> Callable[..., Any]:
    cls = plain_class(loss)

    def unreduced(*args: Any, **kwargs: Any) -> Any:
        twin = _shallow(loss, cls)  # what the user changes in the loss counts here too, and hooks of it are not called
        twin.reduction = "none"
        return cls.forward(twin, *args, **kwargs) if isinstance(loss, nn.Module) else twin(*args, **kwargs)

    return unreduced


def _shallow(loss: Any, cls: type[Any]) -> Any:
    """Return a shallow copy; of a module without a way of its own in a tenth of the time that ``copy`` takes for it."""
    if not isinstance(loss, nn.Module) or hasattr(cls, "__copy__"):
        return copy.copy(loss)
    twin = object.__new__(cls)
    vars(twin).update(vars(loss))
    return twin


def _told(loss: Any) -> Callable[..., Any]:
    def unreduced(*args: Any, **kwargs: Any) -> Any:
        return loss(*args, **{**kwargs, "reduction": "none"})

    return unreduced


def _alone(unreduced: Callable[..., Any], loss: Any) -> Callable[..., Any]:
    """Have a user's code, which is called once more than it knows of, change nothing that the training sees."""

    def untouched(*args: Any, **kwargs: Any) -> Any:
        with _as_before(loss):
            return unreduced(*args, **kwargs)

    return untouched


@contextlib.contextmanager
def _as_before(loss: Any) -> Iterator[None]:
    buffers = list(loss.buffers()) if isinstance(loss, nn.Module) else []
    kept, random = [(buffer, buffer.clone(), buffer._version) for buffer in buffers], random_state()
    try:
        yield
    finally:
        restore_random_state(random)
        for buffer, value, version in kept:
            if buffer._version != version:  # else nothing may touch it: backward may want it as it is
                buffer.copy_(value)
