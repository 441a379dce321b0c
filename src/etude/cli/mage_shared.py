"""What the commands of ``etude mage`` share: projects and studies opened, plans made and approved, ends told."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperGroup

from etude.cli.mage_asking import backend
from etude.cli.shell import BY_A_PROGRAM, print_json, print_table
from etude.core.errors import BackendError, BaselineError, BudgetSpent, ConfigError, EtudeError, SandboxMissing

if TYPE_CHECKING:
    from etude.mage.backends.protocol import Backend, Request
    from etude.mage.facts import Facts
    from etude.mage.handover.components import Accepted
    from etude.mage.loop.book import Book, Record, Setup
    from etude.mage.loop.machine import Standing
    from etude.mage.loop.preparing import Project
    from etude.mage.loop.work import Work
    from etude.mage.variants import Plan


class MageCode(IntEnum):
    """How a command of the mage ended, for scripts."""

    OK = 0
    AWAITING = 3
    GAVE_UP = 4
    BUDGET = 5
    BACKEND = 6
    BASELINE = 7
    SANDBOX = 8


class MageShell(TyperGroup):
    """Commands that leave with a code of their own where nobody can be asked, or there is no sandbox."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command, and turn what it raises into an exit code, and into a document for a program."""
        codes: dict[type[EtudeError], MageCode] = {
            BackendError: MageCode.BACKEND,
            BudgetSpent: MageCode.BUDGET,
            SandboxMissing: MageCode.SANDBOX,
            BaselineError: MageCode.BASELINE,
        }
        try:
            return super().invoke(ctx)
        except tuple(codes) as error:
            if ctx.meta.get(BY_A_PROGRAM):
                print_json({"error": str(error)})
            typer.echo(str(error), err=True)
            raise typer.Exit(next(code for kind, code in codes.items() if isinstance(error, kind))) from None


def train(folder: Path, record: Record, **options: Any) -> Any:
    """Run the ablation of the accepted variants in the study's folder."""
    import etude
    from etude.files import scripts
    from etude.mage.handover.components import commands_of, components_of, hand_over
    from etude.mage.sources.reading import read_tree

    setup = record.setup
    assert setup is not None, "variants were accepted, so it was begun"
    root, tree = Path(setup.root), record.tree
    if read_tree(root, metric=setup.metric).tree.digest != tree.digest:
        raise ConfigError(
            f"{root} was edited since its variants were checked. Take the edit back, or check them again: "
            f"etude mage write {root} --name {folder.name}"
        )
    accepted = accepted_in(record)
    experiment: Any  # of its many forms of ``ablate`` one is needed
    file, colon, _ = setup.entry.partition(":")
    if colon and file.endswith(".py") and " " not in setup.entry:
        experiment, _ = scripts.load(str(root / setup.entry))
        components = components_of(accepted, entry=setup.entry, base=tree, root=root, experiment=experiment)
    else:
        if not setup.metric:
            raise ConfigError("Nothing says where the metric is. Plan again with --metric metrics.json:accuracy.")
        train, components = commands_of(accepted, entry=setup.entry, metric=setup.metric, base=tree, root=root)
        mode: Any = setup.mode or "max"
        experiment = etude.Experiment(train, metric=setup.metric.rpartition(":")[2], mode=mode)
    return hand_over(experiment, components, name=folder.name, **options)


def accepted_in(record: Record) -> list[Accepted]:
    """Return the variants that are accepted, with the trees that their patches make."""
    from etude.mage.handover.components import Accepted
    from etude.mage.patch.making import patched

    return [
        Accepted(name=name, patch=patch, tree=patched(record.tree, patch)) for name, patch in record.accepted().items()
    ]


def folder_of(path: Path, name: str | None) -> Path:
    """Return the folder of the study of a project."""
    from etude.results.reading import studies_folder

    return (studies_folder() / (name or path.resolve().name or "mage")).absolute()


