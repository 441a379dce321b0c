"""What all rungs say of a patch, from what is in the record: nothing is run, and nobody is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from etude.mage.facts import Facts
from etude.mage.judge.baseline import Baseline
from etude.mage.judge.completion import judge_completion, not_run, why_broken, why_not_run
from etude.mage.loop.book import Record
from etude.mage.patch.blocks import Patch
from etude.mage.static.leaving import stops_itself
from etude.mage.tree import Tree
from etude.mage.variants import Variant
from etude.mage.verdicts import OPTIONAL, Outcome, Reason, Rung, Verdict

NOT_ASKED: str = "Nobody wanted programs to be run to their end (--short-limit 0)."
NOT_SEEN: str = "Not run: a person has to see it first, since this sandbox keeps little apart."
NOT_YET: str = "It was not run to its end."


def first_rungs(
    record: Record,
    variant: Variant,
    patch: Patch,
    base: Baseline,
    *,
    judge_first_step: Callable[[Facts], Verdict],
    judge: Callable[..., Verdict],
    checked: Sequence[Verdict] | None = None,
) -> tuple[Verdict, ...]:
    """Return what the rungs up to GONE say of a patch.

    Args:
        record: What was prepared.
        variant: What is wanted.
        patch: The patch.
        base: What the untouched program does in its first steps.
        judge_first_step: Says whether a program came far enough.
        judge: Holds what it did against what was claimed.
        checked: What is said of the patch without running it; None for what was said then.
    """
    facts = record.facts.get(patch.digest)
    told = tuple(record.checked.get(patch.digest, ()) if checked is None else checked)
    if facts is None:
        reason = Reason(text=NOT_SEEN)
        unseen = Verdict(rung=Rung.FIRST_STEP, outcome=Outcome.NOT_RUN, reasons=(reason,), patch=patch.digest)
        return (*told, unseen)
    first = judge_first_step(facts)
    if first.outcome is Outcome.FAILED:
        return (*told, first)
    return (*told, first, judge(variant, base, facts, patch=patch))


def to_the_end(record: Record, variant: Variant, patch: Patch, base: Baseline) -> Verdict:
    """Return what the rung SHORT_RUN says of a patch; if it was not run, why."""
    why = why_left_out(record, patch)
    whole, found = record.whole, record.completions.get(patch.digest)
    if why or whole is None or found is None or found.entry != whole.entry:
        return not_run(why or NOT_YET, patch=patch)
    return judge_completion(variant, base, whole, found, stops_itself=may_stop(record.tree), patch=patch)


def why_left_out(record: Record, patch: Patch) -> str:
    """Return why a patched program is not run to its end; nothing if it can be."""
    setup = record.setup
    if setup is None or not setup.end_s:
        return NOT_ASKED
    if patch.digest not in record.facts:
        return NOT_SEEN
    if record.whole is None:
        return NOT_YET
    return why_broken(record.whole) or why_not_run(record.whole)


def with_end(verdicts: Sequence[Verdict], end: Verdict) -> tuple[Verdict, ...]:
    """Return verdicts with that of the run to the end: the others no longer have to say that it is missing."""
    said = (
        msgspec.structs.replace(one, not_run=tuple(name for name in one.not_run if name != end.rung.name))
        for one in verdicts
    )
    return (*said, end)


def with_trial(verdicts: Sequence[Verdict], patch: Patch, failed: Verdict | None) -> tuple[Verdict, ...]:
    """Return verdicts on a patch with what a trial of it has shown that failed, in the place of what one had shown.

    Args:
        verdicts: What the rungs say.
        patch: The patch.
        failed: What the trial has shown; None if none failed.
    """
    told = (msgspec.structs.replace(failed, patch=patch.digest),) if failed is not None else ()
    return (*(one for one in verdicts if one.rung is not Rung.TRIAL), *told)


def of_trial(why: str) -> Verdict:
    """Return what a trial says that failed: whoever approves the patch has to know of it."""
    reason = Reason(text=f"A trial of it failed. {why}", claim="it trains as the untouched program does", found=why)
    return Verdict(rung=Rung.TRIAL, outcome=Outcome.FOR_A_PERSON, reasons=(reason,))


def trial_that_failed(verdicts: Sequence[Verdict]) -> str:
    """Return what a failed trial has shown; empty if none did."""
    return next((reason.text for one in verdicts if one.rung is Rung.TRIAL for reason in one.reasons), "")


def needs_run(record: Record, patch: Patch) -> bool:
    """Say whether the patched program is still to be run to its end, as things are set up now."""
    setup, found = record.setup, record.completions.get(patch.digest)
    if setup is None or why_left_out(record, patch):
        return False
    return found is None or not found.holds_for(setup.to_its_end, setup.end_s)


def needs_baseline_run(record: Record) -> bool:
    """Say whether the untouched program is still to be run to its end, as things are set up now."""
    setup = record.setup
    if setup is None or not setup.end_s:
        return False
    return record.whole is None or not record.whole.holds_for(setup.to_its_end, setup.end_s)


def worst(verdicts: Iterable[Verdict]) -> Outcome:
    """Return what several rungs come to; a rung that was not run makes the whole no pass, unless it may be left out.

    Example:
        >>> worst([Verdict(rung=Rung.PARSE, outcome=Outcome.PASSED)]).value
        'passed'
        >>> worst([]).value
        'passed'
    """
    found = {one.outcome for one in verdicts if not (one.outcome is Outcome.NOT_RUN and one.rung in OPTIONAL)}
    for outcome in (Outcome.FAILED, Outcome.FOR_A_PERSON, Outcome.INCONCLUSIVE):
        if outcome in found:
            return outcome
    return Outcome.INCONCLUSIVE if Outcome.NOT_RUN in found else Outcome.PASSED


def left_out(verdicts: Iterable[Verdict]) -> str:
    """Return why the program was not run to its end; nothing if it was, or if no rung came so far."""
    return next(
        (
            one.reasons[0].text
            for one in verdicts
            if one.rung is Rung.SHORT_RUN and one.outcome is Outcome.NOT_RUN and one.reasons
        ),
        "",
    )


def may_stop(tree: Tree) -> bool:
    """Say whether a program may end its training by what it has learnt."""
    return any(stops_itself(tree.text(path)) for path in tree if path.endswith(".py"))
