"""Each claim held against the facts of both runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from etude.mage import gone
from etude.mage.comparing import counted, listed, names_call, same, shown, times
from etude.mage.expression import ExpressionError, MissingFactError, holds
from etude.mage.facts import Facts, FitFacts
from etude.mage.findings import Finding, alarm, fails, for_a_person, unclear
from etude.mage.licence import called, settings_named
from etude.mage.rows import MOVES
from etude.mage.tables import Pair, has
from etude.mage.variants import Variant, What
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
            yield unclear(f"{_said(claim)}: that could not be watched ({'; '.join(missing)}).", claim=_said(claim))
        yield from _hold(claim, variant, pairs, base, facts)


def _hold(claim: Witness, variant: Variant, pairs: Sequence[Pair], base: Facts, facts: Facts) -> Iterator[Finding]:
    match claim:
        case ModuleGone() | ModuleUnused() | ModuleReplaced() | Resized() | ModuleValue():
            yield from _of_models(claim, variant, pairs, base, facts)
        case ColumnsGone():
            yield from columns_gone(claim, variant, base, facts)
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


def _said(claim: Witness) -> str:
    match claim:
        case ModuleGone() | ModuleUnused() | ModuleReplaced():
            how = {"ModuleGone": "gone", "ModuleUnused": "not used", "ModuleReplaced": "replaced"}
            return f"`{claim.path}` is {how[type(claim).__name__]}"
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
        case ModuleValue():
            return f"`{claim.name}` of `{claim.path}` is {shown(claim.value)}"
        case Holds():
            return claim.expression


# --- models ---------------------------------------------------------------------------------------


def _of_models(claim: Witness, variant: Variant, pairs: Sequence[Pair], base: Facts, facts: Facts) -> Iterator[Finding]:
    if not base.models:
        yield unclear(
            f"{_said(claim)}: no model was seen in the baseline, so that nothing can be said about it. The probe knows "
            "what torch, Keras and scikit-learn build.",
            claim=_said(claim),
        )
        return
    if isinstance(claim, ModuleValue):
        yield from _module_value(claim, pairs)
        return
    about = [pair for pair in pairs if claim in pair.witnesses]
    if not about:
        what = listed(claim.shapes) if isinstance(claim, Resized) else f"`{claim.path}`"  # type: ignore[union-attr]
        known = sorted({name for model in base.models for name in model.modules if name})
        yield unclear(
            f"The baseline has no {what}, so that nothing can be shown. It has {listed(known) if known else 'none'}.",
            claim=_said(claim),
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
        others = [pair for pair in pairs if pair not in about and has(pair.base, claim.path)]  # type: ignore[union-attr]
        if others:
            yield alarm(
                f"{len(about) + len(others)} models have `{claim.path}`; "  # type: ignore[union-attr]
                f"it changed in {listed([pair.base.type for pair in about])} and not in "
                f"{listed([pair.base.type for pair in others])}."
            )


def _module_value(claim: ModuleValue, pairs: Sequence[Pair]) -> Iterator[Finding]:
    having = [pair for pair in pairs if claim.name in _values(pair.base, claim.path)]
    if not having:
        yield unclear(
            f"No module `{claim.path}` of the baseline has a value `{claim.name}`, so that nothing can be shown.",
            claim=_said(claim),
        )
    for pair in having:
        before, found = _values(pair.base, claim.path)[claim.name], _values(pair.variant, claim.path).get(claim.name)
        if same(before, claim.value):
            yield unclear(f"{_said(claim)}: in the baseline already, so that nothing is shown.", claim=_said(claim))
        elif not same(found, claim.value):
            yield fails(
                f"`{claim.name}` of `{claim.path}` is {shown(found)} and was to become {shown(claim.value)} "
                f"({shown(before)} in the baseline).",
                claim=_said(claim),
                expected=shown(claim.value),
                found=shown(found),
            )


def _values(model: Any, path: str) -> Any:
    found = model.modules.get(path)
    return {} if found is None else found.values


# --- columns --------------------------------------------------------------------------------------


def columns_gone(claim: ColumnsGone, variant: Variant, base: Facts, facts: Facts) -> Iterator[Finding]:
    """Yield what speaks against exactly these columns being gone from what reaches ``fit`` or the first batch."""
    columns = claim.columns
    if not base.fits:
        yield from _columns_of_batches(claim, base, facts)
        return
    concerned = [nth for nth, fit in enumerate(base.fits) if set(columns) & set(_names(fit, base))]
    if not concerned and not any(_is_numbered(fit) for fit in base.fits):
        yield unclear(
            f"No call of fit in the baseline has the column {listed(columns)}; the first has "
            f"{listed(_names(base.fits[0], base)) if base.fits[0].columns else 'none'}.",
            claim=_said(claim),
        )
        return
    for nth, (before, after) in enumerate(zip(base.fits, facts.fits, strict=False)):
        if nth in concerned or not concerned:
            yield from _columns_of_fit(claim, before, after, base, facts)


def _names(fit: FitFacts, facts: Facts) -> tuple[str, ...]:
    """Return a matrix's columns by name; those that have numbers alone, by a setting that lists so many names."""
    if not _is_numbered(fit):
        return fit.columns
    lists = [value for value in facts.settings.values() if _is_texts(value) and len(value) == len(fit.columns)]
    return tuple(lists[0]) if len(lists) == 1 else fit.columns


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)


