"""Studies of ``etude mage``, opened: what was said of them holds, and there is one writer."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etude.cli.mage_told import say
from etude.core.errors import ConfigError

if TYPE_CHECKING:
    from etude.mage.backends.protocol import Backend
    from etude.mage.handover.components import Accepted, HandedOver
    from etude.mage.loop.book import Book, Record, Setup, Whom
    from etude.mage.loop.preparing import Project
    from etude.mage.loop.work import Work


def folder_of(path: Path, name: str | None) -> Path:
    """Return the folder of the study of a project."""
    from etude.results.finding import studies_folder

    return (studies_folder() / (name or path.resolve().name or "mage")).absolute()


def heeded(folder: Path, now: Setup) -> Setup:
    """Return how a study is prepared after what is said now; what was said before holds where nothing else is.

    Raises:
        ConfigError: Something else than before is said of what holds, or nothing says how the program is run.
    """
    from etude.mage.loop.said import heeded as put_together

    setup = put_together(_prepared_before(folder), now, study=folder.name)
    if not setup.entry:
        raise ConfigError(
            "Nothing says how the program is run. Pass --entry 'python train.py --seed {seed}', or "
            "--entry script.py:experiment."
        )
    refuse_short(setup)
    return setup


def refuse_short(setup: Setup) -> None:
    """Refuse arguments for what takes none."""
    from etude.mage.sources.entry import experiment_of

    if setup.short and experiment_of(setup.entry) is not None:
        raise ConfigError(
            f"--short {setup.short!r} is added to a command, and --entry {setup.entry} is none: an experiment takes no "
            "arguments. Give its training function smaller defaults, or a longer time with --short-limit."
        )


def look(setup: Setup) -> Project:
    """Read the project of a study, as it is prepared."""
    from etude.mage.loop.preparing import look as read
    from etude.mage.sources.choosing import MOST_BYTES

    return read(Path(setup.root), entry=setup.entry, metric=setup.metric, most_bytes=setup.most_bytes or MOST_BYTES)


@contextlib.contextmanager
def prepared(folder: Path, setup: Setup) -> Iterator[tuple[Project, Setup, Book]]:
    """Read a project and open its study, and write down how it is prepared."""
    from etude.mage.loop import preparing, session

    project = look(setup)
    with session.writing(folder) as book:
        preparing.begin(book, project, setup)
        assert book.record.setup is not None, "it has just begun"
        yield project, book.record.setup, book


@contextlib.contextmanager
def taken_up(study: str, now: Setup | None = None) -> Iterator[tuple[Setup, Book]]:
    """Open a study that was prepared before, and write down what is said of it now."""
    from etude.mage.loop import session
    from etude.mage.loop.book import Did
    from etude.results.finding import find

    folder = find(study)
    before = setup_of(study)
    setup = before if now is None else heeded(folder, now)
    with session.writing(folder) as book:
        if setup != before:
            book.write(Did.BEGUN, setup=setup)
        yield setup, book


def planner_of(folder: Path) -> Whom:
    """Return whoever reads the hints of a study; nobody if nobody does, or there is no such study yet."""
    from etude.mage.loop.book import Whom

    before = _prepared_before(folder)
    return before.planner if before is not None else Whom()


def _prepared_before(folder: Path) -> Setup | None:
    """Return how the study in a folder was prepared; None if there is none, or nothing was prepared."""
    from etude.mage.loop import session
    from etude.store.journal import FILE

    return session.read(folder).setup if (folder / FILE).exists() else None


def setup_of(study: str) -> Setup:
    """Return how a study was prepared.

    Raises:
        ConfigError: It was not.
    """
    from etude.mage.loop import session
    from etude.results.finding import find

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


def accepted_in(record: Record) -> list[Accepted]:
    """Return the variants that are accepted, with the trees that their patches make."""
    from etude.mage.handover.components import Accepted
    from etude.mage.patch.making import patched

    return [
        Accepted(name=name, patch=patch, tree=patched(record.tree, patch), pairing=record.pairing_of(name))
        for name, patch in record.accepted().items()
    ]


def train(folder: Path, record: Record, **options: Any) -> tuple[str, HandedOver]:
    """Run the ablation of the accepted variants; return what it is called, and what came of it.

    The first one is the study itself. Other patches, as where one was mended since, are another ablation, which takes
    the trials of the untouched program from the earlier ones; so are the same patches after a trial has failed.

    Raises:
        ConfigError: The project was edited since, nothing says where the metric is, or nothing could be decided.
    """
    import etude
    from etude.files import scripts
    from etude.launching.progress import plan_is_said, say_plan
    from etude.mage.handover.components import KEPT, commands_of, components_of, hand_over
    from etude.mage.sources.entry import experiment_of
    from etude.mage.sources.reading import read_tree
    from etude.verbs.ablation_draft import check_decides

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
    if experiment_of(setup.entry) is not None:
        experiment, _ = scripts.load(str(root / setup.entry))
        components = components_of(accepted, entry=setup.entry, base=tree, root=root, experiment=experiment)
    else:
        if not setup.metric:
            raise ConfigError("Nothing says where the metric is. Plan again with --metric metrics.json:accuracy.")
        train, components = commands_of(accepted, entry=setup.entry, metric=setup.metric, base=tree, root=root)
        mode: Any = setup.mode or "max"
        experiment = etude.Experiment(train, metric=setup.metric.rpartition(":")[2], mode=mode)
    # said before the first trials run, which are forced
    drafted = experiment.ablate(components, dry_run=True, **options)
    check_decides(drafted, force=bool(options.get("force")), seeds_said="--seeds {}", force_said="--force")
    patches = {one.name: one.patch.digest for one in accepted}
    calling = _Calling(folder, record)
    name = calling.name_of(patches)
    say_plan(drafted)
    with plan_is_said():  # what is run first is a part of it
        came = hand_over(
            experiment,
            components,
            name=name,
            reuse=calling.earlier(apart_from=name),
            kept_as=lambda left: calling.name_of({one: patches[one] for one in left}, wanted=name + KEPT),
            **options,
        )
    return came.ablation.name if came.ablation is not None else name, came


class _Calling:
    """Gives the ablations of a study their names, and writes down which are its own before they begin."""

    def __init__(self, folder: Path, record: Record) -> None:
        self._folder = folder
        self._record = record
        self._own = dict(record.ablations)

    def name_of(self, patches: Mapping[str, str], *, wanted: str = "") -> str:
        """Return what the ablation of some patches is called; a new one is written down."""
        from etude.mage.handover.ablations import name_of
        from etude.mage.loop import session
        from etude.mage.loop.book import Did

        name = name_of(
            patches,
            study=self._folder.name,
            earlier=self._own,
            is_taken=lambda one: (self._folder.parent / one).exists(),
            has_failed=self._has_failed,
            wanted=wanted,
        )
        if name not in self._own:
            with session.writing(self._folder) as book:
                book.write(Did.ABLATED, ablation=name, patches=dict(patches))
            self._own[name] = dict(patches)
        return name

    def earlier(self, *, apart_from: str) -> list[str]:
        """Return the earlier ablations from which trials of the untouched program can be taken."""
        from etude.mage.handover.components import BASE
        from etude.results.reading import read

        there = (self._folder.parent / one for one in self._own if one != apart_from)
        return [
            path.name
            for path in there
            if path.exists() and any(one.arm == BASE and str(one.state) == "finished" for one in read(path).trials)
        ]

    def _has_failed(self, name: str) -> bool:
        """Say whether a trial of an ablation failed, as whoever accepted the variants was told, or of the base."""
        from etude.mage.handover.components import BASE, failed_in
        from etude.results.reading import read

        path = self._folder.parent / name
        known = {BASE, *(f"custom:{one}" for one, patch in self._own[name].items() if patch in self._record.failed)}
        again = [arm for arm in failed_in(read(path)) if arm in known] if path.exists() else []
        if again:
            say(
                f"{', '.join(again)}: a trial failed in {name}, which stays as it is. All variants are run again in "
                "another ablation; what the untouched program came to is taken over."
            )
        return bool(again)


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
