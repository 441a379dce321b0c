"""Modules that choose: nothing can stand for the indices that they give, and these can be made without what learns.

The router of experts gives numbers of experts. Another one would have to be invented; so its own code stays, and what
learns in it goes: its layers as any others, and its own weights by what is done with them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from torch import nn

from etude.frameworks.removal.edits import Constant
from etude.frameworks.removal.flow import Flow
from etude.frameworks.removal.meaning import Meaning
from etude.frameworks.removal.names import under
from etude.frameworks.removal.operations import ADD, CASTS, MUL
from etude.frameworks.removal.trace import Call, Op
from etude.frameworks.removal.tracing import Mode

TURNS: Final = frozenset(["t", "T", "mT"])
DIMS: Final[dict[str, tuple[int, int | None]]] = {
    "topk": (2, -1), "kthvalue": (2, -1), "sort": (1, -1), "argsort": (1, -1), "multinomial": (3, -1),
    "argmax": (1, None), "argmin": (1, None), "max": (1, None), "min": (1, None),
}  # fmt: skip
"""Operations that choose -> where their axis stands among the arguments, and which one it is by default."""
MATRICES: Final = frozenset(["matmul", "__matmul__", "mm"])


def makes_choice(modes: Sequence[Mode], calls: Sequence[list[Call]], path: str) -> bool:
    """Say whether all that learns in a module serves to make whole numbers that it gives, of what went in."""
    seen = False
    for mode, of_mode in zip(modes, calls, strict=True):
        flow, values = mode.flow, mode.trace.values
        made = 0
        for call in of_mode:
            given = set(call.inputs.values())
            chosen = [n for n in call.outputs.values() if not values[n].is_float and n not in given]
            carried = [n for n in chosen if any(flow.is_ancestor(one, n) for one in given if flow.carries(one))]
            made = functools.reduce(int.__or__, (flow.ancestors[n] for n in carried), made)
        own = [n for name, n in mode.trace.parameters.items() if under(name, path) and values[n].kind == "parameter"]
        used = [n for n in own if flow.consumers[n]]
        if any(not made >> n & 1 for n in used):
            return False
        seen = seen or bool(used)
    return seen


def chosen_along(op: Op, flow: Flow, meaning: Meaning, value: int) -> bool:
    """Say whether an operation chooses among the channels of a value, and somebody reads which."""
    if op.name not in DIMS or op.inputs[0] != value:
        return False
    at, default = DIMS[op.name]
    dim = op.kwargs.get("dim", op.args[at] if len(op.args) > at else default)
    rank = len(flow.trace.values[value].shape)
    which = [n for n in op.outputs if not flow.trace.values[n].is_float]
    along = isinstance(dim, int) and rank > 0 and dim % rank == meaning.width_axis(value)
    return along and any(flow.consumers[n] or n in flow.ends for n in which)


def constants_by_use(path: str, module: nn.Module, modes: Sequence[Mode]) -> tuple[tuple[str, Constant], ...] | None:
    """Return what a module's own weights become, by what it does with them; None if it does something else with one.

    A matrix by which something is multiplied gives its channels, averaged or again; a summand becomes 0, a factor 1.
    """
    found: list[tuple[str, Constant]] = []
    for name, _ in module.named_parameters(recurse=False):
        whole = f"{path}.{name}"
        kinds = {kind for mode in modes for kind in _uses(mode, mode.trace.parameters[whole])}
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind is None:
            return None
        found.append((name, kind))
    return tuple(found)


def _uses(mode: Mode, value: int) -> list[Constant | None]:
    """Return what a parameter would have to be in each of its uses."""
    found: list[Constant | None] = []
    waiting = [(value, False)]
    while waiting:
        now, turned = waiting.pop()
        for op in (mode.trace.ops[n] for n in mode.flow.consumers[now]):
            if op.name in CASTS | TURNS and op.inputs[0] == now:
                waiting += [(out, turned != (op.name in TURNS)) for out in op.outputs]
            else:
                found.append(_use(op, now, len(mode.trace.values[value].shape), turned=turned))
    return found


def _use(op: Op, value: int, rank: int, *, turned: bool) -> Constant | None:
    if list(op.inputs).count(value) != 1:
        return None
    at = op.inputs.index(value)
    if rank == 2 and op.name == "linear" and at == 1:  # noqa: PLR2004 - a matrix
        return "columns" if turned else "rows"
    if rank == 2 and op.name in MATRICES:  # noqa: PLR2004
        return "rows" if (at == 0) != turned else "columns"
    if (op.name == "linear" and at > 1) or op.name in ADD:
        return "zeros"
    return "ones" if op.name in MUL else None
