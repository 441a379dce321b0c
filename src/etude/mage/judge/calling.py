"""Whether a function is not called any more, or a value of an optimizer or a setting is another."""

from __future__ import annotations

from collections.abc import Iterator

from etude.core.text import count, times
from etude.mage.claiming import briefly
from etude.mage.facts import Facts
from etude.mage.judge.comparing import counted, listed, names_call, same, shown
from etude.mage.judge.estimators import held_in
from etude.mage.judge.findings import Finding, fails, for_a_person, unclear
from etude.mage.judge.licence import called, settings_named
from etude.mage.judge.rows import MOVES
from etude.mage.variants import Variant, What
from etude.mage.witnesses import CallChanged, CallGone, GroupValue, SettingValue


def call_gone(claim: CallGone, variant: Variant, base: Facts, facts: Facts) -> Iterator[Finding]:
    """Yield what speaks against a function not being called any more."""
    before, after = called(claim.name, base), called(claim.name, facts)
    held = 0 if before else held_in(claim.name, base.fits)
    if held:
        before, after = held, held_in(claim.name, facts.fits)
    if not before:
        yield unclear(
            f"The baseline does not call `{claim.name}` in {base.steps} steps, so that nothing can be shown.",
            claim=briefly(claim),
        )
        return
    if after:
        seen = f"{count(after, 'call')} in {count(facts.steps, 'step')}"
        yield fails(
            f"Variant {variant.name} still calls `{claim.name}` ({seen}, {before:,} in the baseline): the component is "
            "not removed.",
            claim=briefly(claim),
            expected="no call",
            found=seen,
        )
        return
    for name in claim.still:
        if called(name, base) != called(name, facts):
            yield fails(
                f"`{name}` is called {times(called(name, facts))}, {times(called(name, base))} in the baseline: only "
                f"`{claim.name}` was to go.",
                claim=briefly(claim),
                expected=times(called(name, base)),
                found=times(called(name, facts)),
            )
    if not held:  # whether all that is left is as it was is seen in what is fitted
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
            claim=briefly(claim),
            expected="nothing in its place",
            found=f"{listed(stands_in)}, {before:,} calls",
        )
    elif operators and now and not fewer and What.LOSS_TERM in whats:
        yield fails(
            f"`{claim.name}` is not called, but no operator runs less often than in the baseline: what it computed is "
            "still computed.",
            claim=briefly(claim),
            expected="fewer operators",
            found="as many as in the baseline",
        )
    elif operators and now and not fewer and whats & {What.AUGMENTATION, What.OTHER}:
        yield for_a_person(
            f"`{claim.name}` is not called, and no operator runs less often than in the baseline. If it works on "
            "tensors, what it did is still done; if it does not, nothing of that can be seen here.",
            claim=briefly(claim),
            expected="fewer operators",
            found="as many as in the baseline",
        )


def call_changed(claim: CallChanged, variant: Variant, base: Facts, facts: Facts) -> Iterator[Finding]:
    """Yield what speaks against a function being called another number of times."""
    before, after = called(claim.name, base), called(claim.name, facts)
    if not before or (claim.times is not None and before == claim.times):
        yield unclear(
            f"The baseline calls `{claim.name}` {times(before)}, so that nothing can be shown.", claim=briefly(claim)
        )
    elif (claim.times is None and not 0 <= after < before) or (claim.times is not None and after != claim.times):
        wanted = f"fewer than {before:,} times" if claim.times is None else times(claim.times)
        yield fails(
            f"Variant {variant.name} calls `{claim.name}` {times(after)}; it was to be called {wanted}.",
            claim=briefly(claim),
            expected=wanted,
            found=times(after),
        )


def group_value(claim: GroupValue, base: Facts, facts: Facts) -> Iterator[Finding]:
    """Yield what speaks against a value of the optimizer's groups being another."""
    groups = [group for optimizer in base.optimizers for group in optimizer if claim.name in group]
    found = [group.get(claim.name) for optimizer in facts.optimizers for group in optimizer]
    if not groups:
        known = sorted({name for optimizer in base.optimizers for group in optimizer for name in group})
        yield unclear(
            f"No optimizer of the baseline has a value `{claim.name}`, so that nothing can be shown. They have "
            f"{listed(known) if known else 'none'}.",
            claim=briefly(claim),
        )
    elif all(same(group[claim.name], claim.value) for group in groups):
        yield unclear(f"{briefly(claim)}: in the baseline already, so that nothing is shown.", claim=briefly(claim))
    elif not found or not all(same(value, claim.value) for value in found):
        yield fails(
            f"`{claim.name}` of the optimizer is {shown(found)} and was to become {shown(claim.value)} "
            f"({shown([group[claim.name] for group in groups])} in the baseline).",
            claim=briefly(claim),
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
            claim=briefly(claim),
        )
    elif before and all(same(value, claim.value) for value in before.values()):
        yield unclear(f"{briefly(claim)}: in the baseline already, so that nothing is shown.", claim=briefly(claim))
    elif not found or not all(same(value, claim.value) for value in found.values()):
        value = shown(next(iter(found.values()))) if len(found) == 1 else shown(found) if found else "not there"
        yield fails(
            f"The setting `{claim.name}` is {value} when the program runs and was to be {shown(claim.value)}.",
            claim=briefly(claim),
            expected=shown(claim.value),
            found=value,
        )
