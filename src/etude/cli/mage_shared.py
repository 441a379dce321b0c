"""What the commands of ``etude mage`` share: projects and studies opened, backends named, plans approved, ends told."""

from __future__ import annotations

import contextlib
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from etude.cli.mage_options import USUAL_BYTES
from etude.cli.shell import BY_A_PROGRAM, print_json, print_table
from etude.core.errors import ConfigError, EtudeError

if TYPE_CHECKING:
    from etude.mage.asking.budget import Budget
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
        from etude.core.errors import SandboxMissing
        from etude.mage.backends.protocol import BackendError

        codes: dict[type[EtudeError], MageCode] = {
            BackendError: MageCode.BACKEND,
            SandboxMissing: MageCode.SANDBOX,
            BaselineStops: MageCode.BASELINE,
        }
        try:
            return super().invoke(ctx)
        except (BackendError, SandboxMissing, BaselineStops) as error:
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
        mode: Any = setup.mode
        experiment = etude.Experiment(train, metric=setup.metric.rpartition(":")[2], mode=mode)
    return hand_over(experiment, components, name=folder.name, **options)


def accepted_in(record: Record) -> list[Accepted]:
    """Return the variants that are accepted, with the trees that their patches make."""
    from etude.mage.handover.components import Accepted
    from etude.mage.patch.making import patched

    return [
        Accepted(name=name, patch=patch, tree=patched(record.tree, patch)) for name, patch in record.accepted().items()
    ]


@contextlib.contextmanager
def prepared(
    path: Path,
    entry: str,
    name: str | None,
    metric: str,
    mode: str,
    tier: str,
    docs: Sequence[Path] | None,
    columns: Sequence[str] | None,
    most_bytes: int = USUAL_BYTES,
) -> Iterator[tuple[Project, Setup, Book]]:
    """Read a project and open its study; what it was called with before holds where nothing else is said."""
    from etude.mage.loop import preparing, session
    from etude.mage.loop.book import Setup
    from etude.results.reading import studies_folder
    from etude.store.journal import FILE

    if mode not in ("max", "min"):
        raise ConfigError(f"--mode {mode} is no direction. Pass max or min.")
    folder = (studies_folder() / (name or path.resolve().name or "mage")).absolute()
    before = session.read(folder).setup if (folder / FILE).exists() else None
    entry = entry or (before.entry if before is not None else "")
    metric = metric or (before.metric if before is not None else "")
    project = preparing.look(path, entry=needed(entry), metric=metric, most_bytes=most_bytes)
    read = preparing.read_docs(docs or ())
    setup = Setup(
        root=str(path.resolve()),
        entry=entry,
        metric=metric,
        mode=mode,
        tier=tier or (before.tier if before is not None else ""),
        docs=read or (before.docs if before is not None else {}),
        columns=tuple(columns or ()) or (before.columns if before is not None else ()),
    )
    with session.writing(folder) as book:
        preparing.begin(book, project, setup)
        assert book.record.setup is not None, "it has just begun"
        yield project, book.record.setup, book


@contextlib.contextmanager
def taken_up(study: str) -> Iterator[tuple[Setup, Book]]:
    """Open a study that was prepared before."""
    from etude.mage.loop import session
    from etude.results.reading import find

    folder = find(study)
    setup = session.read(folder).setup
    if setup is None:
        raise ConfigError(f"No variants were written for {study}. Begin with: etude mage write PATH --name {study}")
    with session.writing(folder) as book:
        yield setup, book


def work(
    book: Book,
    setup: Setup,
    project: Project | None,
    *,
    backend: Backend | None = None,
    budget: Budget | None = None,
    repairs: int = 3,
    policy: Path | None = None,
) -> Work:
    """Return what brings a study's variants on, with the tools as they are."""
    from etude.mage.asking.budget import Budget
    from etude.mage.loop import at_hand
    from etude.mage.loop.machine import Tries
    from etude.mage.loop.work import Work
    from etude.mage.review.approving import decide, read_policy
    from etude.mage.sources.choosing import choose

    record = book.record
    rules = read_policy(policy) if policy is not None else None
    chosen = project.chosen if project is not None else choose(record.tree, record.annotations, setup.entry)
    tools = at_hand.tools_at_hand(
        book,
        setup,
        sandbox=lambda: at_hand.find_sandbox(setup.tier),
        tier=setup.tier,
        backend=backend,
        budget=budget or Budget(),
        say=say,
    )
    return Work(
        book,
        tools,
        sent=chosen.sent if chosen is not None else (),
        tries=Tries(repairs=repairs),
        approve=(lambda name: decide(rules, book.record, name)) if rules is not None else None,
        say=say,
    )


