"""A plan out of edits: what they come to, in words and in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from torch import nn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Layers
from etude.core.rungs import Rung
from etude.frameworks.removal.budget import DEAR, is_dear
from etude.frameworks.removal.edits import Attribute, Edit, Plan, Resize, ResizeTensor
from etude.frameworks.removal.names import n_parameters, under
from etude.frameworks.removal.resized import resized_names
from etude.frameworks.removal.tracing import Runs
from etude.frameworks.removal.words import idle_in_words, in_words
from etude.frameworks.repair_words import parameters_in_words


def assembled(
    runs: Runs,
    layers: Layers,
    wholes: Sequence[str],
    edits: Sequence[Edit],
    words: Sequence[str],
    rung: Rung,
    idle: Iterable[str],
    notes: Iterable[str],
) -> Plan:
    """Return a plan.

    Args:
        runs: Runs of a copy of the model.
        layers: What is taken out.
        wholes: Paths of the modules among it.
        edits: What is done, in this order.
        words: The same for people.
        rung: How deep it cuts.
        idle: Names of parameters that have no effect any more.
        notes: What else is good to know.

    Raises:
        RemovalRefused: All steps together draw too much anew.
    """
    model = runs.copy.model
    before = n_parameters(model)
    inside = [edit for edit in edits if isinstance(edit, Resize) and any(under(edit.path, p) for p in wholes)]
    kept_edits = tuple(edit for edit in edits if edit not in inside)
    kept_edits += tuple(_slow_ways(model, kept_edits))
    resized = resized_names(model, kept_edits)
    with runs.trying() as carry:
        drawn = carry(kept_edits)
        after = n_parameters(model)
        kept = {name: parameter.numel() for name, parameter in model.named_parameters()}
        if is_dear(sum(kept.get(name, 0) for name in resized.intersection(drawn)), after):
            raise RemovalRefused(RefusalCode.TOO_MUCH, ", ".join(wholes), f"{DEAR}.")
        unreached = sorted(set(idle) & kept.keys())
        idle_words = idle_in_words(unreached, model)
    twice = _twice(kept_edits)
    said = [in_words(edit) for edit in (*inside, *twice)]
    changes = [word for word in words if word not in said]
    changes += [in_words(edit) for edit in dict.fromkeys(twice.values())]
    return Plan(
        layers=layers,
        edits=kept_edits,
        rung=rung,
        changes=(*sorted(changes, key=_place), *idle_words, parameters_in_words(before, after)),
        before=before,
        after=after,
        fake=runs.fake,
        rebuilt=tuple(dict.fromkeys(name for name in drawn if name in kept)),
        resized=tuple(sorted(resized)),
        idle=tuple(unreached),
        notes=tuple(notes),
    )


def _place(word: str) -> int:
    """Say where a word stands: what goes, what goes along, what stays, and then what that takes."""
    if " after it removed" in word:
        return 1
    if word.endswith(" kept"):
        return 2
    return 0 if " removed" in word else 3


def _slow_ways(model: nn.Module, edits: tuple[Edit, ...]) -> Iterator[Edit]:
    """Switch off the fast way of torch's transformers, which computes with weights and calls no submodules."""
    touched = [edit.path for edit in edits if not isinstance(edit, ResizeTensor)]
    for path, module in model.named_modules():
        if any(under(other, path) and other != path for other in touched):
            if isinstance(module, nn.TransformerEncoder):
                yield Attribute(path, "use_nested_tensor", value=False)
            elif isinstance(module, nn.TransformerEncoderLayer):
                yield Attribute(path, "activation_relu_or_gelu", 0)


def _twice(edits: tuple[Edit, ...]) -> dict[Edit, Edit]:
    """Return the edits that give a layer a width which another one changes again -> both as one."""
    of: dict[tuple[str, str], list[Resize]] = {}
    for edit in edits:
        if isinstance(edit, Resize):
            of.setdefault((edit.path, edit.side), []).append(edit)
    found: dict[Edit, Edit] = {}
    for same in of.values():
        drawn = any(edit.keep is None for edit in same)
        both = msgspec.structs.replace(same[-1], before=same[0].before, keep=None if drawn else same[-1].keep)
        found |= dict.fromkeys(same, both) if len(same) > 1 else {}
    return found
