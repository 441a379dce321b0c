"""Claims in words: in a sentence for the person who approves a plan, and in a few words for reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from etude.core.text import times
from etude.mage.near import listed
from etude.mage.witnesses import (
    CallChanged,
    CallGone,
    ColumnsGone,
    GroupValue,
    Holds,
    ModuleGone,
    ModuleReplaced,
    ModuleUnused,
    ModuleValue,
    Resized,
    SettingValue,
    Untouched,
    Witness,
)


def claimed(claim: Witness) -> str:  # noqa: C901, PLR0911 - one for each kind
    """Return what a claim says, in one sentence without a full stop.

    Example:
        >>> claimed(ModuleGone(path="conv2", resized={"conv3.weight": (128, 32, 3, 3)}))
        '`conv2` has no parameter and no call; `conv3.weight` is 128x32x3x3; all other shapes stay'
    """
    match claim:
        case ModuleGone():
            return f"`{claim.path}` has no parameter and no call{_others(claim.resized, stay=claim.others_stay)}"
        case ModuleUnused():
            return f"`{claim.path}` is never called and gets no gradient"
        case ModuleReplaced():
            kind = f" of class {claim.type}" if claim.type else ""
            own = {f"{claim.path}.{name}": shape for name, shape in claim.shapes.items()}
            return f"`{claim.path}` is something else{kind}{_others({**own, **claim.resized}, stay=True)}"
        case Resized():
            return _others(claim.shapes, stay=claim.others_stay).removeprefix("; ")
        case ColumnsGone():
            return f"what is fitted has all columns but {listed(claim.columns)}"
        case CallGone():
            still = f", and {listed(claim.still)} as often as before" if claim.still else ""
            return f"`{claim.name}` is not called any more{still}"
        case CallChanged():
            return f"`{claim.name}` is called {'less often' if claim.times is None else times(claim.times)}"
        case GroupValue():
            return f"`{claim.name}` of the optimizer's groups is {claim.value:g}"
        case ModuleValue():
            return f"`{claim.path}.{claim.name}` is {claim.value!r}"
        case SettingValue():
            return f"`{claim.name}` is {claim.value!r} when it runs"
        case Untouched():
            return "without its argument the program does exactly what it does now"
        case Holds():
            return f"`{claim.expression}` holds"


def briefly(claim: Witness) -> str:  # noqa: PLR0911 - one for each kind
    """Return a claim in a few words.

    Example:
        >>> briefly(ModuleGone(path="conv2")), briefly(ColumnsGone(columns=("age",)))
        ('`conv2` is gone', 'columns `age` gone')
    """
    match claim:
        case ModuleGone():
            return f"`{claim.path}` is gone"
        case ModuleReplaced():
            return f"`{claim.path}` is replaced"
        case Resized():
            return f"{listed(claim.shapes)} resized"
        case ColumnsGone():
            return f"columns {listed(claim.columns)} gone"
        case CallGone():
            return f"`{claim.name}` is not called"
        case CallChanged(times=None):
            return f"`{claim.name}` is called fewer times"
        case GroupValue():
            return f"`{claim.name}` is {claim.value!r}"
    return claimed(claim)


def size(shape: Sequence[int | None] | None) -> str:
    """Return a shape in words: ``128x32x3x3``; a size that may be any is a question mark."""
    return "x".join("?" if one is None else str(one) for one in shape) if shape is not None else "another shape"


def _others(shapes: Mapping[str, Sequence[int | None] | None], *, stay: bool) -> str:
    told = [f"`{name}` is {size(shape)}" for name, shape in shapes.items()]
    end = "all other shapes stay" if stay else "other shapes may change"
    return "; " + "; ".join([*told, end])
