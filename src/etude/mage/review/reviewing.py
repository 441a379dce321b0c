"""Going through the variants that wait for a person, until all are decided or the person has had enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from etude.core.errors import ConfigError, EtudeError
from etude.mage.loop.book import Approval, Book, Record
from etude.mage.loop.states import Stage
from etude.mage.loop.work import Work, reasons_of
from etude.mage.patch.blocks import Author, Patch
from etude.mage.review.screen import Choice, Decision, edited
from etude.mage.tree import Tree


class Reviewer(Protocol):
    """Decides of one variant after the other."""

    def decide(self, record: Record, name: str) -> Decision:
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
    editing: Editing,
    only: str = "",
) -> None:
    """Show each variant that waits, and do what is decided; what was edited or noted comes again once it is judged.

    Args:
        book: Where it is written.
        work: Does what is decided.
        reviewer: Decides.
        by: Who that is.
        editing: How their own edits become a patch.
        only: The one variant to show; empty for all.
    """
    seen: set[tuple[str, str]] = set()
    while (name := _next(work, seen, only)) is not None:
        standing = work.standings[name]
        decision = reviewer.decide(book.record, name)
        match decision.choice:
            case Choice.QUIT:
                return
            case Choice.APPROVE:
                approval = Approval(
                    by=by, patch=standing.patch, verdict=standing.verdict, note=decision.note, despite=decision.despite
                )
                work.accept(name, approval)
            case Choice.REJECT:
                work.reject(name, decision.note, by=by)
                if decision.note:
                    work.run(take_up=False)
            case Choice.EDIT:
                editing.edit(book, work, reviewer, name, by=by)
            case _:
                seen.add((name, standing.verdict))


def _next(work: Work, seen: set[tuple[str, str]], only: str) -> str | None:
    """Return a variant that waits, and was not skipped as it is."""
    return next(
        (
            name
            for name, standing in work.standings.items()
            if standing.stage is Stage.AWAITING_REVIEW and (name, standing.verdict) not in seen and only in ("", name)
        ),
        None,
    )


@dataclass(frozen=True)
class Editing:
    """How a person's own edits become a patch.

    Attributes:
        patch_of_trees: Makes a patch of the untouched tree and the edited one.
        patched: Gives the tree that a patch makes.
        environment: Names the editor.
    """

    patch_of_trees: Callable[[Tree, Tree, Author], Patch]
    patched: Callable[[Tree, Patch], Tree]
    environment: Mapping[str, str]

    def edit(self, book: Book, work: Work, reviewer: Reviewer, name: str, *, by: str) -> None:
        """Let a person edit what a variant changes, and have the result checked as any other patch."""
        try:
            patch = self._edited(book, name, by)
        except EtudeError as error:
            reviewer.tell("; ".join(reason.text for reason in reasons_of(error)))
            return
        if patch is None:
            reviewer.tell("Nothing was edited.")
            return
        work.hand_in(name, patch)
        work.run(take_up=False)
        now = work.standings[name]
        if now.stage is not Stage.AWAITING_REVIEW:
            reviewer.tell(f"{name}: {now.stage.value}: {now.why}")

    def _edited(self, book: Book, name: str, by: str) -> Patch | None:
        """Return what a person made of a variant's files; None if they left them as they were."""
        base, patch = book.record.tree, book.record.patch_of(name)
        if patch is None:
            raise ConfigError(f"{name} has no patch that could be edited.")
        before = self.patched(base, patch)
        changed = [path for path in before if base.files.get(path) != before.files[path]]
        after = edited(before, changed, environment=self.environment)
        return None if after.digest == before.digest else self.patch_of_trees(base, after, Author(name=by))
