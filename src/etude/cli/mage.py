"""``etude mage``: ablations of code that nobody parametrised, from marks in the sources to an ordinary study.

Exit codes: 0 all variants are accepted, 3 some wait for a person, 4 some came to nothing, 5 the budget is spent, 6 the
backend is down, 7 the untouched program does not run, 8 there is no sandbox; 1, 2 and 130 as everywhere.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from etude.cli import mage_shared as shared
from etude.cli.mage_options import (
    USUAL_BYTES,
    APath,
    Approve,
    AStudy,
    BackendName,
    BaseUrl,
    Choices,
    Columns,
    Docs,
    Entry,
    Explainer,
    LocalOnly,
    MaxCalls,
    MaxCost,
    MaxTokens,
    Metric,
    Mode,
    MostBytes,
    Name,
    Only,
    Own,
    Planner,
    PriceFile,
    Repairs,
    SandboxTier,
    Writer,
    Yes,
)
from etude.cli.mage_shared import MageCode, MageShell
from etude.cli.shell import AsJson, print_json, print_table
from etude.core.errors import ConfigError

ANY_TAG = "0" * 12
"""Stands for what is drawn when a study begins."""

app = typer.Typer(
    cls=MageShell,
    name="mage",
    help="Ablations of code that nobody parametrised: variants are written, verified, approved, and then a study.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


# --- looking --------------------------------------------------------------------------------------


@app.command()
def scan(path: APath = Path(), entry: Entry = "", as_json: AsJson = False) -> None:
    """Show what is marked in a project, what is odd about it, and what is left out."""
    from etude.mage.loop import preparing

    project = preparing.look(path, entry=entry)
    if as_json:
        print_json(shared.plain_project(project))
    else:
        shared.show("\n".join(preparing.told(project)))


@app.command()
def suggest(
    path: APath = Path(),
    *,
    entry: Entry = "",
    planner: Planner = None,
    base_url: BaseUrl = None,
    local_only: LocalOnly = False,
    doc: Docs = None,
    as_json: AsJson = False,
) -> None:
    """Propose marks for a project as a diff; with --planner also a plan, of which each item quotes its line."""
    from etude.mage.loop import preparing
    from etude.mage.plan.planning import told
    from etude.mage.plan.suggesting import suggest as propose

    project = preparing.look(path, entry=entry)
    diff = propose(project.reading.tree)
    planned = None
    if planner is not None:
        planned = shared.drafted_plan(project, planner, preparing.read_docs(doc or ()), base_url, local_only)
    if as_json:
        print_json({"diff": diff, "plan": shared.plain(planned) if planned is not None else None})
        return
    told_marks = diff.removesuffix("\n") or "Nothing was found that could be marked."
    if sys.stdout.isatty():
        shared.show(told_marks)
    else:  # it is a diff that somebody may apply
        print(told_marks)
    if planned is not None:
        shared.show(told(planned))


@app.command()
def plan(
    path: APath = Path(),
    *,
    entry: Entry = "",
    name: Name = None,
    metric: Metric = "",
    mode: Mode = "max",
    sandbox: SandboxTier = "",
    doc: Docs = None,
    column: Columns = None,
    choose: Choices = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Run the untouched program, and show what would be written, and by which claims it is known to be done."""
    from etude.mage.loop import at_hand

    at_hand.find_sandbox(sandbox)
    with shared.prepared(path, entry, name, metric, mode, sandbox, doc, column) as (project, setup, book):
        work = shared.work(book, setup, project)
        shared.plan_anew(work, book, project, setup, choose)
        shared.approve_plan(work, book, yes=yes, quiet=as_json)
        shared.tell(work, book.record, as_json=as_json)


