"""Heads of attentions: which channels go with them, and what has to be set so that the rest still runs.

There are two ways, and both give the model in which the removed heads give 0. The first cuts all projections and the
numbers that the attention keeps. Where its code reckons with a width that is no longer there, or where keys that heads
share would be shared unevenly, the second leaves it its width: the layers are cut, and zeros stand where channels were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch
from torch import nn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Part
from etude.frameworks.removal.attention import CutAttention
from etude.frameworks.removal.copies import copied
from etude.frameworks.removal.edits import Attribute, Edit, FewerHeads, Padded, Plan, Resize
from etude.frameworks.removal.labels import HeadsOf, Unfollowed, heads_of
from etude.frameworks.removal.padding import padded
from etude.frameworks.removal.parametrized import HOLDER
from etude.frameworks.removal.resize import Unresizable, resized_tensors

HEADS: Final = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads")
"""What modules call the number of their heads."""
KEY_HEADS: Final = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_kv_head", "kv_heads")
GROUPS: Final = ("num_key_value_groups", "n_rep", "num_groups")
WIDTHS: Final = ("all_head_size", "inner_dim", "split_size", "attn_dim", "attention_dim", "inner_width")
"""What they call the width of all of their heads together."""

Kept: TypeAlias = Callable[[int], tuple[int, ...]]
"""Says which of so many are left, or refuses."""


def number_of_heads(module: nn.Module) -> int | None:
    """Return how many heads a module says it has; None if it says nothing.

    Some attentions have the number in their configuration alone; and layers of torch's transformers in the attention in
    them.
    """
    said = next((n for name in HEADS if type(n := getattr(module, name, None)) is int), None)
    if said is not None:
        return said
    if "attention" in type(module).__name__.lower():
        config = getattr(module, "config", None)
        return next((n for name in HEADS if type(n := getattr(config, name, None)) is int), None)
    inside = [m for m in module.children() if isinstance(m, nn.MultiheadAttention)]
    return inside[0].num_heads if len(inside) == 1 else None


@dataclass(frozen=True)
class Cut:
    """Edits with which a removal of parts begins; what follows from them is found by running the model.

    Attributes:
        edits: What is done and not said.
        said: What is done and said.
        holds: Looks at the model, once it was done; raises Unresizable if it is not what was meant.
        exact: Whether nothing further may have to be drawn anew.
        words: What else to say.
    """

    edits: tuple[Edit, ...]
    said: tuple[Edit, ...] = ()
    holds: Callable[[], None] | None = None
    exact: bool = False
    words: str = ""


def head_cuts(
    model: nn.Module, part: Part, run: Callable[[], Any], kept: Callable[[int], tuple[int, ...]]
) -> Iterator[Cut]:
    """Go through the ways in which heads can be taken out of an attention, the better one first.

    Args:
        model: The model.
        part: Which heads of what.
        run: Runs the model.
        kept: Says which of so many heads are left, or refuses.

    Raises:
        RemovalRefused: They cannot be.
    """
    module = model.get_submodule(part.path)
    packed: list[tuple[str, nn.Module]] = [
        (name, m) for name, m in module.named_modules() if isinstance(m, nn.MultiheadAttention)
    ]
    if packed:
        yield Cut((_packed(packed, part, kept),))
        return
    try:
        found = heads_of(model, part.path, run)
    except Unfollowed as none:
        raise RemovalRefused(
            RefusalCode.NOT_FOUND, part.path, f"a {type(module).__name__} has no heads that can be taken apart: {none}."
        ) from None
    keep = kept(found.n)
    layers = {path: _owned(heads, keep) for path, heads in found.channels.items()}
    readers = {path: _read(heads, keep) for path, heads in found.columns.items()}
    if any(padded(model.get_submodule(path)) for path in (*layers, *readers)):
        raise RemovalRefused(
            RefusalCode.DOES_NOT_FIT, part.path, "heads of it are gone already. Take all of them out as one part."
        )
    widths = {path: len(heads) for path, heads in found.channels.items()}
    widths |= {path: len(heads) for path, heads in found.columns.items()}
    outs = tuple(Resize(p, "out", len(of), of, widths[p]) for p, of in layers.items() if len(of) < widths[p])
    ins = tuple(Resize(p, "in", len(of), of, widths[p]) for p, of in readers.items())
    if _even(found, keep):

        def holds() -> None:
            _same(found, keep, heads_of(model, part.path, run))

        numbers = tuple(_numbers(module, part.path, found, keep))
        yield Cut((*outs, *numbers), ins, holds, exact=True)
    pads = [Padded(e.path, "out" if e.side == "out" else "in", e.keep or (), e.before) for e in (*outs, *ins)]
    words = f"{part.path} keeps its width, with zeros for the heads that are gone"
    yield Cut((*outs, *pads), ins, exact=True, words=words)


def with_silent_heads(model: nn.Module, plan: Plan) -> nn.Module | None:
    """Return a copy of an untouched model that reads nothing of the heads that a plan takes out.

    It gives what the model without them has to give. None if the plan takes out other things, too.
    """
    if (
        not all(isinstance(target, Part) and target.of == "heads" for target in plan.layers.targets)
        or plan.layers.along
    ):
        return None
    silent = copied(model)
    for edit in plan.edits:
        if isinstance(edit, FewerHeads):
            attention: Any = silent.get_submodule(edit.path)
            size = attention.head_dim
            lost = [head * size + n for head in range(edit.before) if head not in edit.keep for n in range(size)]
            _silence(attention.out_proj.weight, 1, lost)
        elif isinstance(edit, Resize) and edit.side == "in":
            module = silent.get_submodule(edit.path)
            lost = [n for n in range(edit.before) if n not in (edit.keep or ())]
            _silence(module.weight, resized_tensors(module, edit)["weight"], lost)
    return silent


def _silence(weight: Any, axis: int, lost: list[int]) -> None:
    with torch.no_grad():
        weight.index_fill_(axis, torch.tensor(lost, device=weight.device), 0.0)


def _packed(found: list[tuple[str, nn.Module]], part: Part, kept: Kept) -> FewerHeads:
    """Return the edit for an attention of torch."""
    if len(found) > 1:
        names = " or ".join(repr(f"{part.path}.{name}") for name, _ in found[:3])
        raise RemovalRefused(RefusalCode.NOT_FOUND, part.path, f"it holds several attentions. Name one: {names}.")
    (name, module), path = found[0], part.path
    path = f"{path}.{name}" if name else path
    attention: Any = module
    if type(attention) not in (nn.MultiheadAttention, CutAttention):
        why = f"{type(attention).__name__} is a class of its own, derived from torch.nn.MultiheadAttention."
        raise RemovalRefused(RefusalCode.DOES_NOT_FIT, path, f"{why} Take the whole layer away.")
    if list(attention.parameters(recurse=False)) == [] or hasattr(attention, HOLDER):
        why = "its projections are made of other parameters. Take the heads out before they are parametrized."
        raise RemovalRefused(RefusalCode.WITHOUT_CALL, path, why)
    return FewerHeads(path, kept(attention.num_heads), attention.num_heads)


def _owned(heads: list[frozenset[int]], keep: tuple[int, ...]) -> tuple[int, ...]:
    """Return the outputs that are left: those of a head that is, and those of none."""
    return tuple(n for n, of in enumerate(heads) if not of or of & set(keep))


def _read(heads: list[int], keep: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n, of in enumerate(heads) if of < 0 or of in keep)


def _even(found: HeadsOf, keep: tuple[int, ...]) -> bool:
    """Say whether each channel that is left serves as many heads as the others of its layer."""
    left = set(keep)
    return all(len({len(of & left) for of in heads if of & left}) <= 1 for heads in found.channels.values())


def _numbers(module: nn.Module, path: str, found: HeadsOf, keep: tuple[int, ...]) -> Iterator[Edit]:
    """Return what an attention has to call the numbers of its heads and its width."""
    shared = max(len(of) for heads in found.channels.values() for of in heads)
    share = max(len(of & set(keep)) for heads in found.channels.values() for of in heads)
    n, m = found.n, len(keep)
    width = max(sum(of >= 0 for of in heads) for heads in found.columns.values())
    new = {**dict.fromkeys(HEADS, (n, m)), **dict.fromkeys(KEY_HEADS, (n // shared, m // share))}
    new |= {**dict.fromkeys(GROUPS, (shared, share)), **dict.fromkeys(WIDTHS, (width, width // n * m))}
    for inner, each in module.named_modules():
        for name, (before, after) in new.items():
            if type(vars(each).get(name)) is int and vars(each)[name] == before != after:
                yield Attribute(f"{path}.{inner}" if inner else path, name, after)


def _same(before: HeadsOf, keep: tuple[int, ...], after: HeadsOf) -> None:
    """Raise Unresizable unless the channels that are left are of the heads that they were of, and do what they did."""
    order = {head: n for n, head in enumerate(keep)}
    for path, heads in before.channels.items():
        left = [heads[n] for n in _owned(heads, keep)]
        if after.channels.get(path) != [frozenset(order[head] for head in of if head in order) for of in left]:
            raise Unresizable(f"{path} would give its channels to other heads")
    if other := sorted(after.scalars - before.scalars):
        name, numbers = other[0]
        raise Unresizable(f"with fewer heads its code would reckon with other numbers: {name} with {numbers}")
    for path, columns in before.columns.items():
        left_columns = [columns[n] for n in _read(columns, keep)]
        if after.columns.get(path) != [order.get(head, -1) for head in left_columns]:
            raise Unresizable(f"{path} would read other heads")
