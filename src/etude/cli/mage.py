"""``etude mage``: ablations of code that nobody parametrised, from marks in the sources to an ordinary study.

Exit codes: 0 all variants are accepted, 3 some wait for a person, 4 some came to nothing, 5 the budget is spent, 6 the
backend is down, 7 the untouched program does not run, 8 there is no sandbox; 1, 2 and 130 as everywhere.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from etude.cli import mage_asking as asking
from etude.cli import mage_planning as planning
from etude.cli import mage_studies as studies
from etude.cli import mage_told as told
from etude.cli import mage_writing as writing
from etude.cli.mage_options import (
    NO_PLANNER,
    APath,
    Api,
    Approve,
    AStudy,
    BackendName,
    Documents,
    Entry,
    Explainer,
    Model,
    Name,
    OfAsking,
    OfRuns,
    OfThePlan,
    Only,
    Own,
    Paths,
    Planner,
    Repairs,
    SandboxTier,
    Writer,
    Yes,
    spread,
)
from etude.cli.mage_told import MageCode, MageShell
from etude.cli.shell import AsJson, print_json, print_table
from etude.core.errors import ConfigError

ANY_TAG = "0" * 12
"""Stands for what is drawn when a study begins."""
NOTHING_SAID = OfThePlan()

app = typer.Typer(
    cls=MageShell,
    name="mage",
    help="Ablate code that nobody parametrised.\n\nVariants are written, verified, approved, and then a study.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


# --- looking --------------------------------------------------------------------------------------


@app.command()
def scan(paths: Paths = None, entry: Entry = "", as_json: AsJson = False) -> None:
    """Show what is marked in a project, and what is odd about it.

    Also what is left out.
    """
    from etude.mage.loop import preparing

    project = preparing.look_at_all(paths or [Path()], entry=entry)
    if as_json:
        print_json(told.plain_project(project))
    else:
        told.show("\n".join(preparing.told(project)))


@app.command()
@spread
def suggest(
    path: APath = Path(),
    *,
    planner: Planner = None,
    of_plan: OfThePlan,
    of_asking: OfAsking,
    name: Name = None,
    sandbox: SandboxTier = "",
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Propose marks for a project, as a diff.

    With --planner a plan as well, to be approved and then written.
    With a planner the marks are those of its plan: with them the same is planned without asking anybody.
    """
    import msgspec

    from etude.mage.loop import at_hand, preparing
    from etude.mage.loop.book import Whom
    from etude.mage.plan.suggesting import as_diff, suggested, suggested_by

    named = planner if planner != NO_PLANNER else None
    said = asking.said(path, of_plan, of_asking, tier=sandbox, planner=named)
    if planner is None:
        tree = preparing.look(path, entry=said.entry).reading.tree
        told.show_diff(as_diff(tree, suggested(tree)), as_json=as_json)
        return
    folder = studies.folder_of(path, name)
    setup = studies.heeded(folder, said)
    if planner == NO_PLANNER:
        setup = msgspec.structs.replace(setup, planner=Whom())
    asking.backend(setup.planner, setup)  # refused before anything is run
    at_hand.find_sandbox(setup.tier)
    before = studies.planner_of(folder)
    with studies.prepared(folder, msgspec.structs.replace(setup, planner=before)) as (project, begun, book):
        setup = msgspec.structs.replace(begun, planner=setup.planner)
        planning.plan_anew(book, project, setup, study=folder.name, asks=True)
        work = studies.work(book, setup, project)
        found = book.record.plan
        assert found is not None, "it was made just now"
        diff = as_diff(book.record.tree, suggested_by(found, book.record.tree))
        if diff and not as_json:
            told.show(f"The same as marks, for `git apply`:\n{diff}")
        more = {"diff": diff, "plan": told.plain(found)}
        planning.approve_plan(work, book, yes=yes, quiet=as_json, more=more)
        told.tell(work, book.record, as_json=as_json, is_plan=True, more=more)


