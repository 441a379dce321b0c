"""Parts of layers: filters, units and heads, as cuts of widths that keep what is left bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from torch import nn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Part
from etude.frameworks.removal.edits import Attribute, Edit, Resize
from etude.frameworks.removal.resize import CONVOLUTIONS, TRANSPOSED, sides
from etude.frameworks.removal.trace import Trace

PROJECTIONS: Final = (
    ("q_proj", "k_proj", "v_proj"),
    ("query", "key", "value"),
    ("q", "k", "v"),
    ("q_lin", "k_lin", "v_lin"),
    ("to_q", "to_k", "to_v"),
)
"""Names under which attentions have their projections."""
HEADS: Final = ("num_heads", "num_attention_heads", "n_heads", "heads")
KEY_HEADS: Final = ("num_key_value_heads", "num_kv_heads")
WIDTHS: Final = ("all_head_size", "inner_dim")


def part_edits(model: nn.Module, part: Part, trace: Trace) -> list[Edit]:
    """Return the cuts with which a removal of parts begins; what follows from them is found by running the model.

    Raises:
        RemovalRefused: The layer has no such parts, or would have none left.
    """
    module = model.get_submodule(part.path)
    if part.of == "heads":
        return list(_heads(module, part))
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
            RefusalCode.NOT_FOUND, part.path, f"it has {n} {part.of}, counted from 0, and not {wrong or 'none'}."
        )
    keep = tuple(index for index in range(n) if index not in part.indices)
    if not keep:
        raise RemovalRefused(RefusalCode.EVERYTHING, part.path, f"these are all of its {part.of}.")
    return keep


def _heads(module: nn.Module, part: Part) -> Iterator[Edit]:
    """Return the cuts that take heads out of an attention with projections of its own for queries, keys and values."""
    names = next((names for names in PROJECTIONS if all(hasattr(module, name) for name in names)), None)
    n = next((found for name in HEADS if (found := _number(module, name))), 0)
    if names is None or not n:
        raise RemovalRefused(
            RefusalCode.NOT_FOUND,
            part.path,
            f"a {type(module).__name__} has no heads that can be taken apart: that needs a projection each for "
            "queries, keys and values, and a number of heads.",
        )
    keep = kept(part, n)
    of_keys = next((found for name in KEY_HEADS if (found := _number(module, name))), n)
    group = n // of_keys
    keys = tuple(sorted({head // group for head in keep}))
    if len(keys) * group != len(keep):
        raise RemovalRefused(
            RefusalCode.DOES_NOT_FIT,
            part.path,
            f"{group} heads share one key and value each, so they go together: 0 to {group - 1}, for instance.",
        )
    for name, heads, of in zip(names, (keep, keys, keys), (n, of_keys, of_keys), strict=True):
        width = sides(getattr(module, name))["out"]
        each = width // of
        channels = tuple(head * each + channel for head in heads for channel in range(each))
        yield Resize(f"{part.path}.{name}", "out", len(channels), channels, width)
    each = sides(getattr(module, names[0]))["out"] // n
    numbers = {**dict.fromkeys(HEADS, len(keep)), **dict.fromkeys(KEY_HEADS, len(keys))}
    numbers |= dict.fromkeys(WIDTHS, len(keep) * each)
    for name, value in numbers.items():
        if isinstance(vars(module).get(name), int):
            yield Attribute(part.path, name, value)


def _number(module: nn.Module, name: str) -> int:
    found = vars(module).get(name) or getattr(getattr(module, "config", None), name, 0)
    return found if isinstance(found, int) else 0
