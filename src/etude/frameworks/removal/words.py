"""A plan in words: what goes, what behind it stays, what is rebuilt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from etude.frameworks.removal.edits import (
    Attribute,
    Bare,
    Drop,
    Edit,
    FewerHeads,
    Fill,
    Fit,
    Freeze,
    Padded,
    Resize,
    ResizeTensor,
    StandIn,
)
from etude.frameworks.removal.parametrized import makers, weights


def in_words(edit: Edit, why: Iterable[str] = ()) -> str:
    """Say what an edit does.

    Example:
        >>> in_words(Resize("conv3", "in", 32, None, 64))
        'conv3 rebuilt 64->32 inputs'
    """
    match edit:
        case StandIn():
            said = _stand_in(edit, list(dict.fromkeys(w for w in why if w)))
        case Resize():
            what = {"in": "inputs", "out": "outputs", "through": "channels", "hidden": "hidden units"}[edit.side]
            said = f"{edit.path} {_how(edit.keep, edit.before)} {edit.before}->{edit.size} {what}"
        case ResizeTensor():
            said = f"{edit.name} {_how(edit.keep, edit.before)} {edit.before}->{edit.size}"
        case Padded():
            said = f"{edit.path} stays {edit.before} wide to its callers"
        case FewerHeads():
            said = f"{edit.path} cut {edit.before}->{len(edit.keep)} heads"
        case Freeze():
            reasons = [w for w in why if w] or ["the identity takes the place of its weight"]
            said = f"{edit.path} removed ({', '.join(reasons)})"
        case Bare():
            keep = "keeps its value" if len(edit.names) == 1 else "keep their values"
            said = f"{', '.join(makers(edit))} removed ({', '.join(weights(edit))} {keep})"
        case Drop():
            said = f"{edit.path} removed (nothing calls it)"
        case Attribute():
            said = f"{edit.path}.{edit.name} = {edit.value}"
    return said


def _stand_in(edit: StandIn, why: list[str]) -> str:
    rules = [rule for call in edit.calls for rule in call.rules]
    fits = [rule for rule in rules if isinstance(rule, Fit)]
    if fits:
        done = ["added up"] if len(fits[0].sources) > 1 else []
        if fits[0].learned:
            done.append("brought into shape by a learned dense layer")
        elif any(map(moves, fits)):
            done.append("resized along its positions")
        what = f"what went in is {', '.join(done)}" if done else "what went in comes out"
        if any(isinstance(rule, Fill) and not rule.unused and not rule.value for rule in rules):
            what += ", another of its results is 0"
        return f"{edit.path} removed ({', '.join([what, *(w for w in why if ' channels' in w)])})"
    return f"{edit.path} removed" + (f" ({', '.join(why)})" if why else "")


def moves(fit: Fit) -> bool:
    """Say whether an adapter gives other positions than it reads, or another number of them."""
    if any(source.axes.places != fit.axes.places for source in fit.sources):
        return True
    dims = [(fit.dims[place.axis], place.axis) for place in fit.axes.places]
    read = {source.path for source in fit.sources}
    return any(dim.path not in read or (dim.axis, dim.times) != (axis, dim.over) for dim, axis in dims)


def _how(keep: tuple[int, ...] | None, before: int) -> str:
    return "rebuilt" if keep is None else "cut"


def idle_in_words(idle: Sequence[str], model: nn.Module) -> list[str]:
    """Name what is kept and has no effect any more: layers, or parameters where others in their layer have one."""
    found: list[str] = []
    for name in idle:
        layer = name.rpartition(".")[0]
        inside = [f"{layer}.{other}" for other, _ in model.get_submodule(layer).named_parameters()]
        whole = layer and all(other in idle for other in inside)
        found.append(f"no longer reached: {layer if whole else name}")
    return list(dict.fromkeys(found))