def heeded(folder: Path, now: Setup) -> Setup:
    """Return how a study is prepared after what is said now; what was said before holds where nothing else is.

    Raises:
        ConfigError: Something else than before is said of what holds, or nothing says how the program is run.
    """
    from etude.mage.loop import session
    from etude.mage.loop.said import heeded as put_together
    from etude.store.journal import FILE

    before = session.read(folder).setup if (folder / FILE).exists() else None
    setup = put_together(before, now, study=folder.name)
    if not setup.entry:
        raise ConfigError(
            "Nothing says how the program is run. Pass --entry 'python train.py --seed {seed}', or "
            "--entry script.py:experiment."
        )
    refuse_short(setup)
    return setup


@contextlib.contextmanager
def prepared(folder: Path, setup: Setup) -> Iterator[tuple[Project, Setup, Book]]:
    """Read a project and open its study, and write down how it is prepared."""
    from etude.mage.loop import preparing, session

    project = look(setup)
    with session.writing(folder) as book:
        preparing.begin(book, project, setup)
        assert book.record.setup is not None, "it has just begun"
        yield project, book.record.setup, book


def look(setup: Setup) -> Project:
    """Read the project of a study, as it is prepared."""
    from etude.mage.loop.preparing import look as read
    from etude.mage.sources.choosing import MOST_BYTES

    return read(Path(setup.root), entry=setup.entry, metric=setup.metric, most_bytes=setup.most_bytes or MOST_BYTES)


def refuse_short(setup: Setup) -> None:
    """Refuse arguments for what takes none."""
    from etude.mage.probe.run import EXPERIMENT

    if setup.short and EXPERIMENT.match(setup.entry.strip()):
        raise ConfigError(
            f"--short {setup.short!r} is added to a command, and --entry {setup.entry} is none: an experiment takes no "
            "arguments. Give its training function smaller defaults, or a longer time with --short-limit."
        )


@contextlib.contextmanager
def taken_up(study: str, now: Setup | None = None) -> Iterator[tuple[Setup, Book]]:
    """Open a study that was prepared before, and write down what is said of it now."""
    from etude.mage.loop import session
    from etude.mage.loop.book import Did
    from etude.results.reading import find

    folder = find(study)
    before = setup_of(study)
    setup = before if now is None else heeded(folder, now)
    with session.writing(folder) as book:
        if setup != before:
            book.write(Did.BEGUN, setup=setup)
        yield setup, book


def setup_of(study: str) -> Setup:
    """Return how a study was prepared.

    Raises:
        ConfigError: It was not.
    """
    from etude.mage.loop import session
    from etude.results.reading import find

    setup = session.read(find(study)).setup
    if setup is None:
        raise ConfigError(f"No variants were written for {study}. Begin with: etude mage write PATH --name {study}")
    return setup


def work(
    book: Book, setup: Setup, project: Project | None, *, backend: Backend | None = None, policy: Path | None = None
) -> Work:
    """Return what brings a study's variants on, with the tools as they are."""
    from etude.mage.loop import at_hand
    from etude.mage.loop.machine import Tries
    from etude.mage.loop.work import Work
    from etude.mage.review.approving import decide, read_policy
    from etude.mage.sources.choosing import MOST_BYTES, choose

    record = book.record
    rules = read_policy(policy) if policy is not None else None
    if project is not None:
        chosen = project.chosen
    else:  # taken up: among the sources as they were
        chosen = choose(record.tree, record.annotations, setup.entry, most_bytes=setup.most_bytes or MOST_BYTES)
    tools = at_hand.tools_at_hand(
        book,
        setup,
        sandbox=lambda: at_hand.find_sandbox(setup.tier),
        tier=setup.tier,
        backend=backend,
        budget=setup.budget,
        say=say,
    )
    return Work(
        book,
        tools,
        sent=chosen.sent if chosen is not None else (),
        tries=Tries(repairs=setup.repairs) if setup.repairs is not None else Tries(),
        approve=(lambda name: decide(rules, book.record, name)) if rules is not None else None,
        say=say,
    )


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
) -> None:
    """Bring a study's variants on until each waits for a person or came to nothing."""
    from etude.mage.loop import at_hand

    at_hand.find_sandbox(setup.tier)  # refused before anything is written or asked
    with prepared(folder, setup) as (project, begun, book):
        plan_anew(book, project, begun)
        doing = work(book, begun, project, backend=asked, policy=approve)
        approve_plan(doing, book, yes=yes, quiet=as_json)
        if own is not None:
            hand_in(doing, book, own, variant)
        refuse_before_money(doing, book, asked, project)
        doing.run()
        tell(doing, book.record, as_json=as_json, study=folder.name)