@app.command()
def preview(
    path: APath = Path(),
    *,
    entry: Entry = "",
    name: Name = None,
    backend: BackendName = None,
    writer: Writer = None,
    base_url: BaseUrl = None,
    local_only: LocalOnly = False,
    doc: Docs = None,
    column: Columns = None,
    choose: Choices = None,
    most_bytes: MostBytes = USUAL_BYTES,
    as_json: AsJson = False,
) -> None:
    """Print exactly what would be sent, to which host, how many bytes, and what is left out. Nothing is sent."""
    import msgspec

    from etude.mage.asking.preview import Preview
    from etude.mage.loop import preparing
    from etude.mage.loop.book import Setup

    asked = shared.backend(writer or backend, base_url, local_only, is_asked=False)
    record = shared.prepared_before(path, name)
    metric = record.setup.metric if record is not None and record.setup is not None else ""
    project = preparing.look(path, entry=shared.needed(entry), metric=metric, most_bytes=most_bytes)
    if record is not None and record.tree.digest != project.reading.tree.digest:
        record = None  # that was of other files
    setup = Setup(root=str(path), entry=entry, docs=preparing.read_docs(doc or ()), columns=tuple(column or ()))
    base = record.runs[0] if record is not None and record.runs else None
    known = record.plan if record is not None and not choose and not column else None
    tag = record.setup.tag if record is not None and record.setup is not None else ANY_TAG
    setup = msgspec.structs.replace(setup, tag=tag)
    planned = known or shared.planned(project, setup, choose, base=base)
    requests, rules = shared.questions(project, setup, planned, asked, base)
    shown = Preview(
        backend=asked.name if asked is not None else "nobody (no --backend was given)",
        host=asked.host if asked is not None else "no host",
        requests=requests,
        sent=project.chosen.sent if project.chosen is not None else (),
        left_out=project.left_out,
        rules=rules,
        unclear={variant.name: variant.unclear for variant in planned.variants if variant.unclear},
        is_whole=base is not None,
    )
    if as_json:
        print_json(shown.for_programs())
    else:
        shared.show(shown.told())


# --- writing --------------------------------------------------------------------------------------


@app.command()
def write(
    path: APath = Path(),
    *,
    entry: Entry = "",
    name: Name = None,
    metric: Metric = "",
    mode: Mode = "max",
    sandbox: SandboxTier = "",
    backend: BackendName = None,
    writer: Writer = None,
    base_url: BaseUrl = None,
    local_only: LocalOnly = False,
    doc: Docs = None,
    column: Columns = None,
    choose: Choices = None,
    most_bytes: MostBytes = USUAL_BYTES,
    yes: Yes = False,
    approve: Approve = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    prices: PriceFile = None,
    repairs: Repairs = 3,
    own: Own = None,
    variant: Only = "",
    as_json: AsJson = False,
) -> None:
    """Have variants written, checked and run, until each waits for a person or came to nothing. Again goes on."""
    from etude.mage.loop import at_hand

    asked = shared.backend(writer or backend, base_url, local_only)
    budget = shared.budget(max_calls, max_tokens, max_cost, prices, asked)
    at_hand.find_sandbox(sandbox)  # refused before anything is written or asked
    with shared.prepared(path, entry, name, metric, mode, sandbox, doc, column, most_bytes) as (project, setup, book):
        work = shared.work(book, setup, project, backend=asked, budget=budget, repairs=repairs, policy=approve)
        shared.plan_anew(work, book, project, setup, choose)
        shared.approve_plan(work, book, yes=yes, quiet=as_json)
        if own is not None:
            shared.hand_in(work, book, own, variant)
        shared.refuse_before_money(work, book, asked, project)
        work.run()
        shared.tell(work, book.record, as_json=as_json)


