"""How a reply to a request climbs all rungs, by the loop itself and with real tools.

A reply is handed in as a person's patch is: it is never mended. Of whom it is makes no difference to any rung.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from fresh_replies import Fresh

from etude.core.clock import WallClock
from etude.core.errors import EtudeError
from etude.core.events import AnyFact
from etude.mage.loop import preparing
from etude.mage.loop.at_hand import find_sandbox, tools_at_hand
from etude.mage.loop.book import Book, Setup
from etude.mage.loop.work import Work, reasons_of
from etude.mage.patch.blocks import Author
from etude.mage.patch.making import PatchRefused, make_patch
from etude.mage.patch.refusals import BadReply
from etude.mage.patch.reply import read_reply
from etude.mage.plan import planning
from etude.mage.sandbox.protocol import Limits
from etude.mage.static.checking import check
from etude.mage.tree import Tree
from etude.mage.variants import Plan, Variant
from etude.mage.verdicts import Outcome, Rung, Verdict

LIMITS = Limits(wall_s=300.0)
NOBODY = "nobody: it is a measurement"


@dataclass
class Kept:
    """A journal in memory."""

    facts: list[AnyFact] = field(default_factory=list)

    def append(self, facts: Iterable[AnyFact]) -> None:
        self.facts += facts

    def facts_but_reports(self) -> Iterable[AnyFact]:
        return self.facts


@dataclass(frozen=True)
class Project:
    """A program that was run untouched.

    Attributes:
        plan: What is wanted of it.
        facts: What is written of it: each reply goes on from there.
    """

    plan: Plan
    facts: tuple[AnyFact, ...]

    @property
    def variants(self) -> dict[str, Variant]:
        return {one.name: one for one in self.plan.variants}


def untouched(
    root: Path, entry: str, *, metric: str = "metrics.json:accuracy", choices: Mapping[str, str] | None = None
) -> Project:
    """Run a program untouched, and plan its variants."""
    journal = Kept()
    book = Book(journal, WallClock())
    project = preparing.look(root, entry=entry, metric=metric)
    assert not project.remarks
    preparing.begin(book, project, Setup(root=str(root), entry=entry, metric=metric))
    assert not working(book).measure()
    facts = book.record.runs[0]
    return Project(
        planning.plan(project.reading.tree, entry, project.annotations, choices=choices, facts=facts),
        tuple(journal.facts),
    )


def working(book: Book, *, thrifty: bool = False) -> Work:
    """Return the loop; a thrifty one runs nothing for which a person is needed anyway, and nothing to its end."""
    setup = book.record.setup
    assert setup is not None
    tools = tools_at_hand(book, setup, sandbox=lambda: find_sandbox(""), tier="", limits=LIMITS)
    return Work(book, dataclasses.replace(tools, apart=False, complete=None) if thrifty else tools)


def read_and_checked(tree: Tree, text: str, variant: Variant, *, cut_off: bool = False) -> list[Verdict]:
    """Return what the rungs from REPLY to POLICY say, up to the first that stops a reply: nothing is run."""
    try:
        written = read_reply(text, cut_off=cut_off, most_tokens=8192)
        patch = make_patch(tree, written.blocks, author=Author(name="authored"))
    except (BadReply, PatchRefused) as refused:
        return [refused.verdict]
    verdicts = list(check(tree, patch, variant))
    return verdicts if verdicts[0].passed else verdicts[:1]


def climbed(project: Project, reply: Fresh) -> list[Verdict]:
    """Return what each rung says of a reply, up to the first that turns it away.

    A bad one is run to its end only if nothing else kept it from passing.
    """
    book = Book(Kept(list(project.facts)), WallClock())
    variant = msgspec.structs.replace(project.variants[reply.variant], unclear=())  # somebody has chosen
    try:
        written = read_reply(reply.text)
        assert not written.cannot
        patch = make_patch(book.record.tree, written.blocks, author=Author(name="fresh"), lost_ok=variant.goes)
    except EtudeError as error:
        rung = getattr(error, "rung", Rung.REPLY)
        return [Verdict(rung=rung, outcome=Outcome.FAILED, reasons=reasons_of(error))]
    work = working(book, thrifty=bool(reply.wrong))
    work.plan(msgspec.structs.replace(project.plan, variants=(variant,)))
    work.approve_plan([variant.name], by=NOBODY)
    work.hand_in(variant.name, patch)
    work.run()
    if reply.wrong and work.standings[variant.name].outcome is Outcome.PASSED:
        working(book).run()
    verdicts = list(book.record.verdicts.values())
    return list(verdicts[-1] if verdicts else work.judged_now(variant, patch))
