"""Parts of layers: filters, units and heads, as cuts of widths that keep what is left bit for bit."""

from __future__ import annotations

from typing import Any

from torch import nn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Part
from etude.frameworks.removal.edits import Edit, Resize
from etude.frameworks.removal.resize import CONVOLUTIONS, TRANSPOSED, sides
from etude.frameworks.removal.trace import Trace


def part_edits(model: nn.Module, part: Part, trace: Trace) -> list[Edit]:
    """Return the cuts with which a removal of parts begins; what follows from them is found by running the model.

    Raises:
        RemovalRefused: The layer has no such parts, or would have none left.
    """
    module = model.get_submodule(part.path)
    if part.of == "heads":
        raise RemovalRefused(RefusalCode.NOT_FOUND, part.path, "heads of this kind of attention are not known.")
    convolution = isinstance(module, CONVOLUTIONS + TRANSPOSED)
    widths = sides(module)
    side: Any = "out" if "out" in widths else "through"
    if side not in widths or (part.of == "filters") != convolution:
        has = "filters" if convolution else "units" if widths else "no parts"
        raise RemovalRefused(
            RefusalCode.NOT_FOUND, part.path, f"a {type(module).__name__} has {has}, and {part.of} were asked for."
        )
    keep = kept(part, widths[side])
    return [Resize(part.path, side, len(keep), keep, widths[side])]


def kept(part: Part, n: int) -> tuple[int, ...]:
    """Return which of a layer's parts are left.

    Raises:
        RemovalRefused: It has not so many, or none would be left.
    """
    wrong = [index for index in part.indices if not 0 <= index < n]
    if wrong or not part.indices:
        raise RemovalRefused(
            RefusalCode.NOT_FOUND, part.path, f"it has {n} {part.of}, counted from 0, and no {wrong or 'part'} of them."
        )
    keep = tuple(index for index in range(n) if index not in part.indices)
    if not keep:
        raise RemovalRefused(RefusalCode.EVERYTHING, part.path, f"these are all of its {part.of}.")
    return keep