@app.command("first-call")
def first_call(
    paths: Annotated[list[Path], typer.Option("--documents", "-d", metavar="PATH", help="Sources and documents.")],
    api: Annotated[str, typer.Option("--api", "-a", help="anthropic or openai.")],
    model: Annotated[str, typer.Option("--model", "-m", help="The model.")],
    entry: Entry = "",
    name: Name = None,
    sandbox: SandboxTier = "",
    *,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Write variants, in the words of AblationMage: the same as ``write``, and errors come back by themselves."""
    root, script, docs = shared.sources(paths)
    write(
        root,
        entry=entry or script,
        name=name,
        sandbox=sandbox,
        backend=f"{api}:{model}",
        doc=docs,
        yes=yes,
        as_json=as_json,
    )


@app.command("followup-call")
def followup_call(
    study: AStudy,
    paths: Annotated[list[Path], typer.Option("--documents", "-d", metavar="PATH", help="What went wrong, as text.")],
    api: Annotated[str, typer.Option("--api", "-a", help="anthropic or openai.")],
    model: Annotated[str, typer.Option("--model", "-m", help="The model.")],
    variant: Only = "",
    as_json: AsJson = False,
) -> None:
    """Send variants that wait back with what went wrong, in the words of AblationMage: a review with a note."""
    from etude.mage.loop import at_hand
    from etude.mage.loop.preparing import read_docs
    from etude.mage.loop.states import Stage
    from etude.mage.review.approving import who

    note = "\n".join(read_docs(paths).values())
    asked = shared.backend(f"{api}:{model}", None, False)
    with shared.taken_up(study) as (setup, book):
        work = shared.work(book, setup, None, backend=asked)
        waiting = [n for n, s in work.standings.items() if s.stage is Stage.AWAITING_REVIEW and variant in ("", n)]
        if not waiting:
            raise ConfigError(
                f"No variant of {study} waits for a person{f' and is called {variant}' if variant else ''}."
            )
        at_hand.find_sandbox(setup.tier)
        for one in waiting:
            work.reject(one, note, by=who())
        work.run(take_up=False)
        shared.tell(work, book.record, as_json=as_json)


# --- deciding -------------------------------------------------------------------------------------


@app.command()
def review(
    study: AStudy,
    *,
    variant: Only = "",
    approve: Approve = None,
    backend: BackendName = None,
    base_url: BaseUrl = None,
    local_only: LocalOnly = False,
    as_json: AsJson = False,
) -> None:
    """Show each variant that waits, and approve, reject, edit or skip it. Enter alone approves nothing."""
    from etude.mage.patch.making import make_patch_of_trees
    from etude.mage.review.approving import who
    from etude.mage.review.reviewing import Editing, go_through
    from etude.mage.review.screen import Terminal

    asked = shared.backend(backend, base_url, local_only)
    with shared.taken_up(study) as (setup, book):
        work = shared.work(book, setup, None, backend=asked, policy=approve)
        if approve is not None:
            work.run(take_up=False)
        elif as_json or not sys.stdin.isatty():
            shared.show_waiting(book.record, work, variant, as_json=as_json)
        else:
            patched = work.tools.patched
            editing = Editing(patch_of_trees=make_patch_of_trees, patched=patched, environment=os.environ)
            go_through(book, work, Terminal(), by=who(), editing=editing, only=variant)
        shared.tell(work, book.record, as_json=as_json)


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
    from etude.results.reading import find

    record = read(find(study))
    found = replaying.rejudge(
        record,
        compare=compare_runs,
        check=check,
        judge_first_step=judge_first_step,
        judge=judge,
    )
    if write_down:
        with shared.taken_up(study) as (setup, book):
            work = shared.work(book, setup, None)
            for one in found:
                if work.standings[one.variant].stage in (Stage.ACCEPTED, Stage.AWAITING_REVIEW):
                    work.judge_anew(one.variant, one.verdicts)
    if as_json:
        print_json([shared.plain(one) for one in found])
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
    as_json: AsJson = False,
) -> None:
    """Train the accepted variants beside the untouched program: an ordinary ablation in the same study."""
    from etude.mage.loop.session import read
    from etude.results.reading import find

    folder = find(study)
    record = read(folder)
    if not record.accepted():
        raise ConfigError(f"No variant of {study} is accepted. Review them first: etude mage review {study}")
    came = shared.train(folder, record, seeds=seeds, **({"workers": workers} if workers is not None else {}))
    with shared.taken_up(study) as (setup, book):
        shared.work(book, setup, None).handed_over(record.accepted())
    if as_json:
        print_json({"study": study, "variants": list(record.accepted()), "told": str(came)})
    else:
        print(came)


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
    """Write each accepted variant as complete sources that need no Étude, with how to run them and what changed."""
    from etude.mage.handover.exporting import export as write_out
    from etude.mage.loop.book import Did

    with shared.taken_up(study) as (setup, book):
        record = book.record
        accepted = shared.accepted_in(record)
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
def explain(
    study: AStudy,
    *,
    backend: BackendName = None,
    explainer: Explainer = None,
    base_url: BaseUrl = None,
    local_only: LocalOnly = False,
    as_json: AsJson = False,
) -> None:
    """Have a study's report told in prose, in which every number must occur in the report."""
    import json

    from etude.mage.backends.protocol import Message, Request
    from etude.mage.handover.explaining import explain as tell
    from etude.results.reading import find

    asked = shared.backend(explainer or backend, base_url, local_only)
    if asked is None:
        raise ConfigError("Nobody is there who could explain. Name one with --backend, such as anthropic:MODEL.")
    path = find(study) / "report" / "report.json"
    if not path.exists():
        raise ConfigError(f"Study {study} has no report yet. Write it first: etude report {study}")
    report = json.loads(path.read_text(encoding="utf-8"))

    def ask(question: str) -> str:
        words = (Message(role="user", text=question),)
        return asked.ask(Request(system="", messages=words, most_tokens=4_096)).text

    prose = tell(report, ask=ask)
    if as_json:
        print_json({"study": study, "prose": prose})
    else:
        print(prose)