@app.command()
@spread
def plan(
    path: APath = Path(),
    *,
    of_plan: OfThePlan,
    name: Name = None,
    sandbox: SandboxTier = "",
    of_runs: OfRuns,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Run the untouched program, and show what would be written.

    Also by which claims each variant is known to be done.
    """
    from etude.mage.loop import at_hand

    folder = studies.folder_of(path, name)
    setup = studies.heeded(folder, asking.said(path, of_plan, OfAsking(), runs=of_runs, tier=sandbox))
    at_hand.find_sandbox(setup.tier)
    with studies.prepared(folder, setup) as (project, setup, book):
        planning.plan_anew(book, project, setup, study=folder.name)
        work = studies.work(book, setup, project)
        planning.approve_plan(work, book, yes=yes, quiet=as_json)
        told.tell(work, book.record, as_json=as_json, is_plan=True)


@app.command()
@spread
def preview(
    path: APath = Path(),
    *,
    of_plan: OfThePlan,
    name: Name = None,
    backend: BackendName = None,
    writer: Writer = None,
    planner: Planner = None,
    of_asking: OfAsking,
    as_json: AsJson = False,
) -> None:
    """Print exactly what would be sent, and to which host.

    With how many bytes it has, and what is left out. Nothing is sent.
    """
    import msgspec

    from etude.mage.asking.preview import Preview, text_of
    from etude.mage.backends.naming import capability_for
    from etude.mage.loop.book import Whom

    folder = studies.folder_of(path, name)
    named = planner if planner != NO_PLANNER else None
    said = asking.said(path, of_plan, of_asking, writer=writer or backend, planner=named)
    setup = studies.heeded(folder, said)
    setup = msgspec.structs.replace(setup, planner=Whom()) if planner == NO_PLANNER else setup
    asked = asking.backend(setup.planner if named else setup.writer, setup, is_asked=False)
    project = studies.look(setup)
    record = planning.known_already(folder, project)
    setup = msgspec.structs.replace(setup, tag=setup.tag or ANY_TAG)
    base = record.runs[0] if record is not None and record.runs else None
    requests, rules, unclear = planning.would_be_asked(
        record, project, setup, asked, base, study=folder.name, for_plan=bool(named)
    )
    shown = Preview(
        backend=asked.name if asked is not None else "nobody (no --backend was given)",
        host=asked.host if asked is not None else "no host",
        requests=requests,
        sent=project.chosen.sent if project.chosen is not None else (),
        left_out=project.left_out,
        rules=rules,
        unclear=unclear,
        is_whole=base is not None,
        context=capability_for(asked).context if asked is not None else None,
        sends=getattr(asked, "sent", text_of),
    )
    if as_json:
        print_json(shown.for_programs())
    else:
        told.show(shown.told())


# --- writing --------------------------------------------------------------------------------------


@app.command()
@spread
def write(
    path: APath = Path(),
    *,
    of_plan: OfThePlan,
    name: Name = None,
    sandbox: SandboxTier = "",
    of_runs: OfRuns,
    backend: BackendName = None,
    writer: Writer = None,
    of_asking: OfAsking,
    yes: Yes = False,
    approve: Approve = None,
    repairs: Repairs = None,
    own: Own = None,
    variant: Only = "",
    as_json: AsJson = False,
) -> None:
    """Have variants written, checked and run.

    Until each waits for a person, or came to nothing. The same command again goes on.
    """
    if variant and own is None:
        raise ConfigError(
            f"--variant {variant} says whose patch --from is, and there is no --from. Leave it out: all variants are "
            "written."
        )
    folder = studies.folder_of(path, name)
    whom = writer or backend
    said = asking.said(path, of_plan, of_asking, runs=of_runs, tier=sandbox, writer=whom, repairs=repairs)
    setup = studies.heeded(folder, said)
    asked = asking.backend(asking.named(said, setup), setup)  # whoever nobody names now is not asked
    writing.bring_on(folder, setup, asked, yes=yes, as_json=as_json, approve=approve, own=own, variant=variant)


@app.command()
@spread
def resume(
    study: AStudy,
    *,
    sandbox: SandboxTier = "",
    of_runs: OfRuns,
    backend: BackendName = None,
    writer: Writer = None,
    of_asking: OfAsking,
    yes: Yes = False,
    approve: Approve = None,
    repairs: Repairs = None,
    again: Annotated[
        list[str] | None,
        typer.Option(
            "--again", metavar="VARIANT", help="Have it written again: it came to nothing, or its trial failed."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a study that was broken off.

    With what was said of it: whoever wrote is asked, within its limits.
    """
    from etude.results.finding import find

    before = studies.setup_of(study)
    whom = writer or backend
    said = asking.said(before.root, NOTHING_SAID, of_asking, runs=of_runs, tier=sandbox, writer=whom, repairs=repairs)
    folder = find(study).absolute()
    setup = studies.heeded(folder, said)
    asked = asking.backend(setup.writer, setup)
    writing.bring_on(folder, setup, asked, yes=yes, as_json=as_json, approve=approve, again=again or ())


@app.command("first-call")
@spread
def first_call(
    documents: Documents,
    api: Api,
    model: Model,
    *,
    of_plan: OfThePlan,
    of_asking: OfAsking,
    name: Name = None,
    sandbox: SandboxTier = "",
    of_runs: OfRuns,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Write variants, in the words of AblationMage.

    The same as `write`, and errors come back by themselves.
    """
    import dataclasses

    root, script, docs = studies.sources(documents)
    entry = of_plan.entry or script
    of_plan = dataclasses.replace(of_plan, entry=entry, doc=[*docs, *(of_plan.doc or ())])
    folder = studies.folder_of(root, name)
    writer = asking.service(api, model)
    said = asking.said(root, of_plan, of_asking, runs=of_runs, tier=sandbox, writer=writer)
    setup = studies.heeded(folder, said)
    asked = asking.backend(setup.writer, setup)
    writing.bring_on(folder, setup, asked, yes=yes, as_json=as_json)


@app.command("followup-call")
@spread
def followup_call(
    study: AStudy,
    api: Api,
    model: Model,
    *,
    documents: Annotated[
        list[Path] | None,
        typer.Option("--documents", "-d", metavar="PATH", help="What went wrong; without, what its failed trial said."),
    ] = None,
    of_asking: OfAsking,
    sandbox: SandboxTier = "",
    variant: Only = "",
    as_json: AsJson = False,
) -> None:
    """Send variants back, in the words of AblationMage.

    Those that wait, with what went wrong: a review with a note.
    """
    from etude.mage.loop import at_hand
    from etude.mage.loop.ladder import trial_that_failed
    from etude.mage.loop.preparing import read_docs
    from etude.mage.review.approving import who

    note = "\n".join(read_docs(documents or ()).values())
    before = studies.setup_of(study)
    said = asking.said(before.root, NOTHING_SAID, of_asking, tier=sandbox, writer=asking.service(api, model))
    with studies.taken_up(study, said) as (setup, book):
        asked = asking.backend(setup.writer, setup)
        work = studies.work(book, setup, None, backend=asked)
        waiting = writing.waiting(work, book.record, variant)
        if not waiting:
            which = f"{variant} of {study} does not wait" if variant else f"No variant of {study} waits"
            raise ConfigError(
                f"{which} for a person, so nothing is sent back. See how far all are: etude mage review {study}"
            )
        failed = [one for one in waiting if trial_that_failed(book.record.verdicts_of(one))]
        if not (note or failed):
            raise ConfigError(
                f"Nothing says what went wrong with {', '.join(waiting)}: no trial of it failed. Pass a file that "
                "says so: -d output.txt."
            )
        at_hand.find_sandbox(setup.tier)
        for one in waiting if note else failed:
            if note:
                work.reject(one, note, by=who())
            else:
                work.try_again(one)
        work.run(take_up=False)
        told.tell(work, book.record, as_json=as_json, study=study)


# --- deciding -------------------------------------------------------------------------------------


@app.command()
@spread
def review(
    study: AStudy,
    *,
    variant: Only = "",
    approve: Approve = None,
    backend: BackendName = None,
    of_asking: OfAsking,
    sandbox: SandboxTier = "",
    as_json: AsJson = False,
) -> None:
    """Show each variant that waits; approve, reject or edit it.

    Or skip it. Enter alone approves nothing.
    """
    from etude.mage.loop import at_hand
    from etude.mage.patch.making import make_patch_of_trees
    from etude.mage.review.approving import who
    from etude.mage.review.reviewing import Editing, go_through
    from etude.mage.review.screen import Terminal

    before = studies.setup_of(study)
    said = asking.said(before.root, NOTHING_SAID, of_asking, tier=sandbox, writer=backend)
    with studies.taken_up(study, said) as (setup, book):
        asked = asking.backend(asking.named(said, setup), setup)
        work = studies.work(book, setup, None, backend=asked, policy=approve)
        waiting = writing.waiting(work, book.record, variant)
        if approve is not None:
            work.run(take_up=False)
        elif as_json or not planning.at_a_terminal():
            if not as_json:
                told.show_waiting(book.record, waiting)
        elif waiting:
            at_hand.find_sandbox(setup.tier)  # what is edited or noted is run: nobody is to decide for nothing
            patched = work.tools.patched
            editing = Editing(patch_of_trees=make_patch_of_trees, patched=patched, environment=os.environ)
            go_through(book, work, Terminal(), by=who(), editing=editing, only=variant)
        else:
            print("No variant waits for a person.")
        told.tell(work, book.record, as_json=as_json)


@app.command()
def replay(
    study: AStudy,
    *,
    write_down: Annotated[
        bool, typer.Option("--write", help="Write it down: another verdict voids an approval.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Judge an old study by today's judge. Nobody is asked, and nothing is run."""
    from etude.mage.judge.baseline import compare_runs
    from etude.mage.judge.judging import judge, judge_first_step
    from etude.mage.loop import replaying
    from etude.mage.loop.session import read
    from etude.mage.loop.states import Stage
    from etude.mage.static.checking import check
    from etude.results.finding import find

    record = read(find(study))
    found = replaying.rejudge(
        record,
        compare=compare_runs,
        check=check,
        judge_first_step=judge_first_step,
        judge=judge,
    )
    if write_down:
        with studies.taken_up(study) as (setup, book):
            work = studies.work(book, setup, None)
            for one in found:
                if work.standings[one.variant].stage in (Stage.ACCEPTED, Stage.SHARED, Stage.AWAITING_REVIEW):
                    work.judge_anew(one.variant, one.verdicts)
    if as_json:
        print_json([told.plain(one) for one in found])
    elif not found:
        print(f"No variant of {study} has run, so there is nothing to judge.")
    else:
        rows = [(one.variant, one.before or "", one.now, "differs" if one.differs else "") for one in found]
        print_table(["variant", "then", "now", ""], rows)
    if any(one.differs for one in found):
        raise typer.Exit(MageCode.GAVE_UP)


# --- afterwards -----------------------------------------------------------------------------------


@app.command()
def run(
    study: AStudy,
    *,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds each variant is trained with.")] = 10,
    workers: Annotated[int | None, typer.Option("--workers", help="How many trials run at a time.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Run it although so few seeds can decide nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train the accepted variants beside the untouched program.

    It is an ordinary ablation, in the same study.
    """
    from etude.mage.loop.session import read
    from etude.results.finding import find

    folder = find(study)
    record = read(folder)
    if not record.accepted():
        raise ConfigError(f"No variant of {study} is accepted. Review them first: etude mage review {study}")
    options = {"seeds": seeds, "force": force, **({"workers": workers} if workers is not None else {})}
    name, came = studies.train(folder, record, **options)
    with studies.taken_up(study) as (setup, book):
        doing = studies.work(book, setup, None)
        for one, why in came.failed.items():
            if one in record.accepted():
                doing.trial_failed(one, why)
        doing.handed_over((one for one in record.accepted() if one not in came.failed), ablation=name)
    if as_json:
        variants = list(record.accepted())
        print_json(
            {"study": study, "ablation": name, "variants": variants, "told": str(came), "failed": dict(came.failed)}
        )
    else:
        print(came)
    for one in record.accepted():
        if one in came.failed:
            told.say(told.HOW_A_TRIAL_GOES_BACK.format(study=study, name=one))
    if came.failed:
        raise typer.Exit(MageCode.GAVE_UP)


@app.command()
def export(
    study: AStudy,
    into: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder.")],
    *,
    one_script: Annotated[
        bool, typer.Option("--one", help="One script with --variant NAME, instead of a folder for each.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write each accepted variant as complete sources.

    They need no Étude; how to run them and what changed stand with them.
    """
    from etude.mage.handover.exporting import export as write_out
    from etude.mage.loop.book import Did

    with studies.taken_up(study) as (setup, book):
        record = book.record
        accepted = studies.accepted_in(record)
        if not accepted:
            raise ConfigError(f"No variant of {study} is accepted. Review them first: etude mage review {study}")
        intents = {one.name: record.variant(one.name).intent for one in accepted}
        root = Path(setup.root)
        done = write_out(
            accepted, entry=setup.entry, base=record.tree, root=root, into=into, one=one_script, intents=intents
        )
        book.write(Did.EXPORTED, into=str(done), variants=list(intents))
    if as_json:
        print_json({"study": study, "into": str(done), "variants": list(intents)})
    else:
        print(f"Written to {done}.")


@app.command()
@spread
def explain(
    study: AStudy,
    *,
    backend: BackendName = None,
    explainer: Explainer = None,
    of_asking: OfAsking,
    as_json: AsJson = False,
) -> None:
    """Have a study's report told in prose.

    Every number in it must occur in the report.
    """
    import json

    import msgspec

    from etude.mage.handover.explaining import explain as tell
    from etude.mage.loop import at_hand, session
    from etude.mage.loop.book import Did, Whom
    from etude.mage.loop.said import asked_now, heeded
    from etude.results.finding import find

    if not (explainer or backend):
        raise ConfigError("Nobody is there who could explain. Name one with --backend, such as anthropic:MODEL.")
    folder = find(study)
    path = folder / "report" / "report.json"
    if not path.exists():
        raise ConfigError(f"Study {study} has no report yet. Write it first: etude report {study}")
    report = json.loads(path.read_text(encoding="utf-8"))
    said = asking.said("", NOTHING_SAID, of_asking, writer=explainer or backend)
    before = session.read(folder).setup
    unnamed = msgspec.structs.replace(said, root=before.root if before is not None else "", writer=Whom())
    setup = heeded(before, unnamed, study=folder.name)  # its limits hold here as well, and whoever writes stays so
    asked = asking.backend(asked_now(before.writer if before is not None else Whom(), said.writer), setup)
    assert asked is not None, "somebody was named"
    with session.writing(folder) as book:
        if before not in (None, setup):
            book.write(Did.BEGUN, setup=setup)
        aside = at_hand.aside(book, asked, setup.budget, say=told.say)
        prose = tell(report, ask=lambda question: aside.ask_for_text(question, most_tokens=4_096))
    if as_json:
        print_json({"study": study, "prose": prose})
    else:
        print(prose)
