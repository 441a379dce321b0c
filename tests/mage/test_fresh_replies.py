"""Replies of somebody who did not know the judge climb all rungs: none that is bad passes, none that is right fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from bases import write_cnn
from benchmarks.mage_written import ENTRY, copied
from fresh_replies import BAD, CNN, GOOD, Fresh

from etude.core.errors import EtudeError
from etude.mage import planning
from etude.mage.at_hand import prober
from etude.mage.baseline import Baseline, compare_runs
from etude.mage.blocks import Author
from etude.mage.book import Setup
from etude.mage.facts import Facts
from etude.mage.judge import judge, judge_first_step
from etude.mage.marking import find_marks
from etude.mage.patch import make_patch, patched
from etude.mage.reading import read_tree
from etude.mage.reply import read_reply
from etude.mage.sandbox.finding import find_sandbox
from etude.mage.sandbox.protocol import Limits
from etude.mage.static import check
from etude.mage.tree import Tree
from etude.mage.variants import Variant
from etude.mage.verdicts import Outcome, Rung, Verdict
from etude.mage.work import reasons_of, worst

CHOICES = {CNN: {"conv2": "none", "fc1": "none"}}

GETS_THROUGH: dict[str, str] = {}
"""Bad replies that pass, and what of them no fact shows."""
TURNED_AWAY: dict[str, str] = {}
"""Correct replies that fail, and why."""


@dataclass(frozen=True)
class Project:
    """A program that was run untouched."""

    tree: Tree
    base: Baseline
    variants: dict[str, Variant]
    probe: Callable[[Tree], Facts]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Project]]:
    folder = tmp_path_factory.mktemp("fresh")

    @cache
    def of(name: str) -> Project:
        return planned(name, folder)

    yield of
    of.cache_clear()


def planned(name: str, folder: Path) -> Project:
    """Run a program untouched, once, and plan its variants."""
    root = write_cnn(folder / name) if name == CNN else copied(name, folder)
    entry = "python train.py --seed {seed}" if name == CNN else ENTRY
    probe = prober(
        Setup(root=str(root), entry=entry, metric="metrics.json:accuracy"),
        lambda: find_sandbox(),
        Limits(wall_s=300.0),
    )
    tree = read_tree(root, entry=entry).tree
    facts = probe(tree)
    marks, remarks = find_marks(tree)
    assert not remarks
    plan = planning.plan(tree, entry, marks, choices=CHOICES.get(name), facts=facts)
    return Project(tree, compare_runs([facts, facts]), {one.name: one for one in plan.variants}, probe)


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
            lost_ok=[thing.name for thing in variant.things],
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
    return verdicts