def _is_numbered(fit: FitFacts) -> bool:
    return tuple(fit.columns) == tuple(str(nth) for nth in range(len(fit.columns)))


def _columns_of_fit(
    claim: ColumnsGone, before: FitFacts, after: FitFacts, base: Facts, facts: Facts
) -> Iterator[Finding]:
    names = _names(before, base)
    found_names = _names(after, facts)
    wanted = tuple(name for name in names if name not in claim.columns)
    known = set(claim.columns) <= set(names)
    still = [name for name in claim.columns if name in found_names and not (_is_numbered(after) and not before.digests)]
    numbered = _is_numbered(after)
    expected = len(before.columns) - len(claim.columns)
    if not numbered and still:
        yield fails(
            f"{listed(still)} still reaches {after.type}.fit: it was to go.",
            claim=_said(claim),
            expected="without it",
            found=f"{len(after.columns)} columns with it",
        )
    elif len(after.columns) != expected:
        yield fails(
            f"{len(after.columns)} columns reach {after.type}.fit, {len(before.columns)} in the baseline: "
            f"{len(claim.columns)} were to go.",
            claim=_said(claim),
            expected=f"{expected} columns",
            found=f"{len(after.columns)}",
        )
    elif not numbered and tuple(after.columns) != wanted:
        odd = [name for name in after.columns if name not in wanted] or [n for n in wanted if n not in after.columns]
        yield fails(
            f"The columns that reach {after.type}.fit differ in more than {listed(claim.columns)}: "
            f"{listed(odd or list(after.columns))}"
            f"{'' if odd else ' in another order'}.",
            claim=_said(claim),
            expected=", ".join(wanted),
            found=", ".join(after.columns),
        )
    elif numbered and not (known and (before.digests or found_names != after.columns)):
        yield from _which_unknown(claim, before, after)
        return
    elif numbered and not before.digests and found_names != wanted:
        yield fails(
            f"The setting that lists the columns has lost others than {listed(claim.columns)}.",
            claim=_said(claim),
            expected=", ".join(wanted),
            found=", ".join(found_names),
        )
    yield from _contents(claim, before, after, names)


def _which_unknown(claim: ColumnsGone, before: FitFacts, after: FitFacts) -> Iterator[Finding]:
    yield unclear(
        f"{len(after.columns)} columns reach {after.type}.fit in place of {len(before.columns)}, but they have no names "
        f"there: nobody can tell whether it is {listed(claim.columns)} that went.",
        claim=_said(claim),
        expected=f"without {listed(claim.columns)}",
        found=f"{len(after.columns)} columns without names",
    )


