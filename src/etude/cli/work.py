"""Starting, going on with and stopping studies: ``etude tune``, ``resume``, ``stop`` and ``demo``."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from etude.cli.shell import Code, open_study
from etude.cli.studies import StudyName, newest_run
from etude.core.errors import ConfigError
from etude.going_on import in_no_journal

if TYPE_CHECKING:
    from etude.results import Search

STOP_S: Final = 15.0
"""Seconds that ``etude stop`` waits for a driver to wind down."""

LOOK_S: Final = 0.2

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]


def tune(
    experiment: Annotated[str, typer.Argument(metavar="SCRIPT.py:NAME", help="Where the experiment is.")],
    space: Annotated[
        list[str],
        typer.Argument(metavar="NAME=DOMAIN...", help="For instance lr='loguniform(1e-4, 1)' width='[32, 64]'."),
    ],
    *,
    trials: Annotated[int, typer.Option(help="How many configurations to try.")],
    workers: Annotated[int | None, typer.Option(help="How many run at a time; by default one per core.")] = None,
    sampler: Annotated[str, typer.Option(help="tpe or random.")] = "tpe",
    stopper: Annotated[str, typer.Option(help="median or none.")] = "median",
    seed: Annotated[int, typer.Option(help="Seed of the search and of the training.")] = 0,
    name: Annotated[str | None, typer.Option(help="Name of the study; by default from its definition.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds that a trial may take.")] = None,
    retries: Annotated[int, typer.Option(help="How often a trial is run again that was killed or lost.")] = 2,
    reuse_child: Annotated[bool, typer.Option("--reuse-child", help="Run many trials in one process.")] = False,
    constraint: Annotated[str | None, typer.Option(help="Name of a function of the script that rules out.")] = None,
    quiet: Quiet = False,
) -> None:
    """Search for good hyperparameters of an experiment in a script.

    The script is run as it is imported, up to a call of tune() that no main guard holds back.
    """
    from etude.cli import domains, scripts

    wanted = domains.read_space(space)
    found, script = scripts.load(experiment)
    search = found.tune(
        wanted,
        trials=trials,
        workers=workers,
        sampler=sampler,
        stopper=stopper,
        seed=seed,
        name=name,
        timeout_s=timeout,
        retries=retries,
        reuse_child=reuse_child,
        constraint=scripts.attribute(script, constraint) if constraint is not None else None,
        progress=False if quiet else None,
    )
    _tell_and_leave(search)


def resume(
    study: StudyName,
    trials: Annotated[int | None, typer.Option(help="How many trials in all; by default as before.")] = None,
    workers: Annotated[int | None, typer.Option(help="How many run at a time; by default as before.")] = None,
    quiet: Quiet = False,
) -> None:
    """Go on with a study: what has ended is not run again.

    Its script is run as it is imported, up to a call of tune() that no main guard holds back.
    """
    from etude.cli import scripts
    from etude.tune.spaces import Space

    search = open_study(study)
    folder = search.folder.absolute()
    place, base = _where(search.meta, folder)
    call = newest_run(search.meta).get("call") or search.meta["call"]
    _refuse_what_no_journal_holds(call, place, folder)
    same = ("sampler", "stopper", "seed", "retries", "timeout_s", "grace_s", "reuse_child")
    with contextlib.chdir(base), _studies_in(folder.parent):
        experiment, _ = scripts.load(place)
        search = experiment.tune(
            Space.from_dict(search.meta["set_up"]["space"]),
            name=folder.name,
            trials=call["trials"] if trials is None else trials,
            workers=call["workers"] if workers is None else workers,
            progress=False if quiet else None,
            **{name: call[name] for name in same if name in call},
        )
    _tell_and_leave(search)


def stop(study: StudyName) -> None:
    """Have a study that is at work wind down.

    Nothing that has ended is lost, and the study can go on later.
    """
    from etude.store.journal import Journal
    from etude.study import STOP_FILE

    search = open_study(study)
    request = search.folder / STOP_FILE
    if search.driver is None:
        print(f"Nobody works on study {search.name}, so there is nothing to stop.")
        return
    host, pid = search.driver
    request.touch()
    give_up_at = time.monotonic() + STOP_S
    while time.monotonic() < give_up_at:
        with contextlib.closing(Journal.read(search.folder)) as journal:
            at_work = journal.lease.held_by() is not None
        if not at_work:
            request.unlink(missing_ok=True)  # a driver that died first must not stop the next one
            print(open_study(study).summary())
            return
        time.sleep(LOOK_S)
    print(
        f"Process {pid} on {host} was asked to stop study {search.name} and has not ended within {STOP_S:g} s. "
        "It will when it sees the request, if it is alive."
    )
    raise typer.Exit(Code.STUDY)


def demo() -> None:
    """Tune a small CNN on real images, in about a minute."""
    from etude import demo

    demo.main()


def _tell_and_leave(search: Search) -> None:
    print(search.summary())
    if search.counts().get("failed"):
        raise typer.Exit(Code.SOME_FAILED)


def _where(meta: Mapping[str, Any], folder: Path) -> tuple[str, Path]:
    """Return where a study's experiment is, and the folder from which that path was written down."""
    place = meta.get("experiment")
    if place is None:
        raise ConfigError(
            f"Study {folder.name} was started where no file holds its experiment, such as a notebook. "
            f"Give the same call there again: it goes on with {folder}."
        )
    file = place.rpartition(":")[0]
    for base in (folder / meta.get("cwd", "."), Path.cwd(), *folder.parents):
        if (base / file).is_file():
            return place, base
    raise ConfigError(
        f"The experiment of study {folder.name} was in {file}, which is neither here nor above {folder}. "
        "Call `etude resume` from the folder in which the study was started."
    )


def _refuse_what_no_journal_holds(call: Mapping[str, Any], place: str, folder: Path) -> None:
    if own := in_no_journal(call):
        raise ConfigError(
            f"Study {folder.name} was started with {' and '.join(own)}, which no journal can hold. "
            f"Run the script again instead ({place.rpartition(':')[0]}): the same call goes on."
        )


@contextlib.contextmanager
def _studies_in(folder: Path) -> Iterator[None]:
    before = os.environ.get("ETUDE_STUDIES")
    os.environ["ETUDE_STUDIES"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["ETUDE_STUDIES"]
        else:
            os.environ["ETUDE_STUDIES"] = before
