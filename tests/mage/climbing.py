"""How a reply to a request climbs all rungs, with real tools: for replies of people who do not know the judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fresh_replies import Fresh

from etude.core.errors import EtudeError
from etude.mage.facts import Facts
from etude.mage.judge.baseline import Baseline, compare_runs
from etude.mage.judge.completion import Completion, judge_completion
from etude.mage.judge.judging import judge, judge_first_step
from etude.mage.loop.at_hand import completer, prober
from etude.mage.loop.book import Setup
from etude.mage.loop.ladder import may_stop, worst
from etude.mage.loop.work import reasons_of
from etude.mage.patch.blocks import Author
from etude.mage.patch.making import make_patch, patched
from etude.mage.patch.reply import read_reply
from etude.mage.plan import planning
from etude.mage.plan.marking import find_marks
from etude.mage.sandbox.finding import find_sandbox
from etude.mage.sandbox.protocol import Limits
from etude.mage.sources.reading import read_tree
from etude.mage.static.checking import check
from etude.mage.tree import Tree
from etude.mage.variants import Variant
from etude.mage.verdicts import Outcome, Rung, Verdict


@dataclass(frozen=True)
class Project:
    """A program that was run untouched."""

    tree: Tree
    base: Baseline
    variants: dict[str, Variant]
    probe: Callable[[Tree], Facts]
    complete: Callable[[Tree], Completion]
    whole: Completion


def untouched(
    root: Path, entry: str, *, metric: str = "metrics.json:accuracy", choices: Mapping[str, str] | None = None
) -> Project:
    """Run a program untouched, once, and plan its variants."""
    setup = Setup(root=str(root), entry=entry, metric=metric)
    probe = prober(setup, find_sandbox, Limits(wall_s=300.0))
    complete = completer(setup, find_sandbox, Limits())
    assert complete is not None
    tree = read_tree(root, entry=entry).tree
    facts = probe(tree)
    marks, remarks = find_marks(tree)
    assert not remarks
    plan = planning.plan(tree, entry, marks, choices=choices, facts=facts)
    variants = {one.name: one for one in plan.variants}
    return Project(tree, compare_runs([facts, facts]), variants, probe, complete, complete(tree))


def climbed(project: Project, reply: Fresh) -> list[Verdict]:
    """Return what each rung says of a reply, up to the first that turns it away."""
    variant = project.variants[reply.variant]
    try:
        written = read_reply(reply.text)
    except EtudeError as error:
        return [Verdict(rung=Rung.REPLY, outcome=Outcome.FAILED, reasons=reasons_of(error))]
    assert not written.cannot
    try:
        patch = make_patch(
            project.tree,
            written.blocks,
            author=Author(name="fresh"),
            lost_ok=variant.goes,
        )
    except EtudeError as error:
        rung = getattr(error, "rung", Rung.APPLY)
        return [Verdict(rung=rung, outcome=Outcome.FAILED, reasons=reasons_of(error))]
    verdicts = list(check(project.tree, patch, variant))
    bad = bool(reply.wrong)
    if worst(verdicts) is Outcome.FAILED or (bad and worst(verdicts) is not Outcome.PASSED):
        return verdicts
    facts = project.probe(patched(project.tree, patch))
    verdicts.append(judge_first_step(facts))
    if worst(verdicts) is not Outcome.FAILED:
        verdicts.append(judge(variant, project.base, facts, patch=patch))
    if worst(verdicts) is Outcome.PASSED:
        found = project.complete(patched(project.tree, patch))
        verdicts.append(
            judge_completion(
                variant, project.base, project.whole, found, stops_itself=may_stop(project.tree), patch=patch
            )
        )
    return verdicts
