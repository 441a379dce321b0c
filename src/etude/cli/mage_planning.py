"""Plans of ``etude mage``: made anew where they have to be, approved, and what they would have asked."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from etude.cli.mage_asking import backend
from etude.cli.mage_options import NO_PLANNER
from etude.cli.mage_studies import work
from etude.cli.mage_told import MageCode, say, show, tell
from etude.core.errors import BaselineError, ConfigError
from etude.core.text import visible

if TYPE_CHECKING:
    from etude.mage.backends.protocol import Backend, Request
    from etude.mage.facts import Facts
    from etude.mage.loop.book import Book, Record, Setup
    from etude.mage.loop.preparing import Project
    from etude.mage.loop.work import Work
    from etude.mage.variants import Plan


def planned(project: Project, setup: Setup, *, base: Facts | None = None) -> Plan:
    """Return the plan of a project, with what its untouched program did if that is known.

    Raises:
        ConfigError: Nothing is planned.
    """
    from etude.mage.plan.planning import plan
    from etude.mage.plan.sharing import shared

    tree = project.reading.tree
    found = plan(tree, setup.entry, project.annotations, columns=setup.columns, choices=dict(setup.choices), facts=base)
    if not found.variants:
        remarks = "".join(f"\n  {visible(str(remark))}" for remark in (*project.remarks, *found.remarks))
        raise ConfigError(
            f"Nothing is planned: no component is marked, and no hint names any.{remarks}\n"
            "`etude mage suggest` proposes marks."
        )
    return shared(found, tree)


def foreseen(project: Project, setup: Setup, *, base: Facts | None) -> Plan:
    """Return what is planned as far as that is known before anybody reads hints; arguments are those of ``planned``."""
    from etude.mage.plan.planning import plan_of_marks
    from etude.mage.plan.sharing import shared

    if not setup.planner.name:
        return planned(project, setup, base=base)
    tree = project.reading.tree
    columns, choices = setup.columns, dict(setup.choices)
    marked = plan_of_marks(tree, setup.entry, project.annotations, columns=columns, choices=choices, facts=base)
    return shared(marked, tree)


def plan_anew(book: Book, project: Project, setup: Setup, *, study: str, asks: bool = False) -> None:
    """Plan what is not planned yet, after the untouched program was run.

    A plan of the same files, that was made with the same words, stays as it is. Who reads hints is part of the study
    from the moment that their plan is taken: a planner who could not be asked, or proposed nothing, is none.

    Args:
        book: Where it is written.
        project: The project.
        setup: How it is prepared.
        study: Its name.
        asks: Whether a planner may be asked. If not, they have to have been asked before.
    """
    import msgspec

    from etude.mage.loop.book import Did
    from etude.mage.loop.said import plan_said

    if is_planned(book.record, setup):
        return
    doing = work(book, setup, project)
    if not setup.planner.name:
        planned(project, setup)  # what cannot be planned is said before anything runs
    if why := doing.measure():
        raise BaselineError(why)
    base = book.record.runs[0]
    if setup.planner.name:
        found = drafted(book.record, project, setup, base, study=study, ask_in=book if asks else None)
    else:
        found = planned(project, setup, base=base)
    if book.record.setup != setup:
        book.write(Did.BEGUN, setup=setup)
    doing.plan(msgspec.structs.replace(found, said=plan_said(setup)))


def is_planned(record: Record, setup: Setup) -> bool:
    """Say whether a study has the plan that would be made of its files with what was said."""
    from etude.mage.loop.said import plan_said

    plan = record.plan
    made = plan is not None and plan.base == record.tree.digest and plan.said == plan_said(setup)
    return made and bool(record.runs)


def drafted(
    record: Record, project: Project, setup: Setup, base: Facts | None, *, study: str, ask_in: Book | None
) -> Plan:
    """Return the plan in which a planner has read hints, documents and code, and marks mean what they always do.

    Args:
        record: What was prepared: an answer that is in there is not asked for again.
        project: The project.
        setup: Who reads, and what.
        base: What the untouched program did.
        study: The study's name.
        ask_in: Where an answer is written if one has to be asked for; None to ask nobody.

    Raises:
        ConfigError: The answer is no plan that can be taken, or proposes nothing, or nobody may be asked for one.
    """
    from etude.mage.backends.naming import check_ready
    from etude.mage.loop import at_hand
    from etude.mage.loop.aside import known_plan, plan_question
    from etude.mage.plan.planning import plan_of_marks
    from etude.mage.plan.replying import from_reply, joined
    from etude.mage.plan.sharing import shared

    asked = backend(setup.planner, setup, is_asked=False)
    assert asked is not None, "a planner was named"
    tree, sent = project.reading.tree, project.chosen.sent if project.chosen is not None else ()
    entry, columns, choices = setup.entry, setup.columns, dict(setup.choices)
    question = plan_question(tree, sent, setup, base=base, backend=asked)

    def read(text: str) -> Plan:
        return from_reply(
            text, tree, project.annotations, entry=entry, columns=columns, docs=setup.docs, facts=base, choices=choices
        )

    found = known_plan(record, asked, question, read)
    if found is None and ask_in is None:
        begun = ["etude", "mage", "suggest", setup.root, "--name", study, "--planner"]
        where = ["--base-url", setup.planner.base_url] if setup.planner.base_url else []
        raise ConfigError(
            f"{asked.name} reads the hints of this study, and has not been asked with these files and words; here "
            f"nobody is asked. Have it read them first: {shlex.join([*begun, setup.planner.name, *where])}; or go on "
            f"with marks alone: {shlex.join([*begun, NO_PLANNER])}."
        )
    if found is None:
        assert ask_in is not None
        check_ready(asked)
        say(f"{asked.name} is asked for a plan")
        aside = at_hand.aside(ask_in, asked, setup.budget, say=say)
        found = aside.ask_for_plan(question, read, sent=sent)
    marked = plan_of_marks(tree, entry, project.annotations, columns=columns, choices=choices, facts=base)
    found = joined(marked, found, choices=choices)
    if not found.variants:
        raise ConfigError(
            f"Nothing is planned: {asked.name} proposes nothing, and no component is marked. Mark what is to go, or "
            "give a document that says it: --doc."
        )
    return shared(found, tree)


def approve_plan(work: Work, book: Book, *, yes: bool, quiet: bool, more: Mapping[str, Any] | None = None) -> None:
    """Show the plan and have a person approve what is new of it.

    Args:
        work: Brings it to variants.
        book: Where it is written.
        yes: Whether it is approved beforehand.
        quiet: Whether a program reads what is told.
        more: What such a program is told besides if it is not approved.
    """
    from etude.mage.loop.states import Stage
    from etude.mage.plan.planning import told
    from etude.mage.review.approving import who

    new = [name for name, standing in work.standings.items() if standing.stage is Stage.PLANNED]
    if not new:
        return
    if not quiet and book.record.plan is not None:
        show(told(book.record.plan))
    if not yes and (quiet or not at_a_terminal() or not typer.confirm("Is that what is wanted?", default=False)):
        typer.echo("The plan is not approved, so nothing is written. Add --yes, or answer at a terminal.", err=True)
        tell(work, book.record, as_json=quiet, more=more)
        raise typer.Exit(MageCode.AWAITING)
    work.approve_plan(new, by=who())


def at_a_terminal() -> bool:
    """Say whether somebody is there who could be asked."""
    return sys.stdin.isatty()


def would_be_asked(
    record: Record | None,
    project: Project,
    setup: Setup,
    asked: Backend | None,
    base: Facts | None,
    *,
    study: str,
    for_plan: bool,
) -> tuple[dict[str, Request], tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return what would be asked first, the variants that rules write, and those that nobody can be asked for.

    Args:
        record: What was prepared of these files.
        project: The project.
        setup: How its study is prepared.
        asked: Who would be asked.
        base: What the untouched program did.
        study: Its name.
        for_plan: Whether it is the plan that is asked for, and not variants.
    """
    from etude.mage.loop.aside import plan_question
    from etude.mage.loop.book import Record
    from etude.mage.variants import Route

    tree, sent = project.reading.tree, project.chosen.sent if project.chosen is not None else ()
    if for_plan:
        assert asked is not None, "a planner was named"
        return {"the plan": plan_question(tree, sent, setup, base=base, backend=asked)}, (), {}
    if record is not None and record.plan is not None and is_planned(record, setup):
        plan = record.plan
    elif setup.planner.name:
        plan = drafted(record or Record(), project, setup, base, study=study, ask_in=None)
    else:
        plan = planned(project, setup, base=base)
    requests = questions_of(plan, project, setup, asked, base)
    rules = tuple(variant.name for variant in plan.variants if variant.route is Route.RULE)
    return requests, rules, {variant.name: variant.unclear for variant in plan.variants if variant.unclear}