def say(text: str) -> None:
    """Tell a person what happens, on standard error."""
    from etude.mage.review.screen import visible_lines

    typer.echo(visible_lines(text), err=True)


def show(text: str) -> None:
    """Print what comes of a project: its texts may be anybody's, so what would move a terminal is spelled out."""
    from etude.mage.review.screen import visible_lines

    print(visible_lines(text))


def backend(text: str | None, base_url: str | None, local_only: bool, *, is_asked: bool = True) -> Backend | None:
    """Return who is asked; refused before anything is read if it cannot be, unless nothing is to be sent."""
    from etude.mage.backends.naming import backend_of, check_ready

    if text is None:
        return None
    found = backend_of(text, base_url=base_url, local_only=local_only)
    if is_asked:
        check_ready(found)
    return found


def budget(
    calls: int | None, tokens: int | None, cost: float | None, prices: Path | None, backend: Backend | None
) -> Budget:
    """Return the limits that were given; refused where they cannot be kept."""
    from etude.mage.asking.budget import Budget, Limits
    from etude.mage.asking.prices import read_prices

    try:
        known = read_prices(prices.read_text(encoding="utf-8"), source=str(prices)) if prices is not None else None
    except OSError as error:
        raise ConfigError(f"--prices {prices} cannot be read: {error.strerror}.") from None
    found = Budget(study=Limits(calls=calls, output=tokens, cost=cost), prices=known)
    if backend is not None:
        found.check(backend.name)
    return found


def needed(entry: str) -> str:
    """Return how the program is run; refused where nobody says it."""
    if not entry:
        raise ConfigError(
            "Nothing says how the program is run. Pass --entry 'python train.py --seed {seed}', or "
            "--entry script.py:experiment."
        )
    return entry


def planned(project: Project, setup: Setup, choices: Sequence[str] | None, *, base: Facts | None = None) -> Plan:
    """Return the plan of a project, with what its untouched program did if that is known.

    Raises:
        ConfigError: Nothing is planned.
    """
    from etude.mage.plan.planning import plan
    from etude.mage.review.screen import visible

    chosen: dict[str, str] = {}
    for one in choices or ():
        name, equals, reading = one.partition("=")
        if not (name and equals and reading):
            raise ConfigError(f"--choose {one} is no choice. Write it as conv2=pool.")
        chosen[name] = reading
    found = plan(
        project.reading.tree, setup.entry, project.annotations, columns=setup.columns, choices=chosen, facts=base
    )
    if not found.variants:
        remarks = "".join(f"\n  {visible(str(remark))}" for remark in (*project.remarks, *found.remarks))
        raise ConfigError(
            f"Nothing is planned: no component is marked, and no hint names any.{remarks}\n"
            "`etude mage suggest` proposes marks."
        )
    return found


def plan_anew(work: Work, book: Book, project: Project, setup: Setup, choices: Sequence[str] | None) -> None:
    """Plan what is not planned yet, after the untouched program was run; a plan of the same files stays as it is."""
    before = book.record.plan
    if before is not None and before.base == book.record.tree.digest and not choices and book.record.runs:
        return
    planned(project, setup, choices)  # what cannot be planned is said before anything runs
    if why := work.measure():
        raise BaselineStops(why)
    work.plan(planned(project, setup, choices, base=book.record.runs[0]))


class BaselineStops(ConfigError):  # noqa: N818 - as it is told
    """The untouched program does not run by itself."""


def drafted_plan(
    project: Project, planner: str, docs: Mapping[str, str], base_url: str | None, local_only: bool
) -> Plan:
    """Have hints and documents read by somebody, whose every item is checked against the line that it quotes."""
    from etude.mage.asking import prompts
    from etude.mage.backends.protocol import Message, Request
    from etude.mage.plan.replying import from_reply, schema

    asked = backend(planner, base_url, local_only)
    assert asked is not None, "a planner was named"
    tree = project.reading.tree
    sent = project.chosen.sent if project.chosen is not None else tuple(path for path in tree if path.endswith(".py"))
    shared = prompts.shared_of(tree, sent, tag=secrets.token_hex(6), entry=project.entry, docs=docs, base=None)
    words = "Propose ablations of this program. Each item quotes, word for word, the line that it rests on."
    request = Request(
        system=words,
        messages=(Message(role="user", text=prompts.told_shared(shared)),),
        most_tokens=prompts.MOST_TOKENS,
        schema=schema(),
    )
    return from_reply(asked.ask(request).text, tree, project.annotations, entry=project.entry)


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
    if not yes and (quiet or not sys.stdin.isatty() or not typer.confirm("Is that what is wanted?", default=False)):
        typer.echo("The plan is not approved, so nothing is written. Add --yes, or answer.", err=True)
        tell(work, book.record, as_json=quiet)
        raise typer.Exit(MageCode.AWAITING)
    work.approve_plan(new, by=who())


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


