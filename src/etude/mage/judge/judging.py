"""Whether a variant is what was planned: decided from facts of two runs, and by nobody who wrote any of it.

Two questions, and both have to be answered with yes. Does each claim of the plan hold (``holding``, ``gone``)? And is
everything else as in the baseline (``rows``, ``traces``, ``collateral``), but for what follows from the claims
(``licence``)? The second one is what catches a change behind the change: what nobody has claimed may not differ.
Both are asked again of what was seen with another seed, so that nothing can be right for one seed alone.
What is odd and no failure is an alarm (``alarms``). What nobody can tell is no pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from etude.mage.facts import Facts
from etude.mage.judge.alarms import alarms
from etude.mage.judge.baseline import Baseline, digest_of_facts, ended_well
from etude.mage.judge.beginning import beginning_with_another_seed, set_by_hand
from etude.mage.judge.collateral import rest_of_run
from etude.mage.judge.comparing import counted, listed, same, shown
from etude.mage.judge.findings import Finding, Weight, alarm, fails, outcome_of, unclear
from etude.mage.judge.grouping import grouping
from etude.mage.judge.holding import hold
from etude.mage.judge.licence import licence_of
from etude.mage.judge.rows import rest_of_models
from etude.mage.judge.tables import Pair, pairs
from etude.mage.judge.traces import rest_of_traces
from etude.mage.patch.blocks import Patch
from etude.mage.variants import Variant
from etude.mage.verdicts import Outcome, Reason, Rung, Verdict
from etude.mage.witnesses import CallChanged, CallGone, GroupValue, Holds, SettingValue

LINES: Final = 12
"""So many lines of a traceback are sent back."""
IMPORTS: Final = ("ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "TabError")


def judge(variant: Variant, base: Baseline, facts: Facts, *, patch: Patch | None = None) -> Verdict:
    """Return whether a variant is what was planned, by what was seen of it.

    Args:
        variant: What was planned, with its claims.
        base: What was seen of the untouched program.
        facts: What was seen of the variant, run with the same seed and for as many steps.
        patch: The patch, which the verdict then names.

    Returns:
        The verdict of rung GONE, or of rung BASELINE for a change that others share; that of an earlier rung if the
        variant does not run. Where no metric was seen, since both runs were watched for their first steps alone, it
        says that rung SHORT_RUN was not run: how long is trained and how it is measured was not seen then.
    """
    if variant.serves:
        return judge_baseline(base, facts, patch=patch)
    digest = patch.digest if patch is not None else ""
    if not ended_well(facts):
        return _with_patch(judge_first_step(facts), digest)
    findings = list(_findings(variant, base, facts))
    findings += _with_another_seed(findings, base, facts, lambda *runs: _findings(variant, *runs))
    findings += _seeded(variant, base.facts, facts)
    outcome, reasons, told = outcome_of(findings)
    return Verdict(
        rung=Rung.GONE,
        outcome=outcome,
        reasons=reasons,
        alarms=told,
        not_run=() if base.facts.metrics or facts.metrics else (Rung.SHORT_RUN.name,),
        facts=digest_of_facts(facts),
        patch=digest,
    )


def _with_another_seed(
    first: Sequence[Finding],
    base: Baseline,
    facts: Facts,
    compare: Callable[[Baseline, Facts], Iterable[Finding]],
) -> Iterator[Finding]:
    """Yield what the runs with another seed show, and those with the first one did not; alarms are told once."""
    if base.facts.other is None or facts.other is None:
        return
    if not ended_well(base.facts.other):
        yield alarm("The untouched program does not run with another seed: variants were compared with one seed alone.")
        return
    if not ended_well(facts.other):
        reason = _what_happened(facts.other)
        yield fails(
            f"With another seed: {reason.text}", claim=reason.claim, expected=reason.expected, found=reason.found
        )
        return
    known = {(one.weight, one.reason.claim) for one in first} | {(Weight.ALARM, "")}
    other = msgspec.structs.replace(base, facts=base.facts.other, lowest=(), highest=())
    for one in compare(other, facts.other):
        if (one.weight, one.reason.claim) not in known:
            yield _told_of(one)


def _seeded(variant: Variant, base: Facts, facts: Facts) -> Iterator[Finding]:
    """Yield what no seed reaches any more, and what none has ever reached, where both were seen with two."""
    if base.other is None or facts.other is None:
        return
    first, second = (pairs(*runs, variant.witnesses) for runs in ((base, facts), (base.other, facts.other)))
    if len(first) == len(second):
        licence = licence_of(variant, first, base, facts)
        seeds = list(zip(first, second, strict=True))
        yield from beginning_with_another_seed(seeds, licence)
        yield from set_by_hand(seeds, licence)


def _told_of(one: Finding) -> Finding:
    return Finding(one.weight, msgspec.structs.replace(one.reason, text=f"With another seed: {one.reason.text}"))


def _findings(variant: Variant, base: Baseline, facts: Facts) -> Iterator[Finding]:
    if not variant.witnesses:
        yield unclear(
            f"Nothing is claimed of variant {variant.name}, so that nothing can be shown. Give its plan a witness.",
            claim="a claim",
        )
        return
    if not base.is_enough:
        yield unclear(f"{base.text} So far there are {base.runs}.", claim="enough runs of the baseline")
    if not _was_seen(base.facts) or not _was_seen(facts):
        whose = "the variant" if _was_seen(base.facts) else "the baseline"
        yield unclear(_nothing_seen(whose, facts if whose == "the variant" else base.facts), claim="something was seen")
        return
    both = pairs(base.facts, facts, variant.witnesses)
    licence = licence_of(variant, both, base.facts, facts)
    varies = frozenset(base.varies)
    held = list(hold(variant, both, base.facts, facts))
    yield from held
    yield from rest_of_models(both, licence, varies)
    yield from grouping(both, base.facts, facts, licence)
    yield from rest_of_traces(both, base.facts, facts, licence, varies)
    yield from rest_of_run(base.facts, facts, licence, varies)
    yield from _first_loss(variant, base, facts)
    if not any(one.weight in (Weight.FAILS, Weight.UNCLEAR) for one in held):
        yield from _nothing_differs(variant, base, facts, both)
    yield from map(alarm, alarms(both, base.facts, facts))


def _was_seen(facts: Facts) -> bool:
    return bool(facts.steps or facts.fits)


def _nothing_seen(whose: str, facts: Facts) -> str:
    why = f" ({'; '.join(facts.unseen)})" if facts.unseen else ""
    return (
        f"Neither an optimizer step nor a call of fit was seen in {whose}{why}: it ended before, or is written with "
        "something that the probe does not know. A person has to decide."
    )


def _first_loss(variant: Variant, base: Baseline, facts: Facts) -> Iterator[Finding]:
    """Yield whether the first loss is another, where all that goes comes after it."""
    later = all(
        isinstance(one, GroupValue)
        or (isinstance(one, CallGone) and any(word in one.name.lower() for word in ("clip", "sched", "ema", "swa")))
        for one in variant.witnesses
    )
    if not later or not base.deterministic or not base.facts.losses or not facts.losses:
        return
    if not same(base.facts.losses[0], facts.losses[0]):
        yield fails(
            f"The first loss is {facts.losses[0]!r}, {base.facts.losses[0]!r} in the baseline, though what goes comes "
            "after it: something else was changed.",
            claim="the first loss as in the baseline",
            expected=repr(base.facts.losses[0]),
            found=repr(facts.losses[0]),
        )


def _nothing_differs(variant: Variant, base: Baseline, facts: Facts, both: tuple[Pair, ...]) -> Iterator[Finding]:
    """Yield whether a setting has its value, and nothing follows from it."""
    if not all(isinstance(one, SettingValue | Holds | CallGone | CallChanged) for one in variant.witnesses):
        return
    calls = all(isinstance(one, CallGone | CallChanged) for one in variant.witnesses)
    one, other = base.facts, facts
    alike = all(
        (
            same([_plain(pair.base) for pair in both], [_plain(pair.variant) for pair in both]),
            same(_plain(one.fits), _plain(other.fits)),
            same(one.optimizers, other.optimizers),
            same(one.scheduled, other.scheduled),
            same(one.batches, other.batches) and same(one.lengths, other.lengths),
            calls or same(one.calls, other.calls),
            same(counted(one.operators), counted(other.operators)),
            one.steps == other.steps,
        )
    )
    if not alike:
        return
    if calls:
        if base.deterministic and one.losses and same(one.losses, other.losses):
            # without operators nobody can tell a function that had no effect yet from one that lives on elsewhere
            seen = bool(one.operators and other.operators)
            if not seen and not any(":" in claim.name for claim in variant.witnesses if isinstance(claim, CallGone)):
                return
            yield (fails if seen else unclear)(
                f"{_names(variant)} is not called as before, and nothing else differs from the baseline in "
                f"{other.steps} steps, no loss and no operator: what it did is still done, or it did nothing.",
                claim="what is not called makes a difference",
                expected="a difference",
                found="none",
            )
        return
    names = _names(variant)
    if base.deterministic and same(one.losses, other.losses) and same(one.metrics, other.metrics):
        yield fails(
            f"{names} has its new value, and nothing else differs from the baseline in {other.steps} steps, no loss "
            "and no call: it is read and not used. If it acts later, watch more steps.",
            claim="the setting does something",
            expected="a difference",
            found="none",
        )
    elif not base.deterministic:
        yield unclear(
            f"{names} has its new value, and nothing differs from the baseline but its losses, which differ by "
            "themselves: whether it is used, nobody can tell.",
            claim="the setting does something",
        )


def _plain(values: object) -> object:
    return msgspec.to_builtins(values)


def _names(variant: Variant) -> str:
    names = [getattr(claim, "name", "") or getattr(claim, "expression", "") for claim in variant.witnesses]
    return listed(list(dict.fromkeys(names)))


# --- does it run ----------------------------------------------------------------------------------


def judge_first_step(facts: Facts) -> Verdict:
    """Return whether a program comes to its first step, with what has to be known to mend it if it does not.

    Returns:
        A verdict of rung IMPORT if it cannot even be imported, else of rung FIRST_STEP.
    """
    digest = digest_of_facts(facts)
    ended = facts.ended
    if ended_well(facts):
        if _was_seen(facts):
            return Verdict(rung=Rung.FIRST_STEP, outcome=Outcome.PASSED, facts=digest)
        reason = Reason(text=_nothing_seen("the program", facts), claim="a first step", found=ended.why)
        return Verdict(rung=Rung.FIRST_STEP, outcome=Outcome.INCONCLUSIVE, reasons=(reason,), facts=digest)
    at_import = ended.error.rpartition(".")[2] in IMPORTS and not _was_seen(facts)
    return Verdict(
        rung=Rung.IMPORT if at_import else Rung.FIRST_STEP,
        outcome=Outcome.FAILED,
        reasons=(_what_happened(facts),),
        facts=digest,
    )


def _what_happened(facts: Facts) -> Reason:
    ended = facts.ended
    after = f" after {facts.steps} steps" if facts.steps else ""
    where = f" at {ended.frame}" if ended.frame else ""
    if not ended.error:
        code = "" if ended.code in (0, None) else f", exit code {ended.code}"
        return Reason(
            text=f"The program ended before enough was seen{after}: {ended.why}{code}.",
            claim="it runs",
            expected="enough seen",
            found=f"{ended.why}{code}\n{_last(ended.traceback)}".strip(),
        )
    shapes = re.findall(r"\[\d+(?:, ?\d+)*\]|\b\d+(?:x\d+)+\b", ended.message)
    told = f" Shapes: {', '.join(dict.fromkeys(shapes))}." if shapes else ""
    message = ended.message.rstrip(".")
    return Reason(
        text=f"{ended.error}{after}{where}: {message}.{told}",
        claim="it runs",
        expected="no error",
        found=_last(ended.traceback) or f"{ended.error}: {ended.message}",
    )


def _last(traceback: str) -> str:
    return "\n".join(traceback.strip().splitlines()[-LINES:])


# --- is the baseline still the baseline -----------------------------------------------------------


def judge_baseline(base: Baseline, facts: Facts, *, patch: Patch | None = None) -> Verdict:
    """Return whether parametrised code with its variant switched off still is the untouched program.

    Args:
        base: What was seen of the untouched program.
        facts: What was seen of the patched one, with every variant off.
        patch: The patch, which the verdict then names.

    Returns:
        A verdict of rung BASELINE, with the first row or step that differs.
    """
    digest = patch.digest if patch is not None else ""
    if not ended_well(facts):
        return _with_patch(judge_first_step(facts), digest)
    findings = [] if base.is_enough else [unclear(f"{base.text} So far there are {base.runs}.")]
    if not _was_seen(base.facts):
        findings.append(unclear(_nothing_seen("the baseline", base.facts)))
    findings += _untouched(base, facts)
    findings += _with_another_seed(findings, base, facts, _untouched)
    outcome, reasons, told = outcome_of(findings)
    return Verdict(
        rung=Rung.BASELINE, outcome=outcome, reasons=reasons, alarms=told, facts=digest_of_facts(facts), patch=digest
    )


def _untouched(base: Baseline, facts: Facts) -> Iterator[Finding]:
    varies = frozenset(base.varies)
    both = pairs(base.facts, facts, ())
    licence = licence_of(Variant(name="off", intent=""), both, base.facts, facts)
    yield from rest_of_models(both, licence, varies)
    yield from grouping(both, base.facts, facts, licence)
    yield from rest_of_traces(both, base.facts, facts, licence, varies)
    yield from rest_of_run(base.facts, facts, licence, varies)
    yield from _begin(base, facts)
    yield from _trace(base, facts)


def _begin(base: Baseline, facts: Facts) -> Iterator[Finding]:
    if "initial values" in base.varies:
        return
    for one, other in zip(base.facts.models, facts.models, strict=False):
        for name, row in one.parameters.items():
            there = other.parameters.get(name)
            if there is not None and row.digest and there.digest and row.digest != there.digest:
                yield fails(
                    f"With the variant off, `{name}` begins with other values than in the baseline.",
                    claim="the baseline is untouched",
                    expected=row.digest,
                    found=there.digest,
                )
                return


def _trace(base: Baseline, facts: Facts) -> Iterator[Finding]:
    for step, found in enumerate(facts.losses[: len(base.lowest)], start=1):
        low, high = base.lowest[step - 1], base.highest[step - 1]
        # with 5 runs a further one lies outside of them every third time; outside of their spread again, hardly ever
        room = 0.0 if base.deterministic else high - low
        within = low - room <= found <= high + room or (same(low, found) and same(high, found))
        if not within:
            expected = repr(low) if base.deterministic else f"{low - room!r} to {high + room!r}"
            yield fails(
                f"With the variant off, the loss of step {step} is {found!r}, and {expected} in the baseline: the "
                "baseline was changed.",
                claim="the baseline is untouched",
                expected=expected,
                found=shown(found),
            )
            return


def _with_patch(verdict: Verdict, digest: str) -> Verdict:
    return Verdict(
        rung=verdict.rung,
        outcome=verdict.outcome,
        reasons=verdict.reasons,
        alarms=verdict.alarms,
        facts=verdict.facts,
        patch=digest,
    )
