"""The layers of a model, as one run of it shows them: what could be taken out, and when each is called."""

from __future__ import annotations

from typing import Any

from torch import nn

from etude.frameworks.layer_seen import LayerSeen
from etude.frameworks.removal.heads import number_of_heads
from etude.frameworks.removal.labels import PRODUCTS
from etude.frameworks.removal.operations import ATTENTION
from etude.frameworks.removal.resize import CELLS, RECURRENT, is_conv1d_of_transformers
from etude.frameworks.removal.trace import Call, Trace
from etude.frameworks.removal.tracing import Runs, arguments


def layers_of(model: nn.Module, example: Any, runs: Runs | None = None) -> list[LayerSeen]:
    """Return the layers of a model, in the order in which it was built.

    Args:
        model: The model; it is not touched.
        example: What it is called with: a tensor, a tuple of arguments, or a dict of them by name.
        runs: Its runs with that, if it was run.

    Raises:
        RemovalRefused: It does not run with that.
    """
    runs = runs or Runs(model, *arguments(example))
    trace = runs.modes[-1].trace
    order = sorted(trace.calls, key=lambda call: (call.end, -call.n))
    when = {call.n: nth for nth, call in enumerate(order)}
    data = _data(trace)
    return [_seen(path, module, trace, when, data) for path, module in model.named_modules() if path]


def in_tree(model: nn.Module) -> list[LayerSeen]:
    """Return the layers of a model without running it, so that nobody knows when they are called."""
    nothing = Trace([], [], [], {})
    return [_seen(path, module, nothing, {}, frozenset()) for path, module in model.named_modules() if path]


def _seen(path: str, module: nn.Module, trace: Trace, when: dict[int, int], data: frozenset[int]) -> LayerSeen:
    calls = trace.of(path)
    is_leaf, learns = not list(module.children()), next(module.parameters(), None) is not None
    return LayerSeen(
        path,
        type(module).__name__,
        sum(parameter.numel() for parameter in module.parameters()),
        path.count("."),
        number_of_heads(module) or _heads_seen(calls, trace),
        _units(module),
        _number(module, "out_channels"),
        tuple(sorted(when[call.n] for call in calls)),
        bool(calls) and is_leaf and all(_is_of_integers(call, trace) for call in calls),
        is_leaf and learns and any(not data.isdisjoint(call.inputs.values()) for call in calls),
        bool(calls) and is_leaf and learns and _gives_output(calls, trace),
    )


def _number(module: nn.Module, name: str) -> int | None:
    found = getattr(module, name, None)
    return found if isinstance(found, int) and not list(module.children()) else None


def _heads_seen(calls: list[Call], trace: Trace) -> int | None:
    """Return how many heads an attention has that does not say it: slices in which queries meet keys in its own calls.

    Of an axis for examples, one for tokens and one for widths, none is for heads.
    """
    own = [op for op in trace.ops if op.call in {call.n for call in calls}]
    shapes = [trace.values[op.inputs[0]].shape for op in own if op.name == ATTENTION]
    products = [op for op in own if op.name in PRODUCTS]
    for call in calls:
        for op in trace.ops[call.first : call.end]:
            scores = trace.values[op.outputs[0]].shape
            met = any(one.n < op.n and trace.values[one.outputs[0]].shape == scores for one in products)
            read = any(one.n > op.n and scores in [trace.values[v].shape for v in one.inputs] for one in products)
            if op.name == "softmax" and met and read:
                shapes.append(scores)
    counts = {shape[-3] for shape in shapes if len(shape) > 3}  # noqa: PLR2004 - examples, heads, tokens and width
    return counts.pop() if len(counts) == 1 and counts != {1} else None


def _units(module: nn.Module) -> int | None:
    if isinstance(module, RECURRENT + CELLS):
        return _number(module, "hidden_size")
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return _number(module, "embedding_dim")
    return _number(module, "nf" if is_conv1d_of_transformers(module) else "out_features")


def _data(trace: Trace) -> frozenset[int]:
    """Return the values that are made of the data, and of nothing that learns."""
    learned = {n for n, value in enumerate(trace.values) if value.kind == "parameter"}
    data = set(trace.calls[0].inputs.values())
    for op in trace.ops:
        (learned if not learned.isdisjoint(op.inputs) else data).update(op.outputs if op.inputs else ())
    return frozenset(data - learned)


def _is_of_integers(call: Call, trace: Trace) -> bool:
    return bool(call.inputs) and not any(trace.values[n].is_float for n in call.inputs.values())


def _gives_output(calls: list[Call], trace: Trace) -> bool:
    given = {n for call in calls for n in call.outputs.values()}
    return bool(given & set(trace.calls[0].outputs.values()))
