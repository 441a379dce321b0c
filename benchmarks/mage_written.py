"""Brings a program from its marks to variants that wait for a person, with authored replies and nobody at hand."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from benchmarks.common import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from etude.mage.facts import Facts
    from etude.mage.loop.book import Record
    from etude.mage.sandbox.protocol import Sandbox
    from etude.mage.variants import Plan

EXAMPLES: Final = ROOT / "examples"
ENTRY: Final = "python train.py --seed {seed} --quick"
LIMIT_S: Final = 300.0
ROWS: Final = 600
"""Of the table that is drawn where the Higgs challenge's is not at hand."""


def copied(name: str, into: Path) -> Path:
    """Copy the program of an experiment, without the replies to it, and with drawn data if it needs any."""
    root = into / name
    shutil.copytree(EXAMPLES / name, root, ignore=shutil.ignore_patterns("authored", "README.md", "__pycache__"))
    if (root / "generate.py").exists():
        subprocess.run([sys.executable, "generate.py", "training.csv", "--rows", str(ROWS)], cwd=root, check=True)
        (root / "generate.py").unlink()
    return root


def written(
    folder: Path,
    root: Path,
    replies: Path | None,
    *,
    sandbox: Callable[[], Sandbox] | None = None,
    only: Collection[str] | None = None,
    runs: Sequence[Facts] = (),
    choices: Mapping[str, str] = MappingProxyType({}),
    by_rule: bool = True,
    entry: str = ENTRY,
) -> Record:
    """Return what the mage has written, once nothing more can be done without a person.

    Args:
        folder: The study's.
        root: The project's.
        replies: Where the authored replies are; None if rules are to write all of it.
        sandbox: Gives what programs run in; the default one if left out.
        only: The variants that are written; None for all that are planned.
        runs: What the untouched program did; empty if it is to be run.
        choices: What goes along with a component, as after ``with=``.
        by_rule: Whether rules may write; else all is asked for, as of a program that no rule is sure of.
        entry: How the program is run.
    """
    from etude.mage.backends.scripted import Scripted
    from etude.mage.loop import preparing
    from etude.mage.loop.at_hand import find_sandbox, tools_at_hand
    from etude.mage.loop.book import Did, Setup
    from etude.mage.loop.session import read, writing
    from etude.mage.loop.work import Work
    from etude.mage.plan import planning
    from etude.mage.plan.sharing import shared
    from etude.mage.sandbox.protocol import Limits

    setup = Setup(root=str(root), entry=entry, metric="metrics.json:accuracy")
    project = preparing.look(root, entry=entry)
    with writing(folder, environment={}) as book:
        preparing.begin(book, project, setup)
        backend = Scripted(replies) if replies is not None else None
        limits = Limits(wall_s=LIMIT_S)
        found = sandbox or (lambda: find_sandbox(""))
        tools = tools_at_hand(book, setup, sandbox=found, tier="", backend=backend, limits=limits)
        assert project.chosen is not None
        work = Work(book, tools, sent=tuple(project.chosen.sent))
        if runs:
            book.write(Did.MEASURED, runs=list(runs))
        broken = work.measure()
        assert not broken, broken
        facts = book.record.runs[0]
        plan = planning.plan(book.record.tree, entry, project.annotations, facts=facts, choices=choices)
        assert not plan.remarks, plan.remarks
        plan = shared(plan if by_rule else asked_for(plan), book.record.tree)
        if only is not None:
            plan = msgspec.structs.replace(plan, variants=tuple(one for one in plan.variants if one.name in only))
        work.plan(plan)
        work.approve_plan([one.name for one in plan.variants], by="nobody: it is a measurement")
        work.run()
    return read(folder)


def asked_for(plan: Plan) -> Plan:
    """Return a plan in which no rule writes."""
    from etude.mage.variants import Route

    return msgspec.structs.replace(
        plan, variants=tuple(msgspec.structs.replace(one, route=Route.MODEL) for one in plan.variants)
    )


def follow_ups_by_hand(record: Any) -> int:
    """Count variants that somebody would have to ask for again, or to mend: those that do not wait with a pass.

    A change that others share waits for nobody.
    """
    from etude.mage.backends.scripted import AUTHORED
    from etude.mage.loop.states import Stage
    from etude.mage.verdicts import Outcome

    authors = {patch.author.name for name in record.standings if (patch := record.patch_of(name)) is not None}
    waits = [
        one.stage in (Stage.AWAITING_REVIEW, Stage.SHARED) and one.outcome is Outcome.PASSED
        for one in record.standings.values()
    ]
    return waits.count(False) + len(authors - {AUTHORED, "rule"})
