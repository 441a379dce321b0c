"""Claims in words."""

from __future__ import annotations

from etude.mage.judge.comparing import listed, shown, times
from etude.mage.witnesses import (
    CallChanged,
    CallGone,
    ColumnsGone,
    GroupValue,
    ModuleGone,
    ModuleReplaced,
    ModuleUnused,
    ModuleValue,
    Resized,
    SettingValue,
    Witness,
)


def said(claim: Witness) -> str:
    """Return a claim in a few words, as it stands in reasons."""
    if isinstance(claim, ModuleGone):
        return f"`{claim.path}` is gone"
    if isinstance(claim, ModuleUnused):
        return f"`{claim.path}` is there and not used"
    if isinstance(claim, ModuleReplaced):
        return f"`{claim.path}` is replaced"
    if isinstance(claim, ModuleValue):
        return f"`{claim.name}` of `{claim.path}` is {shown(claim.value)}"
    return _of_others(claim)


def _of_others(claim: Witness) -> str:
    match claim:
        case Resized():
            return f"{listed(claim.shapes)} resized"
        case ColumnsGone():
            return f"columns {listed(claim.columns)} gone"
        case CallGone():
            return f"`{claim.name}` is not called"
        case CallChanged():
            return f"`{claim.name}` is called {'fewer times' if claim.times is None else times(claim.times)}"
        case GroupValue() | SettingValue():
            return f"`{claim.name}` is {shown(claim.value)}"
    return getattr(claim, "expression", "")
