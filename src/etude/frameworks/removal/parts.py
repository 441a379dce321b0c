"""Parts of layers: filters, units and heads, as cuts of widths that keep what is left bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from torch import nn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Part
from etude.frameworks.removal.cuts import evenly
from etude.frameworks.removal.edits import Edit, Resize
from etude.frameworks.removal.heads import Cut, head_cuts
from etude.frameworks.removal.producers import Producers
from etude.frameworks.removal.resize import CELLS, CONVOLUTIONS, RECURRENT, TRANSPOSED, sides, width_axis
from etude.frameworks.removal.trace import Trace


def part_cuts(
    model: nn.Module, part: Part, run: Callable[[], Any], trace: Trace, tied: frozenset[str]
) -> Iterator[Cut]:
    """Go through the cuts with which a removal of parts can begin; the first one that fits is taken.

    Args:
        model: The model.
        part: What of it.
        run: Runs the model.
        trace: What happens then.
        tied: Names of parameters that several layers share.

    Raises:
        Unresizable: Another layer would have to change and cannot.
        RemovalRefused: The layer has no such parts, or would have none left.
    """
    module = model.get_submodule(part.path)
    if part.of == "heads":
        yield from head_cuts(model, part, run, partial(kept, part))
        return
    if isinstance(module, RECURRENT + CELLS) and part.of == "units":
        recurrent: Any = module
        keep = kept(part, recurrent.hidden_size)
        yield Cut((Resize(part.path, "hidden", len(keep), keep, recurrent.hidden_size),))
        return
    convolution = isinstance(module, CONVOLUTIONS + TRANSPOSED)
    widths = sides(module)
    side: Any = "out" if "out" in widths else "through"
    if side not in widths or (part.of == "filters") != convolution:
        has = "filters" if convolution else "units" if widths else "no parts"
        raise RemovalRefused(
            RefusalCode.NOT_FOUND, part.path, f"a {type(module).__name__} has {has}, and {part.of} were asked for."
        )
    keep = kept(part, widths[side])
    if side == "through":  # the same channels come in, so whoever makes them loses them
        for call in trace.of(part.path)[:1]:
            value = next(iter(call.inputs.values()))
            axis = width_axis(module) % len(trace.values[value].shape) - len(trace.values[value].shape)
            yield Cut(tuple(Producers(model, trace, [], tied).producers(value, axis, len(keep), keep)))
        return
    yield Cut((Resize(part.path, side, len(keep), keep, widths[side]),))


def check_groups(model: nn.Module, edits: Iterable[Edit]) -> None:
    """Raise Unresizable if a norm over groups of channels would have unequal groups of those that it had."""
    for edit in edits:
        if isinstance(edit, Resize) and edit.keep is not None:
            module = model.get_submodule(edit.path)
            if isinstance(module, nn.GroupNorm):
                evenly(edit.path, edit.keep, module.num_groups, edit.before)


def kept(part: Part, n: int) -> tuple[int, ...]:
    """Return which of a layer's parts are left.

    Raises:
        RemovalRefused: It has not so many, or none would be left.
    """
    wrong = [index for index in part.indices if not 0 <= index < n]
    if wrong or not part.indices:
        raise RemovalRefused(
            RefusalCode.NOT_FOUND, part.path, f"it has {n} {part.of}, counted from 0, and not {wrong or 'none'}."
        )
    keep = tuple(index for index in range(n) if index not in part.indices)
    if not keep:
        raise RemovalRefused(RefusalCode.EVERYTHING, part.path, f"these are all of its {part.of}.")
    return keep
