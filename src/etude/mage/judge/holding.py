"""Each claim held against the facts of both runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from etude.core.errors import ExpressionError, MissingFactError
from etude.mage.claiming import briefly
from etude.mage.facts import Facts
from etude.mage.judge import gone
from etude.mage.judge.calling import call_changed, call_gone, group_value, setting_value
from etude.mage.judge.comparing import listed, same, shown
from etude.mage.judge.expression import holds
from etude.mage.judge.findings import Finding, alarm, fails, unclear
from etude.mage.judge.lacking import columns_gone
from etude.mage.judge.tables import Pair, has
from etude.mage.variants import Variant
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
    Witness,
)

LOOKS_AT: Final[dict[type, tuple[str, ...]]] = {
    ModuleGone: ("models", "modules", "parameters"),
    ModuleUnused: ("models", "modules", "parameters"),
    ModuleReplaced: ("models", "modules", "parameters"),
    Resized: ("models", "parameters"),
    ColumnsGone: ("fits", "columns"),
    CallGone: ("calls",),
    CallChanged: ("calls",),
    GroupValue: ("optimizers",),
    ModuleValue: ("models", "modules"),
    SettingValue: ("settings",),
}
"""Which facts decide a claim: what was not watched of them leaves it open."""


def hold(variant: Variant, pairs: Sequence[Pair], base: Facts, facts: Facts) -> Iterator[Finding]:
    """Yield what speaks against the claims of a variant, one after the other."""
    for claim in variant.witnesses:
        missing = [text for text in (*base.unseen, *facts.unseen) if _is_about(text, LOOKS_AT.get(type(claim), ()))]
        if missing:
            yield unclear(f"{briefly(claim)}: that could not be watched ({'; '.join(missing)}).", claim=briefly(claim))
        yield from _hold(claim, variant, pairs, base, facts)


def _hold(claim: Witness, variant: Variant, pairs: Sequence[Pair], base: Facts, facts: Facts) -> Iterator[Finding]:
    match claim:
        case ModuleGone() | ModuleUnused() | ModuleReplaced() | Resized() | ModuleValue():
            yield from _of_models(claim, variant, pairs, base, facts)
        case ColumnsGone():
            yield from columns_gone(claim, base, facts)
        case CallGone():
            yield from call_gone(claim, variant, base, facts)
        case CallChanged():
            yield from call_changed(claim, variant, base, facts)
        case GroupValue():
            yield from group_value(claim, base, facts)
        case SettingValue():
            yield from setting_value(claim, base, facts)
        case Holds():
            yield from _expression(claim, base, facts)


def _is_about(text: str, fields: Sequence[str]) -> bool:
    first = text.replace(":", " ").replace(",", " ").split()
    return any(field in first[:3] or field.rstrip("s") in first[:3] for field in fields)


# --- models ---------------------------------------------------------------------------------------


def _of_models(
    claim: ModuleGone | ModuleUnused | ModuleReplaced | Resized | ModuleValue,
    variant: Variant,
    pairs: Sequence[Pair],
    base: Facts,
    facts: Facts,
) -> Iterator[Finding]:
    if not base.models:
        yield unclear(
            f"{briefly(claim)}: no model was seen in the baseline, so that nothing can be said about it. The probe "
            "knows what torch, Keras and scikit-learn build.",
            claim=briefly(claim),
        )
        return
    if isinstance(claim, ModuleValue):
        yield from _module_value(claim, pairs)
        return
    about = [pair for pair in pairs if claim in pair.witnesses]
    if not about:
        what = listed(claim.shapes) if isinstance(claim, Resized) else f"`{claim.path}`"
        known = sorted({name for model in base.models for name in model.modules if name})
        yield unclear(
            f"The baseline has no {what}, so that nothing can be shown. It has {listed(known) if known else 'none'}.",
            claim=briefly(claim),
        )
    for pair in about:
        match claim:
            case ModuleGone():
                yield from gone.module_gone(claim, pair, base, facts, variant.name)
            case ModuleUnused():
                yield from gone.module_unused(claim, pair, facts, variant.name)
            case ModuleReplaced():
                yield from gone.module_replaced(claim, pair, facts, variant.name)
            case Resized():
                yield from gone.resized(claim, pair, variant.name)
    if not isinstance(claim, Resized):
        yield from _in_some_models(claim.path, about, pairs)


def _in_some_models(path: str, about: Sequence[Pair], pairs: Sequence[Pair]) -> Iterator[Finding]:
    others = [pair for pair in pairs if pair not in about and has(pair.base, path)]
    if others:
        yield alarm(
            f"{len(about) + len(others)} models have `{path}`; it changed in "
            f"{listed([pair.base.type for pair in about])} and not in {listed([pair.base.type for pair in others])}."
        )


def _module_value(claim: ModuleValue, pairs: Sequence[Pair]) -> Iterator[Finding]:
    having = [pair for pair in pairs if claim.name in _values(pair.base, claim.path)]
    if not having:
        yield unclear(
            f"No module `{claim.path}` of the baseline has a value `{claim.name}`, so that nothing can be shown.",
            claim=briefly(claim),
        )
    for pair in having:
        before, found = _values(pair.base, claim.path)[claim.name], _values(pair.variant, claim.path).get(claim.name)
        if same(before, claim.value):
            yield unclear(f"{briefly(claim)}: in the baseline already, so that nothing is shown.", claim=briefly(claim))
        elif not same(found, claim.value):
            yield fails(
                f"`{claim.name}` of `{claim.path}` is {shown(found)} and was to become {shown(claim.value)} "
                f"({shown(before)} in the baseline).",
                claim=briefly(claim),
                expected=shown(claim.value),
                found=shown(found),
            )


def _values(model: Any, path: str) -> Any:
    found = model.modules.get(path)
    return {} if found is None else found.values


def _expression(claim: Holds, base: Facts, facts: Facts) -> Iterator[Finding]:
    try:
        if not holds(claim.expression, base, facts):
            yield fails(
                f"`{claim.expression}` is not true of this variant.",
                claim=claim.expression,
                expected="true",
                found="false",
            )
    except MissingFactError as error:
        yield fails(str(error), claim=claim.expression, expected="true", found="a fact that is not there")
    except ExpressionError as error:
        yield unclear(str(error), claim=claim.expression)