def say(text: str) -> None:
    """Tell a person what happens, on standard error."""
    from etude.mage.review.screen import visible_lines

    typer.echo(visible_lines(text), err=True)


def show(text: str) -> None:
    """Print what comes of a project: its texts may be anybody's, so what would move a terminal is spelled out."""
    from etude.mage.review.screen import visible_lines

    print(visible_lines(text))


def planned(project: Project, setup: Setup, *, base: Facts | None = None) -> Plan:
    """Return the plan of a project, with what its untouched program did if that is known.

    Raises:
        ConfigError: Nothing is planned.
    """
    from etude.mage.plan.planning import plan
    from etude.mage.review.screen import visible

    tree = project.reading.tree
    found = plan(tree, setup.entry, project.annotations, columns=setup.columns, choices=dict(setup.choices), facts=base)
    if not found.variants:
        remarks = "".join(f"\n  {visible(str(remark))}" for remark in (*project.remarks, *found.remarks))
        raise ConfigError(
            f"Nothing is planned: no component is marked, and no hint names any.{remarks}\n"
            "`etude mage suggest` proposes marks."
        )
    return found


def plan_anew(book: Book, project: Project, setup: Setup) -> None:
    """Plan what is not planned yet, after the untouched program was run.

    A plan of the same files, that was made with the same words, stays as it is.
    """
    import msgspec

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
        found = drafted(book.record, project, setup, base, ask_in=book)
    else:
        found = planned(project, setup, base=base)
    doing.plan(msgspec.structs.replace(found, said=plan_said(setup)))


def is_planned(record: Record, setup: Setup) -> bool:
    """Say whether a study has the plan that would be made of its files with what was said."""
    from etude.mage.loop.said import plan_said

    plan = record.plan
    made = plan is not None and plan.base == record.tree.digest and plan.said == plan_said(setup)
    return made and bool(record.runs)


