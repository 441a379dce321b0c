"""A plan in words: what goes, what behind it stays, what is rebuilt."""

from __future__ import annotations

from collections.abc import Iterable

from etude.core.rungs import Rung
from etude.frameworks.removal.edits import Attribute, Drop, Edit, Fit, Freeze, Resize, ResizeTensor, StandIn


def in_words(edit: Edit, why: Iterable[str] = ()) -> str:
    """Say what an edit does.

    Example:
        >>> in_words(Resize("conv3", "in", 32, None, 64))
        'conv3 rebuilt 64->32 inputs'
    """
    if isinstance(edit, StandIn):
        return _stand_in(edit, list(dict.fromkeys(w for w in why if w)))
    if isinstance(edit, Resize):
        what = {"in": "inputs", "out": "outputs", "through": "channels"}[edit.side]
        return f"{edit.path} {_how(edit.keep, edit.before)} {edit.before}->{edit.size} {what}"
    if isinstance(edit, ResizeTensor):
        return f"{edit.name} {_how(edit.keep, edit.before)} {edit.before}->{edit.size}"
    if isinstance(edit, Freeze):
        return f"{edit.path} removed (the identity takes the place of its weight)"
    if isinstance(edit, Drop):
        return f"{edit.path} removed (nothing calls it)"
    return f"{edit.path}.{edit.name} = {edit.value}"


def _stand_in(edit: StandIn, why: list[str]) -> str:
    rules = [rule for call in edit.calls for rule in call.rules]
    fits = [rule for rule in rules if isinstance(rule, Fit)]
    if fits:
        what = f"{'added up and ' if len(fits[0].sources) > 1 else ''}brought into shape"
        learned = " by a learned dense layer" if fits[0].learned else " by averaging and repeating"
        return f"{edit.path} removed (what went in is {what}{learned})"
    return f"{edit.path} removed" + (f" ({', '.join(why)})" if why else "")


def _how(keep: tuple[int, ...] | None, before: int) -> str:
    return "rebuilt" if keep is None else "cut"


def parameters_in_words(before: int, after: int) -> str:
    """Say how many parameters fewer there are.

    Example:
        >>> parameters_in_words(100_000, 44_640)
        '55,360 fewer parameters'
    """
    if after == before:
        return "as many parameters"
    return f"{abs(before - after):,} {'fewer' if after < before else 'more'} parameters"


def rung_of(edit: Edit, rung: Rung, *, coupled: bool) -> Rung:
    """Return how deep an edit cuts."""
    if isinstance(edit, Resize | ResizeTensor):
        return max(rung, Rung.WIDTH if coupled else Rung.SPLICE)
    return rung if not isinstance(edit, Attribute) else Rung.WIDTH
