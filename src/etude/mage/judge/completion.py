"""Whether a variant comes to its end as the untouched program does: what no first step can show.

Some things decide by themselves: an error, no metric, a metric that is no number, a training that is cut short. All
else that differs only in the long run may follow from what was learnt, such as how often the best state was saved:
that is for a person, and never sent back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import msgspec

from etude.core.text import count
from etude.mage.facts import Facts
from etude.mage.judge.baseline import Baseline, digest_of_facts, ended_well
from etude.mage.judge.comparing import listed, shown
from etude.mage.judge.estimators import is_asked
from etude.mage.judge.feeding import goes_along
from etude.mage.judge.findings import Finding, fails, for_a_person, outcome_of, unclear
from etude.mage.judge.judging import judge, judge_first_step
from etude.mage.judge.licence import Licence, licence_of
from etude.mage.judge.tables import pairs
from etude.mage.patch.blocks import Patch
from etude.mage.values import Value
from etude.mage.variants import Variant
from etude.mage.verdicts import Outcome, Reason, Rung, Verdict
from etude.mage.witnesses import Holds, SettingValue

TIME: Final = "time limit"
"""How a program ends that was given no more time."""
STEPS: Final = "as many steps as in the baseline"


class Completion(Value, frozen=True):
    """A program that was run to its end, or as long as it was given.

    Attributes:
        entry: How it was run.
        limit_s: Seconds that it was given.
        facts: What it did.
        name: The metric that was looked for; empty if none is named.
        metric: Its value; None if the program left none.
    """

    entry: str
    limit_s: float
    facts: Facts
    name: str = ""
    metric: float | None = None

    @property
    def timed_out(self) -> bool:
        """Whether it did not come to its end in time."""
        return self.facts.ended.why == TIME

    def holds_for(self, entry: str, limit_s: float) -> bool:
        """Say whether it need not be run again: so it was run, and more time would tell no more."""
        return self.entry == entry and (not self.timed_out or limit_s <= self.limit_s)


def why_broken(base: Completion) -> str:
    """Return why the untouched program is of no use as it ends; nothing if it is, or if it had no time to end."""
    if base.timed_out:
        return ""
    if not ended_well(base.facts):
        what = f"It does not come to its end: {_ending(base.facts)}"
    elif base.name and (base.metric is None or not math.isfinite(base.metric)):
        left = "leaves none" if base.metric is None else f"leaves {base.metric}"
        what = f"It comes to its end, and was to leave the metric {base.name!r} there: it {left}."
    else:
        return ""
    return (
        f"The program was run to its end as {base.entry!r}. {what} That is your code, not the patch: no variant was "
        "written, and none of your code was sent. Make it come to its end there, or leave this rung out with "
        "--short-limit 0."
    )


def why_not_run(base: Completion) -> str:
    """Return why no variant is run to its end; nothing if each can be."""
    if not base.timed_out:
        return ""
    return (
        f"The untouched program did not come to its end within {base.limit_s:g} s, watched as it is, so no variant was "
        "run to its end. Shorten it for this rung, as with --short '--epochs 1', or give it more time with "
        "--short-limit."
    )


def not_run(why: str, *, patch: Patch | None = None) -> Verdict:
    """Return the verdict of a rung that was left out."""
    reason = Reason(text=why, claim="it comes to its end")
    digest = patch.digest if patch is not None else ""
    return Verdict(rung=Rung.SHORT_RUN, outcome=Outcome.NOT_RUN, reasons=(reason,), patch=digest)


def judge_completion(
    variant: Variant,
    base: Baseline,
    whole: Completion,
    found: Completion,
    *,
    stops_itself: bool = False,
    patch: Patch | None = None,
) -> Verdict:
    """Return whether a variant comes to its end as the untouched program does.

    Args:
        variant: What was planned, with its claims.
        base: What was seen of the first steps of the untouched program, more than once.
        whole: The untouched program, run to its end.
        found: The patched one, run to its end in the same way.
        stops_itself: Whether the untouched program may end its training by what it has learnt: then another number of
            steps may follow from the variant.
        patch: The patch, which the verdict then names.

    Returns:
        The verdict of rung SHORT_RUN. One that passed has as its reason what was seen, and what it took.
    """
    findings = list(_findings(variant, base, whole, found, stops_itself))
    outcome, reasons, alarms = outcome_of(findings)
    if outcome is Outcome.PASSED:
        reasons = (Reason(text=_told(whole, found), claim="it comes to its end"),)
    return Verdict(
        rung=Rung.SHORT_RUN,
        outcome=outcome,
        reasons=reasons,
        alarms=alarms,
        facts=digest_of_facts(found.facts),
        patch=patch.digest if patch is not None else "",
    )


def _findings(
    variant: Variant, base: Baseline, whole: Completion, found: Completion, stops_itself: bool
) -> Iterator[Finding]:
    if found.timed_out:
        yield unclear(
            f"It did not come to its end within {found.limit_s:g} s; the untouched program took "
            f"{whole.facts.wall_s:.1f} s. It hangs or is slower: nobody can tell. Give it more time with "
            "--short-limit.",
            claim="it comes to its end",
            expected=f"its end within {found.limit_s:g} s",
            found=TIME,
        )
        return
    if not ended_well(found.facts):
        yield _failed(found.facts)
        return
    own = [*_metric(whole, found), *_steps(variant, whole.facts, found.facts, stops_itself)]
    yield from own
    yield from _others(whole.facts, found.facts, named=found.name)
    yield from _diverged(whole.facts, found.facts)
    known = {one.reason.claim for one in own}
    yield from (one for one in _rest(variant, base, whole, found) if one.reason.claim not in known)


def _failed(facts: Facts) -> Finding:
    """Return how it failed, with what has to be known to mend it."""
    if facts.ended.error:
        reason = judge_first_step(facts).reasons[0]
        return fails(
            f"It does not come to its end, as the untouched program does. {reason.text}",
            claim="it comes to its end",
            expected="its end",
            found=reason.found,
        )
    return fails(
        f"It does not come to its end, as the untouched program does: {_ending(facts)}",
        claim="it comes to its end",
        expected="its end",
        found=facts.ended.traceback.strip() or facts.ended.why,
    )


def _ending(facts: Facts) -> str:
    ended = facts.ended
    after = f" after {count(facts.steps, 'step')}" if facts.steps else ""
    where = f" at {ended.frame}" if ended.frame else ""
    what = f"{ended.error}{after}{where}: {ended.message.rstrip('.')}" if ended.error else f"{ended.why}{after}"
    last = ended.traceback.strip().splitlines()[-1:] if not ended.error else []
    return "; ".join([what, *last]) + "."


def _metric(whole: Completion, found: Completion) -> Iterator[Finding]:
    if not found.name:
        return
    if found.metric is None:
        there = listed(sorted(found.facts.metrics)) if found.facts.metrics else "none"
        yield fails(
            f"It comes to its end and leaves no metric {found.name!r}, where the untouched program does.",
            claim="its metric is there",
            expected=f"{found.name}, as {shown(whole.metric)} in the baseline",
            found=there,
        )
    elif not math.isfinite(found.metric):
        yield fails(
            f"Its metric {found.name!r} is {found.metric}, which is no finite number ({shown(whole.metric)} in the "
            "baseline).",
            claim="its metric is a finite number",
            expected="a finite number",
            found=str(found.metric),
        )


def _steps(variant: Variant, base: Facts, facts: Facts, stops_itself: bool) -> Iterator[Finding]:
    said = any(isinstance(one, SettingValue | Holds) for one in variant.witnesses)
    licence = licence_of(variant, pairs(base, facts, variant.witnesses), base, facts)
    for before, after, what, whole, along in _counted(base, facts, licence):
        if before == after:
            continue
        then, now = count(before, what), count(after, what)
        how = "shorter" if after < before else "longer"
        why = (
            "The program may stop by what it has learnt, so that this may follow from the variant."
            if stops_itself
            else "They are those of estimators that are called no more."
            if along
            else "No claim says so."
        )
        yield (for_a_person if stops_itself or said or along else fails)(
            f"Until its end it takes {now}, {then} in the baseline: its {whole} is {how}. {why}",
            claim=STEPS,
            expected=then,
            found=now,
        )


def _counted(base: Facts, facts: Facts, licence: Licence) -> Iterator[tuple[int, int, str, str, bool]]:
    """Yield how often something was done then and now, what, a part of what, and whether what lacks may go along."""
    yield base.steps, facts.steps, "optimizer step", "training", False
    for what, whole, asks in (("fit", "training", False), ("prediction", "evaluation", True)):
        one, other = ([fit for fit in run.fits if not fit.within and is_asked(fit) is asks] for run in (base, facts))
        yield len(one), len(other), what, whole, goes_along(one, other, licence)


def _others(base: Facts, facts: Facts, *, named: str) -> Iterator[Finding]:
    """Yield numbers beside the metric that are missing, or are none."""
    lost = [
        name
        for name, value in base.metrics.items()
        if name != named and math.isfinite(value) and not math.isfinite(facts.metrics.get(name, math.nan))
    ]
    if lost:
        yield for_a_person(
            f"It tells no {listed(lost)} at its end, or none that is a finite number; the untouched program does.",
            claim="what is told at the end is told",
            expected=listed(lost),
            found=listed(sorted(facts.metrics)) if facts.metrics else "none",
        )


def _diverged(base: Facts, facts: Facts) -> Iterator[Finding]:
    odd = next((n for n, loss in enumerate(facts.losses, start=1) if not math.isfinite(loss)), None)
    if odd is not None and all(map(math.isfinite, base.losses)):
        yield for_a_person(
            f"Its loss is {facts.losses[odd - 1]} from step {odd} on, and never in the baseline. It may be what comes "
            "of the variant, or an error.",
            claim="its losses are finite numbers",
            expected="finite numbers",
            found=f"{facts.losses[odd - 1]} at step {odd}",
        )


def _rest(variant: Variant, base: Baseline, whole: Completion, found: Completion) -> Iterator[Finding]:
    """Yield what differs by the rules that hold for the first steps, as what a person has to look at."""
    one, other = (msgspec.structs.replace(run.facts, metrics=_only(run)) for run in (whole, found))
    verdict = judge(variant, msgspec.structs.replace(base, facts=one), other)
    # what a change that others share does without its argument is no question of learning
    odd = fails if variant.serves else for_a_person
    weigh = unclear if verdict.outcome is Outcome.INCONCLUSIVE else odd
    for reason in verdict.reasons:
        yield weigh(f"Until its end: {reason.text}", claim=reason.claim, expected=reason.expected, found=reason.found)


def _only(run: Completion) -> dict[str, float]:
    """Return the metric alone: what else is printed may be a setting, and equal in both for that."""
    return {run.name: run.metric} if run.name and run.metric is not None and math.isfinite(run.metric) else {}


def _told(whole: Completion, found: Completion) -> str:
    runs = []
    for run in (found, whole):
        metric = f", {run.name} {run.metric:.6g}" if run.metric is not None else ""
        runs.append(f"{run.facts.wall_s:.1f} s, {count(run.facts.steps, 'step')}{metric}")
    return f"It came to its end: {runs[0]} (baseline: {runs[1]})."
