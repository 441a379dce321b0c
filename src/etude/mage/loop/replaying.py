"""An old study judged by today's judge: nobody is asked, and nothing is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from etude.mage.facts import Facts
from etude.mage.judge.baseline import Baseline
from etude.mage.loop.book import Record
from etude.mage.loop.ladder import first_rungs, to_the_end, with_end, with_trial, worst
from etude.mage.patch.blocks import Patch
from etude.mage.tree import Tree
from etude.mage.values import Value
from etude.mage.variants import Variant
from etude.mage.verdicts import Outcome, Rung, Verdict


class Rejudged(Value, frozen=True):
    """What today's judge says of a variant.

    Attributes:
        variant: The variant.
        before: What was said then; None if nothing was.
        now: What is said now.
        verdicts: In full.
    """

    variant: str
    before: Outcome | None
    now: Outcome
    verdicts: tuple[Verdict, ...]

    @property
    def differs(self) -> bool:
        """Whether it is something else."""
        return self.before is not self.now


def rejudge(
    record: Record,
    *,
    compare: Callable[[Sequence[Facts]], Baseline],
    check: Callable[[Tree, Patch, Variant], Sequence[Verdict]],
    judge_first_step: Callable[[Facts], Verdict],
    judge: Callable[..., Verdict],
) -> list[Rejudged]:
    """Return what today's judge says of each variant whose patched program has run.

    What was run to its end then is judged there as well, and what a trial has shown stays so. A variant whose plan has
    changed since is judged by what is wanted of it now.

    Args:
        record: What was prepared.
        compare: Makes the baseline of what the untouched program did.
        check: Looks at a patch without running it.
        judge_first_step: Says whether a program came far enough.
        judge: Holds what it did against what was claimed.
    """
    if record.plan is None or not record.runs:
        return []
    base, found = compare(record.runs), []
    for variant in record.plan.variants:
        patch = record.patch_of(variant.name)
        if patch is None or patch.digest not in record.facts:
            continue
        checked = tuple(check(record.tree, patch, variant))
        verdicts = first_rungs(
            record, variant, patch, base, judge_first_step=judge_first_step, judge=judge, checked=checked
        )
        if any(one.rung is Rung.SHORT_RUN for one in record.verdicts_of(variant.name)):
            verdicts = with_end(verdicts, to_the_end(record, variant, patch, base))
        verdicts = with_trial(verdicts, patch, record.trials.get(patch.digest))
        before = record.standings[variant.name].outcome
        found.append(Rejudged(variant=variant.name, before=before, now=worst(verdicts), verdicts=verdicts))
    return found