def questions(
    project: Project, setup: Setup, planned: Plan, backend: Backend | None, base: Facts | None
) -> tuple[dict[str, Request], tuple[str, ...]]:
    """Return what would be asked first for each variant, and those that rules write."""
    from etude.mage.asking import prompts
    from etude.mage.backends.naming import capability_for
    from etude.mage.patch.rendering import GRAMMAR
    from etude.mage.variants import Route

    tree, sent = project.reading.tree, project.chosen.sent if project.chosen is not None else ()
    rules = tuple(variant.name for variant in planned.variants if variant.route is Route.RULE)
    shared = prompts.shared_of(tree, sent, tag=setup.tag, entry=setup.entry, docs=setup.docs, base=base)
    most = min(prompts.MOST_TOKENS, capability_for(backend).most_output) if backend is not None else prompts.MOST_TOKENS
    requests = {
        variant.name: prompts.request(shared, variant, grammar=GRAMMAR, most_tokens=most)
        for variant in planned.variants
        if variant.route is Route.MODEL and not variant.unclear
    }
    return requests, rules


def prepared_before(path: Path, name: str | None) -> Record | None:
    """Return what was prepared for a project under a name."""
    from etude.mage.loop import session
    from etude.results.reading import studies_folder
    from etude.store.journal import FILE

    folder = studies_folder() / (name or path.resolve().name or "mage")
    return session.read(folder) if (folder / FILE).exists() else None


def refuse_before_money(work: Work, book: Book, backend: Backend | None, project: Project) -> None:
    """Refuse what is too large, and see that somebody answers, before anything long begins."""
    from etude.mage.asking.asker import smoke
    from etude.mage.asking.preview import refuse_too_large
    from etude.mage.backends.hosts import THIS_MACHINE
    from etude.mage.backends.naming import capability_for
    from etude.mage.loop.states import Stage
    from etude.mage.variants import Route

    live = (Stage.PLAN_APPROVED, Stage.DRAFTING, Stage.BUDGET_SPENT, Stage.BACKEND_DOWN)
    waiting = [n for n, s in work.standings.items() if s.stage in live and s.route is Route.MODEL]
    if backend is None or not waiting:
        return
    sent = project.chosen.sent if project.chosen is not None else ()
    context = capability_for(backend).context
    refuse_too_large({n: work.question(n) for n in waiting}, context=context, backend=backend.name, sent=sent)
    if backend.host != THIS_MACHINE and not book.record.replies:
        smoke(backend)


def sources(paths: Sequence[Path]) -> tuple[Path, str, list[Path]]:
    """Return the project's folder, how it is run, and documents, of paths as AblationMage is given them."""
    folders = [path for path in paths if path.is_dir()]
    scripts = [path for path in paths if path.suffix == ".py"]
    docs = [path for path in paths if path not in folders and path not in scripts]
    if len(folders) > 1 or not (folders or scripts):
        raise ConfigError("-d takes one folder, or the sources of one project, and documents beside them.")
    root = folders[0] if folders else scripts[0].parent
    return root, f"python {scripts[0].relative_to(root)} --seed {{seed}}" if scripts else "", docs


def show_waiting(record: Record, work: Work, only: str, *, as_json: bool) -> None:
    """Print the screens of variants that wait, for whoever has no terminal."""
    from etude.mage.loop.states import Stage
    from etude.mage.review.screen import screen

    waiting = [n for n, s in work.standings.items() if s.stage is Stage.AWAITING_REVIEW and only in ("", n)]
    if not as_json:
        print("\n\n".join(screen(record, name) for name in waiting) or "No variant waits for a person.")


def tell(work: Work, record: Record, *, as_json: bool) -> None:
    """Show how far each variant is, and leave with the code that says so."""
    from etude.mage.review.screen import visible

    standings = work.standings
    if as_json:
        print_json({"variants": [plain(one) for one in standings.values()], "told": work.told(), "usage": record.usage})
    else:
        rows = [
            (one.variant, one.stage.value, str(one.calls), visible(one.why.split("\n")[0]))
            for one in standings.values()
        ]
        print_table(["variant", "stage", "calls", "why"], rows)
    code = code_of(standings)
    if code:
        raise typer.Exit(code)


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
