"""What shapes the parameters of others have once a module is gone: reasoned out of what was seen, never guessed.

A chain of modules is followed from its beginning with a number of channels and, for images, with their height and
width. The same walk over the untouched program has to give exactly the shapes that were seen there; where it does not,
or where it meets something that it does not know, the answer is that only the program can tell.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from etude.mage.facts import Facts, ModelFacts
from etude.mage.networks.models import Made, Step
from etude.mage.networks.roles import Role, is_over_all
from etude.mage.sources.literals import argument, literal

Shape = tuple[int, ...]

CONV: Final = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias")
LINEAR: Final = ("in_features", "out_features", "bias")
POOL: Final = ("kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode")
FUNCTION_POOL: Final = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode")
BATCHED: Final = 2
"""A batch has at least rows and channels."""


class CannotTell(Exception):  # noqa: N818 - it is no mishap: the answer to a question
    """Only the program can tell."""


@dataclass(frozen=True)
class Change:
    """What is done to a chain.

    Attributes:
        gone: Modules that go, by path inside the network.
        pools: Calls of poolings that go, by their index in the flow.
        outputs: Modules that get another number of outputs.
    """

    gone: Collection[str] = ()
    pools: Collection[int] = ()
    outputs: Mapping[str, int] = field(default_factory=dict)


@dataclass
class _State:
    """What arrives at a step."""

    width: int | None = None
    extent: Shape | None = None
    """Height and width; empty once it is flat, None where nobody knows."""
    bent: bool = False
    """Whether nobody knows if there are as many pixels as in the untouched program."""


def resized(flow: Sequence[Step], prefix: str, change: Change, facts: Facts | None) -> dict[str, Shape | None] | None:
    """Return the parameters of modules that stay and their new shapes; only those that change.

    Args:
        flow: What the network does, in order.
        prefix: Its own path in the whole model, with a dot at the end; empty if it is the model.
        change: What is done.
        facts: What was seen of the untouched program; None if it was not run.

    Returns:
        None as a shape where only the program can tell; None as a whole where nothing can be said.
    """
    shapes = shapes_of(flow, prefix, facts)
    names = [step.name for step in flow if step.made is not None and shapes.get(step.name)]
    if len(set(names)) < len(names):
        return None  # one module is used twice, with what it was built for
    extent = _first_extent(facts)
    try:
        before = _walk(flow, shapes, Change(), extent)
        after = _walk(flow, shapes, change, extent)
    except CannotTell:
        return None
    gone = {name for path in change.gone for name in shapes.get(path, {})}
    return {
        f"{prefix}{name}": after.get(name) for name in before if name not in gone and after.get(name) != before[name]
    }


def count(model: ModelFacts, gone: Collection[str], changed: Mapping[str, Shape | None]) -> int | None:
    """Return how many parameters a model has after a change; None where only the program can tell.

    Args:
        model: What was seen of it.
        gone: Paths of modules that go.
        changed: Parameters with other shapes.
    """
    total = 0
    for name, seen in model.parameters.items():
        if any(name.startswith(f"{path}.") for path in gone):
            continue
        shape = changed.get(name, seen.shape)
        if shape is None:
            return None
        total += math.prod(shape)
    return total


def shapes_of(flow: Sequence[Step], prefix: str, facts: Facts | None) -> dict[str, dict[str, Shape]]:
    """Return the parameters of each module of a flow, by its path: as they were seen, else as their sources say."""
    found: dict[str, dict[str, Shape]] = {}
    seen = [model for model in (facts.models if facts is not None else ()) if model.parameters]
    for step in flow:
        if step.made is None:
            continue
        path = f"{prefix}{step.name}."
        table = {
            name.removeprefix(prefix): row.shape
            for model in seen[:1]
            for name, row in model.parameters.items()
            if name.startswith(path)
        }
        found[step.name] = table if seen else _spelt(step.made)
    return found


def _spelt(made: Made) -> dict[str, Shape]:
    if made.role is Role.NORM:
        width = _number(made, "num_features", ("num_features",))
        return (
            {f"{made.name}.weight": (width,), f"{made.name}.bias": (width,)} if width and "Batch" in made.type else {}
        )
    if made.type == "Linear":
        ins, outs = (_number(made, name, LINEAR) for name in LINEAR[:2])
        shape: Shape | None = (outs, ins) if ins and outs else None
        has_bias = literal(argument(made.call, "bias", LINEAR)) is not False
    elif made.type in ("Conv1d", "Conv2d", "Conv3d"):
        ins, outs = (_number(made, name, CONV) for name in CONV[:2])
        sizes = _pair(literal(argument(made.call, "kernel_size", CONV)), int(made.type[4]))
        alone = _given(made, "groups", 1) == 1
        shape = (outs, ins, *sizes) if ins and outs and sizes and alone else None
        has_bias = literal(argument(made.call, "bias", CONV)) is not False
    else:
        return {}
    if shape is None:
        return {}
    return {f"{made.name}.weight": shape} | ({f"{made.name}.bias": shape[:1]} if has_bias else {})


def _number(made: Made, name: str, order: Sequence[str]) -> int | None:
    value = literal(argument(made.call, name, order))
    return value if type(value) is int and value > 0 else None


def _first_extent(facts: Facts | None) -> Shape | None:
    first = facts.batches[0][0] if facts is not None and facts.batches and facts.batches[0] else ()
    return tuple(first[BATCHED:]) if len(first) >= BATCHED else None


def _walk(
    flow: Sequence[Step], shapes: Mapping[str, Mapping[str, Shape]], change: Change, extent: Shape | None
) -> dict[str, Shape | None]:
    """Return the shape of each parameter on the way."""
    state = _State(extent=extent)
    base = _State(extent=extent)  # the same way through the untouched program, for what only ratios tell
    found: dict[str, Shape | None] = {}
    for index, step in enumerate(flow):
        params = shapes.get(step.name, {}) if step.made is not None else {}
        if is_over_all(step.name if step.made is None else step.made.type):
            base.extent, state.bent = _pooled(step, base.extent), index in change.pools
            state.extent = state.extent if index in change.pools else base.extent
        elif step.role is Role.POOL:
            base.extent = _pooled(step, base.extent)
            if index not in change.pools:
                state.extent = _pooled(step, state.extent)
            elif state.extent is None:
                state.bent = True
        elif step.role is Role.LAYER:
            if not params:
                raise CannotTell  # it may do anything
            found |= _layer(step, params, state, base, change)
        elif step.role is Role.NORM and step.name not in change.gone:
            found |= {name: _wider(shape, base.width, state.width) for name, shape in params.items()}
    return found


def _wider(shape: Shape, before: int | None, now: int | None) -> Shape | None:
    if before == now:
        return shape
    return (now,) if shape == (before,) and now is not None else None


def _layer(
    step: Step, params: Mapping[str, Shape], state: _State, base: _State, change: Change
) -> dict[str, Shape | None]:
    """Go through a layer, and return the shapes of its parameters; nothing of one that is gone."""
    assert step.made is not None
    is_gone, is_conv = step.name in change.gone, step.made.type.startswith("Conv")
    ins, outs = _in_and_out(params, is_embedding="Embedding" in step.made.type)
    if is_gone and "Embedding" in step.made.type:
        raise CannotTell
    arriving = _arriving(ins, state, base, is_conv=is_conv)
    if is_conv:
        base.extent = _convolved(step.made, base.extent)
        if not is_gone:
            state.extent = _convolved(step.made, state.extent)
        elif state.extent is None:
            state.bent = state.bent or not keeps_extent(step.made)
    else:
        base.extent = state.extent = () if base.extent is not None else None
        state.bent = False
    base.width = outs
    if is_gone:
        if arriving is None:
            raise CannotTell
        state.width = arriving
        return {}
    state.width = change.outputs.get(step.name, outs)
    if arriving is None:
        return {name: None if len(shape) > 1 else shape for name, shape in params.items()}
    return {name: _shape(shape, (ins, outs), (arriving, state.width)) for name, shape in params.items()}


def _arriving(ins: int, state: _State, base: _State, *, is_conv: bool) -> int | None:
    """Return how many numbers a layer takes now; None if that cannot be told."""
    if base.width is None or state.width is None:
        return ins
    each, rest = divmod(ins, base.width)
    if rest or not each:
        raise CannotTell
    if is_conv:
        return state.width * each
    # each is the number of pixels where images were made flat before this layer
    if base.extent is not None and state.extent is not None and math.prod(base.extent) == each:
        return state.width * math.prod(state.extent)
    return None if state.bent or state.extent != base.extent else state.width * each


def _in_and_out(params: Mapping[str, Shape], *, is_embedding: bool) -> tuple[int, int]:
    """Return how many numbers a module takes and gives, by the shapes of its matrices, which have to agree."""
    found = {(shape[1], shape[0]) for shape in params.values() if len(shape) > 1}
    if len(found) != 1:
        raise CannotTell
    ins, outs = found.pop()
    if is_embedding:
        return ins, ins
    if any(shape[0] != outs for shape in params.values() if len(shape) == 1):
        raise CannotTell
    return ins, outs


def _shape(shape: Shape, before: tuple[int, int], now: tuple[int, int]) -> Shape | None:
    ins, outs = before
    if before == now:
        return shape
    if len(shape) == 1:
        return (now[1],) if shape[0] == outs else None
    return (now[1], now[0], *shape[2:]) if shape[:2] == (outs, ins) else None


def _convolved(made: Made, extent: Shape | None) -> Shape | None:
    if not extent:
        return extent
    n = len(extent)
    kernel = _pair(literal(argument(made.call, "kernel_size", CONV)), n)
    stride = _pair(_given(made, "stride", 1), n)
    dilation = _pair(_given(made, "dilation", 1), n)
    padding = _given(made, "padding", 0)
    if made.type not in ("Conv1d", "Conv2d", "Conv3d") or kernel is None or stride is None or dilation is None:
        return None
    if padding == "same":
        return extent
    pads = _pair(0 if padding == "valid" else padding, n)
    return _shrunk(extent, kernel, stride, pads, dilation) if pads is not None else None


def keeps_extent(made: Made) -> bool:
    """Say whether a convolution gives images of the size that it takes, whatever that is."""
    probe = (37, 41, 43)[: int(made.type[4]) if made.type[4:5] in "123" and made.type[4:5] else 0]
    return bool(probe) and _convolved(made, probe) == probe


def _pooled(step: Step, extent: Shape | None) -> Shape | None:
    if not extent:
        return extent
    n, call, made = len(extent), step.call, step.made
    if made is not None:
        call = made.call
    name = step.name if made is None else made.type
    if is_over_all(name):
        size = argument(call, "output_size", ("output_size",) if made is not None else ("input", "output_size"))
        return _pair(literal(size), n) if size is not None else ()
    order = POOL if made is not None else FUNCTION_POOL
    kernel = _pair(literal(argument(call, "kernel_size", order)), n)
    stride = argument(call, "stride", order)
    steps = kernel if stride is None else _pair(literal(stride), n)
    padding = argument(call, "padding", order)
    pads = (0,) * n if padding is None else _pair(literal(padding), n)
    odd = argument(call, "ceil_mode", order) is not None or argument(call, "dilation", order) is not None
    if odd or kernel is None or steps is None or pads is None or "pool" not in name.lower():
        return None
    return _shrunk(extent, kernel, steps, pads, (1,) * n)


def _shrunk(extent: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Shape | None:
    if 0 in stride:
        return None
    sizes = tuple(
        (size + 2 * pad - step * (wide - 1) - 1) // jump + 1
        for size, wide, jump, pad, step in zip(extent, kernel, stride, padding, dilation, strict=True)
    )
    return sizes if all(size > 0 for size in sizes) else None


def _given(made: Made, name: str, default: Any) -> Any:
    node = argument(made.call, name, CONV)
    return default if node is None else literal(node)


def _pair(value: Any, n: int) -> Shape | None:
    if type(value) is int:
        return (value,) * n
    if isinstance(value, tuple | list) and len(value) == n and all(type(one) is int for one in value):
        return tuple(value)
    return None
