"""The tools as they are; stand-ins take their places in tests."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import sleep
from typing import Final

import msgspec

from etude.core.clock import WallClock
from etude.mage.asking.asker import Asker
from etude.mage.asking.budget import Budget, Spent
from etude.mage.backends.capabilities import MOST_TOKENS, Capability
from etude.mage.backends.naming import capability_for
from etude.mage.backends.protocol import Backend
from etude.mage.facts import Facts
from etude.mage.judge.baseline import compare_runs
from etude.mage.judge.completion import Completion
from etude.mage.judge.judging import judge, judge_first_step
from etude.mage.loop.aside import Aside
from etude.mage.loop.book import STEPS, Answers, Book, Setup
from etude.mage.loop.work import Run, Tools
from etude.mage.patch.blocks import Patch
from etude.mage.patch.making import make_patch, patched
from etude.mage.patch.rendering import GRAMMAR, MOST_WHOLE, WHOLE_FIRST
from etude.mage.patch.reply import read_reply
from etude.mage.probe.laying import hidden, lay, reached
from etude.mage.probe.metrics import written
from etude.mage.probe.removing import remove
from etude.mage.probe.run import ROWS, probe
from etude.mage.rules.writing import write
from etude.mage.sandbox import finding
from etude.mage.sandbox.protocol import Limits, Sandbox, Tier
from etude.mage.sources.entry import experiment_of
from etude.mage.static.checking import check
from etude.mage.tree import Tree

APART: Final = frozenset({Tier.BWRAP})
"""Tiers in which a doubtful change can do no harm before a person has seen it."""
EVERY: Final = 1_000_000_000
"""More steps than any program takes."""


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
    most = capability_for(backend).answer if backend is not None else MOST_TOKENS
    return Tools(
        write_by_rule=write,
        read_reply=read_reply,
        make_patch=_making(backend),
        patched=patched,
        check=check,
        probe=prober(setup, sandbox, limits),
        compare=compare_runs,
        judge_first_step=judge_first_step,
        judge=judge,
        complete=completer(setup, sandbox, limits),
        grammar=grammar_for(backend),
        asks=_asker(book, answers, backend, budget, say) if backend is not None else None,
        answers=answers,
        name=backend.name if backend is not None else "",
        apart=Tier(tier or Tier.BWRAP) in APART,
        most_tokens=most,
    )


def grammar_for(backend: Backend | None) -> str:
    """Return what a backend is told about the form of its answer: whole files first, if that is what it gets right."""
    return WHOLE_FIRST if _edits_of(backend) == "whole" else GRAMMAR


def _making(backend: Backend | None) -> Callable[..., Patch]:
    """Return what makes patches of a backend's answers.

    A model that gets pieces of a file right writes no long file again. Of a small one nothing better can be had, and of
    a program or a person it is not known.
    """
    return partial(make_patch, most_whole=MOST_WHOLE) if _edits_of(backend) == "symbols" else make_patch


def _edits_of(backend: Backend | None) -> str:
    """Return what a model gets right most often, as its capability has it; empty for a program or a person."""
    found = getattr(backend, "capability", None)
    return found.edits if isinstance(found, Capability) else ""


def aside(book: Book, backend: Backend, budget: Budget, *, say: Callable[[str], None] = lambda _: None) -> Aside:
    """Return what asks somebody beside the variants; arguments are those of ``tools_at_hand``."""
    answers = Answers(book)
    return Aside(book, _asker(book, answers, backend, budget, say), answers)


def prober(setup: Setup, sandbox: Callable[[], Sandbox], limits: Limits) -> Run[Facts]:
    """Return what runs the first steps of a tree in a sandbox and tells what it did."""

    def run(tree: Tree, arguments: Sequence[str] = ()) -> Facts:
        with _laid(tree, setup) as folder:
            return _watched(
                tree,
                setup,
                folder,
                setup.entry,
                arguments,
                sandbox=sandbox(),
                steps=setup.steps or STEPS,
                other_seed=setup.seed + 1,
                limits=limits,
            )

    return run


def completer(setup: Setup, sandbox: Callable[[], Sandbox], limits: Limits) -> Run[Completion] | None:
    """Return what runs a tree to its end in a sandbox, and tells what it did and left; None if nobody wants that."""
    if not setup.end_s:
        return None
    limits = dataclasses.replace(limits, wall_s=setup.end_s)

    def run(tree: Tree, arguments: Sequence[str] = ()) -> Completion:
        entry = setup.to_its_end
        with _laid(tree, setup) as folder:
            facts = _watched(
                tree, setup, folder, entry, arguments, sandbox=sandbox(), steps=EVERY, limits=limits, rows=None
            )
            file, _, name = setup.metric.rpartition(":")
            # what is printed does not stand for a file that was to be written
            left = written(folder / file) if file and experiment_of(setup.entry) is None else facts.metrics
            metric = left_under(name, left)
        return Completion(entry=entry, limit_s=setup.end_s, facts=facts, name=name, metric=metric)

    return run


def left_under(name: str, metrics: Mapping[str, float]) -> float | None:
    """Return a metric by its name; of what is printed, that whose last words are the name, in any case.

    Example:
        >>> left_under("accuracy", {"loss": 0.3, "Test Accuracy": 0.9})
        0.9
    """
    if not name:
        return None
    if name in metrics:
        return metrics[name]
    ends = [
        value for key, value in metrics.items() if key.lower().split()[-len(name.split()) :] == name.lower().split()
    ]
    return ends[-1] if ends else None


@contextlib.contextmanager
def _laid(tree: Tree, setup: Setup) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="etude-mage-"))
    try:
        yield lay(tree, Path(setup.root).resolve(), place / "tree")
    finally:
        remove(place)


def _watched(
    tree: Tree,
    setup: Setup,
    folder: Path,
    entry: str,
    arguments: Sequence[str],
    *,
    sandbox: Sandbox,
    steps: int,
    limits: Limits,
    other_seed: int | None = None,
    rows: int | None = ROWS,
) -> Facts:
    reads = reached(tree, Path(setup.root).resolve(), folder)
    return probe(
        folder,
        entry,
        sandbox=sandbox,
        steps=steps,
        seed=setup.seed,
        other_seed=other_seed,
        limits=limits,
        reads=reads,
        hides=hidden(reads),
        metric_file=setup.metric.partition(":")[0] if ":" in setup.metric else "",
        arguments=arguments,
        rows=rows,
    )


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
        sleep=sleep,
        draw=random.random,
        say=say,
        spent=msgspec.convert(spent, Spent) if spent is not None else Spent(),
    )
