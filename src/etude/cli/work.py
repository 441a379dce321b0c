"""Starting, going on with and stopping studies: ``etude tune``, ``resume``, ``stop`` and ``demo``."""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from etude.cli import complete
from etude.cli.place import find_script, studies_in
from etude.cli.shell import AsJson, Code, open_study, print_json, standard_output_kept
from etude.cli.studies import StudyName, for_programs, newest_run
from etude.core.errors import ConfigError
from etude.going_on import in_no_journal

if TYPE_CHECKING:
    from etude.results import Search

STOP_S: Final = 15.0
"""Seconds that ``etude stop`` waits for a driver to wind down."""

LOOK_S: Final = 0.2

HELD_OTHERWISE: Final = frozenset({"space", "name", "constraint", "wait", "progress"})
"""Arguments of ``tune`` that the call in a journal does not give back as they were."""

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]


def tune(
    experiment: Annotated[str, typer.Argument(metavar="SCRIPT.py:NAME", help="Where the experiment is.")],
    space: Annotated[
        list[str],
        typer.Argument(metavar="NAME=DOMAIN...", help="For instance lr='loguniform(1e-4, 1)' width='[32, 64]'."),
    ],
    *,
    trials: Annotated[
        int | None, typer.Option(help="How many configurations to try; needless where the sampler has an end.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="How many run at a time; by default one per core.")] = None,
    sampler: Annotated[
        str | None,
        typer.Option(help="tpe, random, ...; with options: 'tpe(startup=20)'.", autocompletion=complete.samplers),
    ] = None,
    stopper: Annotated[
        list[str] | None,
        typer.Option(
            help="median, none, ...; with options: 'median(first_after=8)'. May be given several times.",
            autocompletion=complete.stoppers,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search and of the training.")] = 0,
    start: Annotated[
        list[str] | None, typer.Option(help="Tried first: 'lr=0.1 width=64'. May be given several times.")
    ] = None,
    fidelity: Annotated[str | None, typer.Option(help="The parameter that says how much a trial costs.")] = None,
    budget: Annotated[str | None, typer.Option(help="Its smallest and its largest value: 1,27.")] = None,
    eta: Annotated[int | None, typer.Option(help="One of so many trials goes on to a larger budget.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the study; by default from its definition.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds that a trial may take.")] = None,
    grace: Annotated[float, typer.Option(help="Seconds that a trial has to see a stop.")] = 10.0,
    retries: Annotated[int, typer.Option(help="How often a trial is run again that was killed or lost.")] = 2,
    reuse_child: Annotated[bool, typer.Option("--reuse-child", help="Run many trials in one process.")] = False,
    constraint: Annotated[str | None, typer.Option(help="Name of a function of the script that rules out.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Search for good hyperparameters of an experiment in a script.

    The script is run as it is imported, up to a call of tune() that no main guard holds back.
    """
    from etude.cli import domains, options, scripts

    given: dict[str, Any] = {"start": [options.read_start(one) for one in start or ()]}
    given |= {"sampler": options.read_sampler(sampler)} if sampler is not None else {}
    given |= {"stopper": options.read_stoppers(stopper)} if stopper else {}
    given |= {"fidelity": fidelity} if fidelity is not None else {}
    given |= {"budget": options.read_budget(budget)} if budget is not None else {}
    given |= {"eta": eta} if eta is not None else {}
    wanted = domains.read_space(space)
    with standard_output_kept(as_json):
        found, script = scripts.load(experiment)
        search = found.tune(
            wanted,
            trials=trials,
            workers=workers,
            seed=seed,
            name=name,
            timeout_s=timeout,
            grace_s=grace,
            retries=retries,
            reuse_child=reuse_child,
            constraint=scripts.attribute(script, constraint) if constraint is not None else None,
            progress=False if quiet else None,
            **given,
        )
    _tell_and_leave(search, as_json=as_json)


def resume(
    study: StudyName,
    *,
    trials: Annotated[int | None, typer.Option(help="How many trials in all; by default as before.")] = None,
    workers: Annotated[int | None, typer.Option(help="How many run at a time; by default as before.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Go on with a study: what has ended is not run again.

    Its script is run as it is imported, up to a call of tune() that no main guard holds back.
    """
    from etude.cli import scripts
    from etude.tune.spaces import Space

    search = open_study(study)
    folder = search.folder.absolute()
    again = f"Give the same call there again: it goes on with {folder}."
    place, base = find_script(search.meta, folder, command="resume", instead=again)
    call = newest_run(search.meta).get("call") or search.meta["call"]
    _refuse_what_no_journal_holds(call, place, folder)
    given = _same_call(call)
    given |= {"trials": trials} if trials is not None else {}
    given |= {"workers": workers} if workers is not None else {}
    with contextlib.chdir(base), studies_in(folder.parent), standard_output_kept(as_json):
        experiment, _ = scripts.load(place)
        space = Space.from_dict(search.meta["question"]["space"])
        search = experiment.tune(space, name=folder.name, progress=False if quiet else None, **given)
    _tell_and_leave(search, as_json=as_json)


def _same_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``tune`` that a study was called with, as far as its journal holds them."""
    from etude.experiment import Experiment
    from etude.tune.samplers import SAMPLERS
    from etude.tune.stop import from_plain

    known = inspect.signature(Experiment.tune).parameters
    given = {name: value for name, value in call.items() if name in known and name not in HELD_OTHERWISE}
    return {**given, "sampler": SAMPLERS.from_plain(given["sampler"]), "stopper": from_plain(given["stopper"])}


def stop(study: StudyName, as_json: AsJson = False) -> None:
    """Have a study that is at work wind down.

    Nothing that has ended is lost, and the study can go on later.
    """
    from etude.study import STOP_FILE

    search = open_study(study)
    request = search.folder / STOP_FILE
    if search.driver is None:
        if as_json:
            print_json({**for_programs(search), "asked": False, "stopped": True})
        else:
            print(f"Nobody works on study {search.name}, so there is nothing to stop.")
        return
    host, pid = search.driver
    request.touch()
    stopped = _winds_down(search.folder)
    if stopped:
        request.unlink(missing_ok=True)  # a driver that died first must not stop the next one
    if as_json:
        print_json({**for_programs(open_study(study)), "asked": True, "stopped": stopped})
    elif stopped:
        print(open_study(study).summary())
    else:
        print(
            f"Process {pid} on {host} was asked to stop study {search.name} and has not ended within {STOP_S:g} s. "
            "It will when it sees the request, if it is alive."
        )
    if not stopped:
        raise typer.Exit(Code.STUDY)


def _winds_down(folder: Path) -> bool:
    """Wait until nobody works on a study; return False if that takes too long."""
    from etude.store.journal import Journal

    give_up_at = time.monotonic() + STOP_S
    while time.monotonic() < give_up_at:
        with contextlib.closing(Journal.read(folder)) as journal:
            at_work = journal.lease.held_by() is not None
        if not at_work:
            return True
        time.sleep(LOOK_S)
    return False


def demo() -> None:
    """Tune a small CNN on real images, in about a minute."""
    from etude import demo

    demo.main()


def _tell_and_leave(search: Search, *, as_json: bool) -> None:
    if as_json:
        print_json(for_programs(search))
    else:
        print(search.summary())
    if search.counts().get("failed"):
        raise typer.Exit(Code.SOME_FAILED)


def _refuse_what_no_journal_holds(call: Mapping[str, Any], place: str, folder: Path) -> None:
    if own := in_no_journal(call):
        raise ConfigError(
            f"Study {folder.name} was started with {' and '.join(own)}, which no journal can hold. "
            f"Run the script again instead ({place.rpartition(':')[0]}): the same call goes on."
        )
