"""Replies of somebody who did not know the judge climb all rungs: none that is bad passes, none that is right fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from bases import write_cnn
from benchmarks.mage_written import ENTRY, copied
from fresh_replies import BAD, CNN, GOOD, Fresh

from etude.core.errors import EtudeError
from etude.mage.facts import Facts
from etude.mage.judge.baseline import Baseline, compare_runs
from etude.mage.judge.completion import Completion, judge_completion
from etude.mage.judge.judging import judge, judge_first_step
from etude.mage.loop.at_hand import completer, prober
from etude.mage.loop.book import Setup
from etude.mage.loop.ladder import worst
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

pytestmark = pytest.mark.skipif(
    os.environ.get("ETUDE_FRESH") != "full", reason="fifteen minutes of programs that are run and watched: make fresh"
)

CHOICES = {CNN: {"conv2": "none", "fc1": "none"}}

GETS_THROUGH: dict[str, str] = {}
"""Bad replies that pass, and what of them is not seen."""


class GotThrough(AssertionError):
    """A bad reply passed at every rung."""


@dataclass(frozen=True)
class Project:
    """A program that was run untouched."""

    tree: Tree
    base: Baseline
    variants: dict[str, Variant]
    probe: Callable[[Tree], Facts]
    complete: Callable[[Tree], Completion]
    whole: Completion


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
    setup = Setup(root=str(root), entry=entry, metric="metrics.json:accuracy")
    probe = prober(setup, find_sandbox, Limits(wall_s=300.0))
    complete = completer(setup, find_sandbox, Limits())
    assert complete is not None
    tree = read_tree(root, entry=entry).tree
    facts = probe(tree)
    marks, remarks = find_marks(tree)
    assert not remarks
    plan = planning.plan(tree, entry, marks, choices=CHOICES.get(name), facts=facts)
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
    if worst(verdicts) is Outcome.PASSED:
        found = project.complete(patched(project.tree, patch))
        verdicts.append(judge_completion(variant, project.base, project.whole, found, patch=patch))
    return verdicts


def shown(reply: Fresh) -> str:
    return f"{reply.base}: {reply.name}"


def bad_ones() -> Iterator[Any]:
    for reply in BAD:
        why = GETS_THROUGH.get(reply.name)
        marks = (pytest.mark.xfail(raises=GotThrough, strict=True, reason=why),) if why else ()
        yield pytest.param(reply, id=shown(reply), marks=marks)


@pytest.mark.parametrize("reply", list(bad_ones()))
def test_a_bad_reply_is_turned_away_at_a_rung_with_a_reason(reply: Fresh, project: Callable[[str], Project]) -> None:
    verdicts = climbed(project(reply.base), reply)
    if worst(verdicts) is Outcome.PASSED:
        raise GotThrough(f"{reply.name}: {reply.wrong}")
    told = next(verdict for verdict in verdicts if verdict.outcome is not Outcome.PASSED)
    assert told.rung in set(Rung)
    assert told.reasons
    assert all(reason.text and reason.claim and (reason.expected or reason.found) for reason in told.reasons)


@pytest.mark.parametrize("reply", [pytest.param(one, id=shown(one)) for one in GOOD])
def test_a_correct_reply_does_not_fail(reply: Fresh, project: Callable[[str], Project]) -> None:
    verdicts = climbed(project(reply.base), reply)
    assert worst(verdicts) is not Outcome.FAILED, verdicts


def test_no_two_replies_are_alike_and_each_bad_one_says_what_is_wrong() -> None:
    every = (*BAD, *GOOD)
    assert len({reply.name for reply in every}) == len({reply.text for reply in every}) == len(every)
    assert all(reply.wrong for reply in BAD)
    assert not any(reply.wrong for reply in GOOD)
    assert GETS_THROUGH.keys() <= {reply.name for reply in BAD}
