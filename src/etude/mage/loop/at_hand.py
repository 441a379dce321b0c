"""The tools as they are; stand-ins take their places in tests."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from etude.core.clock import WallClock
from etude.mage.asking.asker import Asker
from etude.mage.asking.budget import Budget, Spent
from etude.mage.asking.prompts import MOST_TOKENS
from etude.mage.backends.naming import capability_for
from etude.mage.backends.protocol import Backend
from etude.mage.facts import Facts
from etude.mage.judge.baseline import compare_runs
from etude.mage.judge.judging import judge, judge_first_step
from etude.mage.loop.book import Answers, Book, Setup
from etude.mage.loop.work import Tools
from etude.mage.patch.making import make_patch, patched
from etude.mage.patch.rendering import GRAMMAR
from etude.mage.patch.reply import read_reply
from etude.mage.probe.laying import hidden, lay, reached
from etude.mage.probe.removing import remove
from etude.mage.probe.run import probe
from etude.mage.rules.writing import write
from etude.mage.sandbox import finding
from etude.mage.sandbox.protocol import Limits, Sandbox, Tier
from etude.mage.static.checking import check
from etude.mage.tree import Tree

APART: Final = frozenset({Tier.BWRAP})
"""Tiers in which a doubtful change can do no harm before a person has seen it."""


def tools_at_hand(
    book: Book,
    setup: Setup,
    *,
    sandbox: Callable[[], Sandbox],
    tier: str,
    backend: Backend | None = None,
    budget: Budget = Budget(),  # noqa: B008 - it is frozen
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    say: Callable[[str], None] = lambda _: None,
) -> Tools:
    """Return what the loop works with.

    Args:
        book: Where answers are kept.
        setup: How the study is prepared.
        sandbox: Gives the sandbox, when something is to be run.
        tier: Which one that will be; empty for the default.
        backend: Who is asked; None for nobody.
        budget: What may be spent.
        limits: What a run may take.
        say: Tells a person that there is a wait.
    """
    answers = Answers(book)
    most = min(MOST_TOKENS, capability_for(backend).most_output) if backend is not None else MOST_TOKENS
    return Tools(
        write_by_rule=write,
        read_reply=read_reply,
        make_patch=make_patch,
        patched=patched,
        check=check,
        probe=prober(setup, sandbox, limits),
        compare=compare_runs,
        judge_first_step=judge_first_step,
        judge=judge,
        grammar=GRAMMAR,
        asks=_asker(book, answers, backend, budget, say) if backend is not None else None,
        answers=answers,
        name=backend.name if backend is not None else "",
        apart=Tier(tier or Tier.BWRAP) in APART,
        most_tokens=most,
    )


def prober(setup: Setup, sandbox: Callable[[], Sandbox], limits: Limits) -> Callable[[Tree], Facts]:
    """Return what runs a tree in a sandbox and tells what it did."""

    def run(tree: Tree) -> Facts:
        root = Path(setup.root).resolve()
        place = Path(tempfile.mkdtemp(prefix="etude-mage-"))
        try:
            folder = lay(tree, root, place / "tree")
            reads = reached(tree, root, folder)
            return probe(
                folder,
                setup.entry,
                sandbox=sandbox(),
                steps=setup.steps,
                seed=setup.seed,
                limits=limits,
                reads=reads,
                hides=hidden(reads),
                metric_file=setup.metric.partition(":")[0] if ":" in setup.metric else "",
            )
        finally:
            remove(place)

    return run


def find_sandbox(tier: str) -> Sandbox:
    """Return the sandbox of a tier; the default one if none is named.

    Raises:
        SandboxMissing: This machine does not give it.
    """
    return finding.find_sandbox(tier or None)


def _asker(book: Book, answers: Answers, backend: Backend, budget: Budget, say: Callable[[str], None]) -> Asker:
    spent = book.record.spent
    return Asker(
        backend,
        budget,
        cache=answers,
        clock=WallClock(),
        sleep=time.sleep,
        draw=random.random,
        say=say,
        spent=msgspec.convert(spent, Spent) if spent is not None else Spent(),
    )