def questions_of(
    plan: Plan, project: Project, setup: Setup, asked: Backend | None, base: Facts | None
) -> dict[str, Request]:
    """Return what would be asked first for each variant of a plan that no rule writes; arguments as above."""
    from etude.mage.asking import prompts
    from etude.mage.backends.capabilities import MOST_TOKENS
    from etude.mage.backends.naming import capability_for
    from etude.mage.loop.at_hand import grammar_for
    from etude.mage.variants import Route

    tree, sent = project.reading.tree, project.chosen.sent if project.chosen is not None else ()
    shared = prompts.shared_of(tree, sent, tag=setup.tag, entry=setup.entry, docs=setup.docs, base=base)
    most = capability_for(asked).answer if asked is not None else MOST_TOKENS
    return {
        variant.name: prompts.request(shared, variant, grammar=grammar_for(asked), most_tokens=most)
        for variant in plan.variants
        if variant.route is Route.MODEL and not variant.unclear
    }


def known_already(folder: Path, project: Project) -> Record | None:
    """Return what was prepared in a folder, if it is of a project's files as they are now."""
    from etude.mage.loop import session
    from etude.store.journal import FILE

    if not (folder / FILE).exists():
        return None
    record = session.read(folder)
    return record if record.tree.digest == project.reading.tree.digest else None