def drafted(record: Record, project: Project, setup: Setup, base: Facts | None, *, ask_in: Book | None) -> Plan:
    """Return the plan in which a planner has read hints, documents and code, and marks mean what they always do.

    Args:
        record: What was prepared: an answer that is in there is not asked for again.
        project: The project.
        setup: Who reads, and what.
        base: What the untouched program did.
        ask_in: Where an answer is written if one has to be asked for; None to ask nobody.

    Raises:
        ConfigError: The answer is no plan that can be taken, or proposes nothing, or nobody may be asked for one.
    """
    from etude.mage.backends.naming import check_ready
    from etude.mage.loop import at_hand
    from etude.mage.loop.aside import known_plan, plan_question
    from etude.mage.plan.planning import plan_of_marks
    from etude.mage.plan.replying import from_reply, joined

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
        raise ConfigError(
            f"{asked.name} reads the hints of this study, and has not been asked with these files and words; here "
            f"nobody is asked. Have it read them first: etude mage suggest {setup.root} --planner {setup.planner.name}"
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
    return found


def approve_plan(work: Work, book: Book, *, yes: bool, quiet: bool) -> None:
    """Show the plan and have a person approve what is new of it."""
    from etude.mage.loop.states import Stage
    from etude.mage.plan.planning import told
    from etude.mage.review.approving import who

    new = [name for name, standing in work.standings.items() if standing.stage is Stage.PLANNED]
    if not new:
        return
    if not quiet and book.record.plan is not None:
        show(told(book.record.plan))
    if not yes and (quiet or not at_a_terminal() or not typer.confirm("Is that what is wanted?", default=False)):
        typer.echo("The plan is not approved, so nothing is written. Add --yes, or answer.", err=True)
        tell(work, book.record, as_json=quiet)
        raise typer.Exit(MageCode.AWAITING)
    work.approve_plan(new, by=who())


def at_a_terminal() -> bool:
    """Say whether somebody is there who could be asked."""
    return sys.stdin.isatty()


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


def would_be_asked(
    record: Record | None,
    project: Project,
    setup: Setup,
    asked: Backend | None,
    base: Facts | None,
    *,
    for_plan: bool,
) -> tuple[dict[str, Request], tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return what would be asked first, the variants that rules write, and those that nobody can be asked for.

    Args:
        record: What was prepared of these files.
        project: The project.
        setup: How its study is prepared.
        asked: Who would be asked.
        base: What the untouched program did.
        for_plan: Whether it is the plan that is asked for, and not variants.
    """
    from etude.mage.asking import prompts
    from etude.mage.backends.naming import capability_for
    from etude.mage.loop.aside import plan_question
    from etude.mage.loop.book import Record
    from etude.mage.patch.rendering import GRAMMAR
    from etude.mage.variants import Route

    tree, sent = project.reading.tree, project.chosen.sent if project.chosen is not None else ()
    if for_plan:
        assert asked is not None, "a planner was named"
        return {"the plan": plan_question(tree, sent, setup, base=base, backend=asked)}, (), {}
    if record is not None and record.plan is not None and is_planned(record, setup):
        plan = record.plan
    elif setup.planner.name:
        plan = drafted(record or Record(), project, setup, base, ask_in=None)
    else:
        plan = planned(project, setup, base=base)
    shared = prompts.shared_of(tree, sent, tag=setup.tag, entry=setup.entry, docs=setup.docs, base=base)
    most = min(prompts.MOST_TOKENS, capability_for(asked).most_output) if asked is not None else prompts.MOST_TOKENS
    requests = {
        variant.name: prompts.request(shared, variant, grammar=GRAMMAR, most_tokens=most)
        for variant in plan.variants
        if variant.route is Route.MODEL and not variant.unclear
    }
    rules = tuple(variant.name for variant in plan.variants if variant.route is Route.RULE)
    return requests, rules, {variant.name: variant.unclear for variant in plan.variants if variant.unclear}


def known_already(folder: Path, project: Project) -> Record | None:
    """Return what was prepared in a folder, if it is of a project's files as they are now."""
    from etude.mage.loop import session
    from etude.store.journal import FILE

    if not (folder / FILE).exists():
        return None
    record = session.read(folder)
    return record if record.tree.digest == project.reading.tree.digest else None


def refuse_before_money(work: Work, book: Book, backend: Backend | None, project: Project) -> None:
    """Refuse what is too large, and see that somebody answers, before anything long begins."""
    from etude.mage.asking.preview import refuse_too_large
    from etude.mage.backends.hosts import THIS_MACHINE
    from etude.mage.backends.naming import capability_for
    from etude.mage.loop.aside import Aside
    from etude.mage.loop.states import Stage
    from etude.mage.variants import Route

    live = (Stage.PLAN_APPROVED, Stage.DRAFTING, Stage.BUDGET_SPENT, Stage.BACKEND_DOWN)
    waiting = [n for n, s in work.standings.items() if s.stage in live and s.route is Route.MODEL]
    asks, answers = work.tools.asks, work.tools.answers
    if backend is None or asks is None or answers is None or not waiting:
        return
    sent = project.chosen.sent if project.chosen is not None else ()
    context = capability_for(backend).context
    refuse_too_large({n: work.question(n) for n in waiting}, context=context, backend=backend.name, sent=sent)
    if backend.host != THIS_MACHINE:
        Aside(book, asks, answers).see_whether_it_answers()


def sources(paths: Sequence[Path]) -> tuple[Path, str, list[Path]]:
    """Return the project's folder, how it is run, and documents, of paths as AblationMage is given them.

    Raises:
        ConfigError: They are no sources of one project.
    """
    folders = [path for path in paths if path.is_dir()]
    scripts = [path for path in paths if path.suffix == ".py" and path not in folders]
    docs = [path for path in paths if path not in folders and path not in scripts]
    if len(folders) > 1 or not (folders or scripts):
        given = ", ".join(map(str, paths))
        raise ConfigError(
            f"-d {given}: these are {'several folders' if folders else 'no sources'}. Give one folder, or the scripts "
            "of one project, and documents beside them."
        )
    root = folders[0] if folders else scripts[0].parent
    for script in scripts:
        if not script.is_file():
            raise ConfigError(f"-d {script}: there is no such file. Give the script that is run, or its folder.")
        if not script.resolve().is_relative_to(root.resolve()):
            raise ConfigError(
                f"-d {script} is not in {root}, which would be the project. Give the folder that holds all of its "
                "sources, and the script that is run."
            )
    first = scripts[0].resolve().relative_to(root.resolve()).as_posix() if scripts else ""
    return root, f"python {shlex.quote(first)} --seed {{seed}}" if first else "", docs


def waiting(work: Work, record: Record, only: str) -> list[str]:
    """Return the variants that wait for a person, or the one that is meant if it does.

    Raises:
        ConfigError: The one that is meant is none of the plan.
    """
    from etude.mage.loop.states import Stage

    if only:
        record.variant(only)
    return [n for n, s in work.standings.items() if s.stage is Stage.AWAITING_REVIEW and only in ("", n)]


def show_waiting(record: Record, names: Sequence[str]) -> None:
    """Print the screens of variants that wait, for whoever has no terminal."""
    from etude.mage.review.screen import screen

    print("\n\n".join(screen(record, name) for name in names) or "No variant waits for a person.")


def tell(work: Work, record: Record, *, as_json: bool, study: str = "", more: Mapping[str, Any] | None = None) -> None:
    """Show how far each variant is, and leave with the code that says so.

    Args:
        work: Knows how far they are.
        record: What was prepared.
        as_json: Whether a program reads it.
        study: The study's name, to say how it goes on if it was broken off.
        more: What is in the document for programs besides.
    """
    from etude.mage.review.screen import visible

    standings = work.standings
    if as_json:
        found = {"variants": [plain(one) for one in standings.values()], "told": work.told(), "usage": record.usage}
        print_json({**(more or {}), **found})
    else:
        rows = [
            (one.variant, one.stage.value, str(one.calls), visible(one.why.split("\n")[0]))
            for one in standings.values()
        ]
        print_table(["variant", "stage", "calls", "why"], rows)
    code = code_of(standings)
    if study and code in HOW_IT_GOES_ON:
        say(HOW_IT_GOES_ON[code].format(study=study))
    if code:
        raise typer.Exit(code)


HOW_IT_GOES_ON: Final = {
    MageCode.BUDGET: "Raise --max-calls, --max-tokens or --max-cost, and it goes on: etude mage resume {study}",
    MageCode.BACKEND: "Once it can be asked again, it goes on: etude mage resume {study}",
}
"""How a study goes on that was broken off."""


def code_of(standings: Mapping[str, Standing]) -> MageCode:
    """Return the exit code for variants as they stand: the one that most needs somebody."""
    from etude.mage.loop.states import Stage

    codes = {
        MageCode.BASELINE: {Stage.BASELINE_BROKEN},
        MageCode.BACKEND: {Stage.BACKEND_DOWN},
        MageCode.BUDGET: {Stage.BUDGET_SPENT},
        MageCode.GAVE_UP: {Stage.GAVE_UP, Stage.REJECTED, Stage.UNCLEAR},
    }
    found = {standing.stage for standing in standings.values()}
    for code, stages in codes.items():
        if found & stages:
            return code
    return MageCode.OK if found <= {Stage.ACCEPTED, Stage.HANDED_OVER} else MageCode.AWAITING


def plain(value: Any) -> Any:
    """Return a value as plain data."""
    import msgspec

    return msgspec.to_builtins(value)


def plain_project(project: Project) -> dict[str, Any]:
    """Return a project as plain data."""
    return {
        "root": str(project.reading.root),
        "files": list(project.reading.tree),
        "annotations": [plain(one) for one in project.annotations],
        "remarks": [plain(one) for one in project.remarks],
        "left_out": project.left_out,
        "sent": list(project.chosen.sent) if project.chosen is not None else None,
    }
