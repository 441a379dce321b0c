"""The layers of a model, as one run of it shows them: what could be taken out, and when each is called."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from torch import nn

from etude.frameworks.removal.trace import Call, Trace
from etude.frameworks.removal.tracing import Runs, arguments

HEADS: Final = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead")
"""What modules call the number of their heads."""


class LayerSeen(NamedTuple):
    """A layer or a block.

    Attributes:
        path: Its dotted path.
        type: The name of its class.
        parameters: How many numbers it trains; a tensor that is used twice counts once.
        depth: How many blocks it stands in.
        heads: How many heads it has; None if it has none.
        units: How many units it has; None if it is no dense layer.
        filters: How many filters it has; None if it is no convolution.
        called: When its calls end, in the order in which all calls do.
        takes_integers: Whether it is given nothing but integers, which nothing else can stand for.
        gives_output: Whether it learns, and gives what the model gives, as it is.
    """

    path: str
    type: str
    parameters: int
    depth: int
    heads: int | None
    units: int | None
    filters: int | None
    called: tuple[int, ...]
    takes_integers: bool
    gives_output: bool


def layers_of(model: nn.Module, example: Any) -> list[LayerSeen]:
    """Return the layers of a model, in the order in which it was built.

    Args:
        model: The model; it is not touched.
        example: What it is called with: a tensor, a tuple of arguments, or a dict of them by name.

    Raises:
        RemovalRefused: It does not run with that.
    """
    runs = Runs(model, *arguments(example))
    trace = runs.modes[-1].trace
    order = sorted(trace.calls, key=lambda call: (call.end, -call.n))
    when = {call.n: nth for nth, call in enumerate(order)}
    return [_seen(path, module, trace, when) for path, module in model.named_modules() if path]


def in_tree(model: nn.Module) -> list[LayerSeen]:
    """Return the layers of a model without running it, so that nobody knows when they are called."""
    nothing = Trace([], [], [], {})
    return [_seen(path, module, nothing, {}) for path, module in model.named_modules() if path]


def _seen(path: str, module: nn.Module, trace: Trace, when: dict[int, int]) -> LayerSeen:
    calls = trace.of(path)
    is_leaf, learns = not list(module.children()), next(module.parameters(), None) is not None
    return LayerSeen(
        path,
        type(module).__name__,
        sum(parameter.numel() for parameter in module.parameters()),
        path.count("."),
        next((n for name in HEADS if isinstance(n := getattr(module, name, None), int)), None),
        _number(module, "out_features"),
        _number(module, "out_channels"),
        tuple(sorted(when[call.n] for call in calls)),
        bool(calls) and is_leaf and all(_is_of_integers(call, trace) for call in calls),
        bool(calls) and is_leaf and learns and _gives_output(calls, trace),
    )


def _number(module: nn.Module, name: str) -> int | None:
    found = getattr(module, name, None)
    return found if isinstance(found, int) and not list(module.children()) else None


def _is_of_integers(call: Call, trace: Trace) -> bool:
    return bool(call.inputs) and not any(trace.values[n].is_float for n in call.inputs.values())


def _gives_output(calls: list[Call], trace: Trace) -> bool:
    given = {n for call in calls for n in call.outputs.values()}
    return bool(given & set(trace.calls[0].outputs.values()))
