"""Going through the variants that wait for a person, until all are decided or the person has had enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from etude.core.errors import ConfigError, EtudeError
from etude.mage.blocks import Author, Patch
from etude.mage.book import Approval, Book
from etude.mage.review import Choice, Decision, edited
from etude.mage.states import Stage
from etude.mage.tree import Tree
from etude.mage.work import Work, reasons_of


class Reviewer(Protocol):
    """Decides of one variant after the other."""

    def decide(self, record: object, name: str) -> Decision:
        """Return what is to become of a variant."""
        ...

    def tell(self, text: str) -> None:
        """Show a line."""
        ...


def go_through(
    book: Book,
    work: Work,
    reviewer: Reviewer,
    *,
    by: str,
    patch_of_trees: Callable[[Tree, Tree, Author], Patch],
    patched: Callable[[Tree, Patch], Tree],
    environment: Mapping[str, str],
    only: str = "",
) -> None:
    """Show each variant that waits, and do what is decided; what was edited or noted comes again once it is judged.

    Args:
        book: Where it is written.
        work: Does what is decided.
        reviewer: Decides.
        by: Who that is.
        patch_of_trees: Makes a patch of what a person edited.
        patched: Gives the tree that a patch makes.
        environment: Names the editor.
        only: The one variant to show; empty for all.
    """
    seen: set[tuple[str, str]] = set()
    while True:
        waiting = [
            name
            for name, standing in work.standings.items()
            if standing.stage is Stage.AWAITING_REVIEW
            and (name, standing.verdict) not in seen
            and (not only or name == only)
        ]
        if not waiting:
            return
        name = waiting[0]
        standing = work.standings[name]
        decision = reviewer.decide(book.record, name)
        match decision.choice:
            case Choice.QUIT:
                return
            case Choice.SKIP:
                seen.add((name, standing.verdict))
            case Choice.APPROVE:
                approval = Approval(
                    by=by, patch=standing.patch, verdict=standing.verdict, note=decision.note, despite=decision.despite
                )
                work.accept(name, approval)
            case Choice.REJECT:
                work.reject(name, decision.note, by=by)
                if decision.note:
                    work.run()
            case Choice.EDIT:
                try:
                    patch = _edited(book, name, patch_of_trees, patched, environment, by)
                except EtudeError as error:
                    reviewer.tell("; ".join(reason.text for reason in reasons_of(error)))
                    continue
                if patch is None:
                    reviewer.tell("Nothing was edited.")
                    continue
                work.hand_in(name, patch)
                work.run()
                if (now := work.standings[name]).stage is not Stage.AWAITING_REVIEW:
                    reviewer.tell(f"{name}: {now.stage.value}: {now.why}")


def _edited(
    book: Book,
    name: str,
    patch_of_trees: Callable[[Tree, Tree, Author], Patch],
    patched: Callable[[Tree, Patch], Tree],
    environment: Mapping[str, str],
    by: str,
) -> Patch | None:
    """Return what a person made of a variant's files; None if they left them as they were."""
    base, patch = book.record.tree, book.record.patch_of(name)
    if patch is None:
        raise ConfigError(f"{name} has no patch that could be edited.")
    before = patched(base, patch)
    changed = [path for path in before if base.files.get(path) != before.files[path]]
    after = edited(before, changed, environment=environment)
    return None if after.digest == before.digest else patch_of_trees(base, after, Author(name=by))