def _contents(claim: ColumnsGone, before: FitFacts, after: FitFacts, names: Sequence[str]) -> Iterator[Finding]:
    """Yield whether the columns that stay have their values."""
    if len(before.digests) != len(names) or len(after.digests) != len(after.columns):
        return
    wanted = [digest for name, digest in zip(names, before.digests, strict=True) if name not in claim.columns]
    if len(wanted) != len(after.digests):
        return  # that was said already
    others = [name for name in names if name not in claim.columns]
    odd = [name for name, one, other in zip(others, wanted, after.digests, strict=True) if one != other]
    if odd:
        yield fails(
            f"{listed(odd)} reaches {after.type}.fit with other values than in the baseline: other columns than "
            f"{listed(claim.columns)} went, or were changed.",
            claim=_said(claim),
            expected="equal values in all columns that stay",
            found=f"others in {len(odd)}",
        )


def _columns_of_batches(claim: ColumnsGone, base: Facts, facts: Facts) -> Iterator[Finding]:
    if not base.batches:
        yield unclear(
            f"{_said(claim)}: neither a call of fit nor a batch was seen in the baseline, so that nothing can be said "
            "about columns.",
            claim=_said(claim),
        )
        return
    widths = [
        (one[-1], other[-1])
        for before, after in zip(base.batches, facts.batches, strict=False)
        for one, other in zip(before, after, strict=False)
        if len(one) > 1 and len(other) > 1 and one[:-1] == other[:-1]
    ]
    if not any(before - after == len(claim.columns) for before, after in widths):
        yield fails(
            f"The first batch is as wide as {shown([after for _, after in widths])}, "
            f"{shown([before for before, _ in widths])} in the baseline: {len(claim.columns)} columns were to go.",
            claim=_said(claim),
            expected=f"{len(claim.columns)} columns fewer",
            found=shown([after for _, after in widths]),
        )
    elif not _listed_without(claim, base, facts):
        yield unclear(
            f"The first batch is {len(claim.columns)} narrower, but its columns have no names: nobody can tell whether "
            f"it is {listed(claim.columns)} that went.",
            claim=_said(claim),
            expected=f"without {listed(claim.columns)}",
            found="columns without names",
        )


def _listed_without(claim: ColumnsGone, base: Facts, facts: Facts) -> bool:
    """Say whether a setting that lists columns has lost exactly these."""
    return any(
        _is_texts(value)
        and set(claim.columns) <= set(value)
        and same(facts.settings.get(name), [one for one in value if one not in claim.columns])
        for name, value in base.settings.items()
    )


# --- calls ----------------------------------------------------------------------------------------


def call_gone(claim: CallGone, variant: Variant, base: Facts, facts: Facts) -> Iterator[Finding]:
    """Yield what speaks against a function not being called any more."""
    before, after = called(claim.name, base), called(claim.name, facts)
    if not before:
        yield unclear(
            f"The baseline does not call `{claim.name}` in {base.steps} steps, so that nothing can be shown.",
            claim=_said(claim),
        )
        return
    if after:
        yield fails(
            f"Variant {variant.name} still calls `{claim.name}` ({after:,} calls in {facts.steps} steps, {before:,} in "
            "the baseline): the component is not removed.",
            claim=_said(claim),
            expected="no call",
            found=f"{after:,} calls",
        )
        return
    for name in claim.still:
        if called(name, base) != called(name, facts):
            yield fails(
                f"`{name}` is called {times(called(name, facts))}, {times(called(name, base))} in the baseline: only "
                f"`{claim.name}` was to go.",
                claim=_said(claim),
                expected=times(called(name, base)),
                found=times(called(name, facts)),
            )
    yield from _under_another_name(claim, variant, before, base, facts)


