"""How ``etude mage`` has variants written: refused before money is spent, brought on until each waits for a person."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from etude.cli.mage_planning import approve_plan, foreseen, is_planned, plan_anew, questions_of
from etude.cli.mage_studies import prepared, work
from etude.cli.mage_told import HOW_IT_GOES_ON, MageCode, tell
from etude.core.errors import BackendError, ConfigError

if TYPE_CHECKING:
    from etude.mage.backends.protocol import Backend, Request
    from etude.mage.loop.book import Book, Record, Setup
    from etude.mage.loop.preparing import Project
    from etude.mage.loop.work import Work


def bring_on(
    folder: Path,
    setup: Setup,
    asked: Backend | None,
    *,
    yes: bool,
    as_json: bool,
    approve: Path | None = None,
    own: Path | None = None,
    variant: str = "",
    again: Iterable[str] = (),
) -> None:
    """Bring a study's variants on until each waits for a person or came to nothing."""
    from etude.mage.loop import at_hand

    at_hand.find_sandbox(setup.tier)  # refused before anything is written or asked
    with prepared(folder, setup) as (project, begun, book), saying_how_it_goes_on(folder.name):
        if asked is not None and own is None and not is_planned(book.record, begun):
            refuse_before_runs(work(book, begun, project, backend=asked, policy=approve), book, asked, project, begun)
        plan_anew(book, project, begun, study=folder.name)
        doing = work(book, begun, project, backend=asked, policy=approve)
        approve_plan(doing, book, yes=yes, quiet=as_json)
        if own is not None:
            hand_in(doing, book, own, variant)
        for one in again:
            doing.try_again(one)
        refuse_before_money(doing, book, asked, project)
        doing.run()
        tell(doing, book.record, as_json=as_json, study=folder.name)


@contextlib.contextmanager
def saying_how_it_goes_on(study: str) -> Iterator[None]:
    """Add to an error of whoever is asked how the study goes on, which has begun."""
    try:
        yield
    except BackendError as error:
        error.add_note(HOW_IT_GOES_ON[MageCode.BACKEND].format(study=study))
        raise


def hand_in(work: Work, book: Book, folder: Path, name: str) -> None:
    """Take a person's own changed copy of the project as the patch of a variant."""
    from etude.mage.patch.blocks import Author
    from etude.mage.patch.making import make_patch_of_trees
    from etude.mage.review.approving import who
    from etude.mage.sources.reading import read_tree

    names = list(work.standings)
    if not name and len(names) == 1:
        [name] = names
    if name not in names:
        raise ConfigError(f"--from needs the variant that it is: --variant, one of {', '.join(names)}.")
    setup = book.record.setup
    changed = read_tree(folder, metric=setup.metric if setup is not None else "").tree
    work.hand_in(name, make_patch_of_trees(book.record.tree, changed, Author(name=who())))


def refuse_before_runs(work: Work, book: Book, backend: Backend, project: Project, setup: Setup) -> None:
    """Refuse what is too large already, and see that somebody answers, before any program is run for a plan.

    What is known before: the question without what the program does, and what no rule writes as far as that can be
    told. Where a planner is to read hints, what comes of these is not known.
    """
    record = book.record
    base = record.runs[0] if record.runs else None
    questions = questions_of(foreseen(project, setup, base=base), project, setup, backend, base)
    refuse_questions(work, book, backend, project, questions)


def refuse_before_money(work: Work, book: Book, backend: Backend | None, project: Project) -> None:
    """Refuse what is too large with all that is known, and see that somebody answers, before variants are written."""
    from etude.mage.loop.states import Stage
    from etude.mage.variants import Route

    live = (Stage.PLAN_APPROVED, Stage.DRAFTING, Stage.BUDGET_SPENT, Stage.BACKEND_DOWN)
    waiting = [n for n, s in work.standings.items() if s.stage in live and s.route is Route.MODEL]
    if backend is not None:
        refuse_questions(work, book, backend, project, {n: work.question(n) for n in waiting})


def refuse_questions(
    work: Work, book: Book, backend: Backend, project: Project, questions: Mapping[str, Request]
) -> None:
    """Refuse questions that are too large, and see that whoever is to answer them does; nothing if there are none.

    Raises:
        ConfigError: One is too large.
        BackendError: There is no answer.
    """
    from etude.mage.asking.preview import refuse_too_large
    from etude.mage.backends.hosts import THIS_MACHINE
    from etude.mage.backends.naming import capability_for
    from etude.mage.loop.aside import Aside

    asks, answers = work.tools.asks, work.tools.answers
    if asks is None or answers is None or not questions:
        return
    sent = project.chosen.sent if project.chosen is not None else ()
    refuse_too_large(questions, context=capability_for(backend).context, backend=backend.name, sent=sent)
    if backend.host != THIS_MACHINE:
        Aside(book, asks, answers).see_whether_it_answers()


def waiting(work: Work, record: Record, only: str) -> list[str]:
    """Return the variants that wait for a person, or the one that is meant if it does.

    Raises:
        ConfigError: The one that is meant is none of the plan.
    """
    from etude.mage.loop.states import Stage

    if only:
        record.variant(only)
    return [n for n, s in work.standings.items() if s.stage is Stage.AWAITING_REVIEW and only in ("", n)]