def _under_another_name(claim: CallGone, variant: Variant, before: int, base: Facts, facts: Facts) -> Iterator[Finding]:
    operators, now = counted(base.operators), counted(facts.operators)
    fewer = any(now.get(one, 0) < count for one, count in operators.items() if one not in MOVES)
    whats = {thing.what for thing in variant.things}
    stands_in = [
        name
        for name, count in facts.calls.items()
        if name not in base.calls and "<" not in name and count == before and ":" in name
    ]
    if stands_in and (any(":" in one and names_call(claim.name, one) for one in base.calls) or not fewer):
        yield fails(
            f"`{claim.name}` is not called, but {listed(stands_in)} is, as often as it was and never in the baseline: "
            "it has another name and is not removed.",
            claim=_said(claim),
            expected="nothing in its place",
            found=f"{listed(stands_in)}, {before:,} calls",
        )
    elif operators and now and not fewer and What.LOSS_TERM in whats:
        yield fails(
            f"`{claim.name}` is not called, but no operator runs less often than in the baseline: what it computed is "
            "still computed.",
            claim=_said(claim),
            expected="fewer operators",
            found="as many as in the baseline",
        )
    elif operators and now and not fewer and whats & {What.AUGMENTATION, What.OTHER}:
        yield for_a_person(
            f"`{claim.name}` is not called, and no operator runs less often than in the baseline. If it works on "
            "tensors, what it did is still done; if it does not, nothing of that can be seen here.",
            claim=_said(claim),
            expected="fewer operators",
            found="as many as in the baseline",
        )


def call_changed(claim: CallChanged, variant: Variant, base: Facts, facts: Facts) -> Iterator[Finding]:
    """Yield what speaks against a function being called another number of times."""
    before, after = called(claim.name, base), called(claim.name, facts)
    if not before or (claim.times is not None and before == claim.times):
        yield unclear(
            f"The baseline calls `{claim.name}` {times(before)}, so that nothing can be shown.", claim=_said(claim)
        )
    elif (claim.times is None and not 0 <= after < before) or (claim.times is not None and after != claim.times):
        wanted = f"fewer than {before:,} times" if claim.times is None else times(claim.times)
        yield fails(
            f"Variant {variant.name} calls `{claim.name}` {times(after)}; it was to be called {wanted}.",
            claim=_said(claim),
            expected=wanted,
            found=times(after),
        )


# --- values ---------------------------------------------------------------------------------------


def group_value(claim: GroupValue, base: Facts, facts: Facts) -> Iterator[Finding]:
    """Yield what speaks against a value of the optimizer's groups being another."""
    groups = [group for optimizer in base.optimizers for group in optimizer if claim.name in group]
    found = [group.get(claim.name) for optimizer in facts.optimizers for group in optimizer]
    if not groups:
        known = sorted({name for optimizer in base.optimizers for group in optimizer for name in group})
        yield unclear(
            f"No optimizer of the baseline has a value `{claim.name}`, so that nothing can be shown. They have "
            f"{listed(known) if known else 'none'}.",
            claim=_said(claim),
        )
    elif all(same(group[claim.name], claim.value) for group in groups):
        yield unclear(f"{_said(claim)}: in the baseline already, so that nothing is shown.", claim=_said(claim))
    elif not found or not all(same(value, claim.value) for value in found):
        yield fails(
            f"`{claim.name}` of the optimizer is {shown(found)} and was to become {shown(claim.value)} "
            f"({shown([group[claim.name] for group in groups])} in the baseline).",
            claim=_said(claim),
            expected=shown(claim.value),
            found=shown(found),
        )


def setting_value(claim: SettingValue, base: Facts, facts: Facts) -> Iterator[Finding]:
    """Yield what speaks against a setting having another value when the program runs."""
    before, found = settings_named(claim.name, base), settings_named(claim.name, facts)
    if not before and not found:
        yield unclear(
            f"Neither run shows a setting `{claim.name}`. They have {listed(sorted(base.settings)) or 'none'}."
            if base.settings
            else f"No settings were seen, `{claim.name}` neither.",
            claim=_said(claim),
        )
    elif before and all(same(value, claim.value) for value in before.values()):
        yield unclear(f"{_said(claim)}: in the baseline already, so that nothing is shown.", claim=_said(claim))
    elif not found or not all(same(value, claim.value) for value in found.values()):
        value = shown(next(iter(found.values()))) if len(found) == 1 else shown(found) if found else "not there"
        yield fails(
            f"The setting `{claim.name}` is {value} when the program runs and was to be {shown(claim.value)}.",
            claim=_said(claim),
            expected=shown(claim.value),
            found=value,
        )


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
