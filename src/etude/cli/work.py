"""Starting, going on with and stopping studies: ``etude tune``, ``resume``, ``stop`` and ``demo``."""

from __future__ import annotations

import contextlib
import inspect
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from etude.cli import complete
from etude.cli.place import find_script
from etude.cli.shell import AsJson, Code, open_study, print_json, standard_output_kept
from etude.cli.studies import StudyName, for_programs
from etude.core.errors import ConfigError
from etude.results.going_on import in_no_journal
from etude.store.provenance import newest_run

if TYPE_CHECKING:
    from etude.experiment import Experiment
    from etude.results.search import Search

STOP_S: Final = 15.0
"""Seconds that ``etude stop`` waits for a driver to wind down."""

LOOK_S: Final = 0.2

HELD_OTHERWISE: Final = frozenset({"space", "name", "constraint", "wait", "progress"})
"""Arguments of ``tune`` that the call in a journal does not give back as they were."""

Deadline = Annotated[float | None, typer.Option(help="Seconds that the study may be worked on, all its runs together.")]
MaxFailures = Annotated[int | None, typer.Option(help="How many trials may fail; one more ends the study.")]
MaxCost = Annotated[float | None, typer.Option(help="What the workers may cost, all runs together.")]
PricePerHour = Annotated[float | None, typer.Option(help="What an hour of one worker costs.")]
MirrorPlace = Annotated[
    str | None, typer.Option(help="Where a copy is kept up to date, under the study's name: a URL or a folder.")
]
Kept = Annotated[
    str | None,
    typer.Option(help="Of how many trials the weights are kept, and of which epochs: 3, or '3,last,best,25'."),
]
StatesPlace = Annotated[
    str | None, typer.Option(help="Where trials save their states, if not in the study's folder: a URL or a folder.")
]
EngineName = Annotated[
    str | None,
    typer.Option(help="local, ray, spark, or cluster; with options: 'ray(cpus=2)'. By default ETUDE_ENGINE, or local."),
]
OnOom = Annotated[
    str | None, typer.Option(help="What becomes of a trial that ran out of memory: retry, or retry_alone.")
]
Needs = Annotated[
    str | None,
    typer.Option(
        help="What one trial needs: 'gpus=0.5,memory_gb=4', or auto. No more run at a time than there is room for."
    ),
]
Ranks = Annotated[int, typer.Option(help="How many processes train each trial together, with PyTorch.")]
How = Annotated[str, typer.Option(help="How ranks do it: ddp, or fsdp with a part of the model each.")]
Batch = Annotated[
    str, typer.Option(help="Whose batch size it is that the data function asks for: global, of all ranks, or per_rank.")
]
Reused = Annotated[
    list[str] | None,
    typer.Option(
        help="A study whose finished trials are taken where they are the same. May be given several times.",
        autocompletion=complete.studies,
    ),
]
Tuned = Annotated[
    bool, typer.Option("--system", help="Tune the machine while models train: threads, loader workers, and the like.")
]
TunedBy = Annotated[
    str | None,
    typer.Option(help="How, as in etude.System: 'objective=energy probes=8'. Means --system as well.", metavar="TEXT"),
]
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
    wait_for_workers: Annotated[int | None, typer.Option(help="Begin when so many are there.")] = None,
    resources: Needs = None,
    ranks: Ranks = 1,
    parallel: How = "ddp",
    batch: Batch = "global",
    engine: EngineName = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            help="tpe, random, ...; with options: 'tpe(startup=20)'; or one of the script.",
            autocompletion=complete.samplers,
        ),
    ] = None,
    stopper: Annotated[
        list[str] | None,
        typer.Option(
            help="median, none, ...; with options: 'median(first_after=8)'; or one of the script. "
            "May be given several times.",
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
    on_oom: OnOom = None,
    reuse_child: Annotated[bool, typer.Option("--reuse-child", help="Run many trials in one process.")] = False,
    constraint: Annotated[str | None, typer.Option(help="Name of a function of the script that rules out.")] = None,
    deadline: Deadline = None,
    max_failures: MaxFailures = None,
    max_cost: MaxCost = None,
    price_per_hour: PricePerHour = None,
    mirror: MirrorPlace = None,
    keep: Kept = None,
    states: StatesPlace = None,
    reuse: Reused = None,
    system: Tuned = False,
    system_options: TunedBy = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Search for good hyperparameters of an experiment in a script.

    The script is run as it is imported, up to a call of tune() that no main guard holds back.
    """
    from etude.cli import options
    from etude.cli.wording import told_in_options
    from etude.files import domains, scripts

    given: dict[str, Any] = {"start": [options.read_start(one) for one in start or ()]}
    given |= {"fidelity": fidelity} if fidelity is not None else {}
    given |= {"budget": options.read_budget(budget)} if budget is not None else {}
    given |= {"eta": eta} if eta is not None else {}
    given |= {"system": options.read_system(system, system_options)}
    wanted = domains.read_space(space)
    with standard_output_kept(as_json), told_in_options():
        found, script = scripts.load(experiment)
        given |= {"sampler": options.read_sampler(sampler, script)} if sampler is not None else {}
        given |= {"stopper": options.read_stoppers(stopper, script)} if stopper else {}
        search = found.tune(
            wanted,
            trials=trials,
            workers=options.read_workers(workers, wait_for_workers),
            resources=resources,
            ranks=ranks,
            parallel=parallel,
            batch=batch,
            engine=engine,
            seed=seed,
            name=name,
            timeout_s=timeout,
            grace_s=grace,
            retries=retries,
            on_oom=on_oom,
            reuse_child=reuse_child,
            constraint=scripts.attribute(script, constraint) if constraint is not None else None,
            progress=False if quiet else None,
            deadline_s=deadline,
            max_failures=max_failures,
            max_cost=max_cost,
            price_per_hour=price_per_hour,
            mirror=mirror,
            keep=keep,
            states=states,
            reuse=reuse,
            **given,
        )
    tell_and_leave(search, as_json=as_json)


def resume(
    study: StudyName,
    *,
    trials: Annotated[int | None, typer.Option(help="How many trials in all; by default as before.")] = None,
    workers: Annotated[int | None, typer.Option(help="How many run at a time; by default as before.")] = None,
    wait_for_workers: Annotated[int | None, typer.Option(help="Begin when so many are there.")] = None,
    resources: Needs = None,
    on_oom: OnOom = None,
    engine: EngineName = None,
    deadline: Deadline = None,
    max_failures: MaxFailures = None,
    max_cost: MaxCost = None,
    price_per_hour: PricePerHour = None,
    mirror: MirrorPlace = None,
    keep: Kept = None,
    force: Annotated[
        bool, typer.Option("--force", help="Go on from a mirror even if a driver elsewhere still writes to it.")
    ] = False,
    no_limits: Annotated[bool, typer.Option("--no-limits", help="Go on without the limits that it had.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Go on with a study: what has ended is not run again.

    Given the URL of a study's mirror, it is brought here first, into the folder where studies are.
    Its script is run as it is imported, up to a call of tune() that no main guard holds back.
    """
    from etude.cli import options
    from etude.cli.wording import told_in_options
    from etude.files import scripts
    from etude.results.finding import studies_folder
    from etude.store.fetch import bring, mirror_of, split
    from etude.store.journal import FILE
    from etude.store.shared import home_of
    from etude.tune.spaces import Space
    from etude.worker.processes import variable_set

    is_here = (studies_folder() / study / FILE).exists()  # a name is that of a study, whatever else is called so
    if not is_here and (url := mirror_of(study)) is not None:
        place, name = split(url)
        bring(url, studies_folder() / name, force=force)
        study, mirror = str(studies_folder() / name), mirror or place
    search = open_study(study)
    folder = home_of(search.folder).absolute()
    again = f"Give the same call there again: it goes on with {folder}."
    place, base = find_script(search.meta, folder, command="resume", instead=again)
    call = {**(newest_run(search.meta).get("call") or search.meta["call"])}
    call |= {"engine": engine} if engine is not None else {}
    _refuse_what_no_journal_holds(search.meta, call, place, folder)
    is_fit, is_ablation = search.verb == "fit", search.verb == "ablate"
    given = _same_call_of_fit(call) if is_fit or is_ablation else _same_call(call)
    given |= {"trials": trials} if trials is not None else {}
    asked = options.read_workers(workers, wait_for_workers)
    given |= {"workers": _as_before(asked, given.get("workers"))} if asked is not None else {}
    given |= {"resources": resources} if resources is not None else {}
    given |= {"on_oom": on_oom} if on_oom is not None else {}
    given |= {"mirror": mirror} if mirror is not None else {}
    given |= {"keep": keep} if keep is not None else {}
    limits = {
        "deadline_s": deadline,
        "max_failures": max_failures,
        "max_cost": max_cost,
        "price_per_hour": price_per_hour,
    }
    limits = {name: limit for name, limit in limits.items() if limit is not None or (no_limits and not is_fit)}
    _refuse_more(search.verb, folder.name, trials=trials, limits=limits)
    given |= limits
    home = variable_set("ETUDE_STUDIES", str(folder.parent))
    with contextlib.chdir(base), home, standard_output_kept(as_json), told_in_options():
        experiment, script = scripts.load(place)
        if rule := call.get("constraint"):
            given["constraint"] = scripts.attribute(script, rule.rpartition(":")[2])
        progress = False if quiet else None
        if is_fit:
            search = _fit_again(experiment, search, name=folder.name, progress=progress, **given)
        elif is_ablation:
            told = {**search.meta["question"], **{n: call[n] for n in search.meta["question"] if n in call}}
            search = _ablate_again(experiment, search, told, name=folder.name, progress=progress, **given)
        else:
            space = Space.from_dict(search.meta["question"]["space"])
            search = experiment.tune(space, name=folder.name, progress=progress, **given)
    tell_and_leave(search, as_json=as_json)


def _refuse_more(verb: str, name: str, *, trials: int | None, limits: Mapping[str, Any]) -> None:
    """Refuse what a study that is no search cannot be given when it goes on.

    Raises:
        ConfigError: It cannot be.
    """
    if verb == "fit" and (limits or trials is not None):
        raise ConfigError(
            f"Study {name} is a final training, whose trials were known when it began, and has no limits. Leave "
            "--trials and limits out."
        )
    if verb == "ablate" and trials is not None:
        raise ConfigError(
            f"Study {name} is an ablation, whose trials are its arms with each seed. Leave --trials out; for "
            "more seeds make the same call with seeds=."
        )


def _same_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``tune`` that a study was called with, as far as its journal holds them."""
    from etude.experiment import Experiment
    from etude.launching.handed_over import is_there
    from etude.tune.samplers import SAMPLERS
    from etude.tune.stop import from_plain

    known = inspect.signature(Experiment.tune).parameters
    given = {name: value for name, value in call.items() if name in known and name not in HELD_OTHERWISE}
    if others := given.pop("reuse", None):  # what was taken from one that is gone is in the journal
        given["reuse"] = [other for other in others if is_there(other)]
    return {**given, "sampler": SAMPLERS.from_plain(given["sampler"]), "stopper": from_plain(given["stopper"])}


def _same_call_of_fit(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a final training was run, as far as its journal holds it."""
    from etude.launching.call import Call

    known = inspect.signature(Call.read).parameters
    given = {name: value for name, value in call.items() if name in known and name != "name"}
    return {**given, "trials": call["at_a_time"]}  # as many threads for each as there were: they change the numbers


def _fit_again(experiment: Experiment, study: Search, *, name: str, progress: bool | None, **given: Any) -> Search:
    from etude.launching.call import Call
    from etude.verbs.final import again

    live = again(experiment, study, Call.read(name=name, **given))
    experiment.last = live.search
    live.wait(progress=progress)
    return live.search


def _ablate_again(
    experiment: Experiment, study: Search, told: Mapping[str, Any], *, name: str, progress: bool | None, **given: Any
) -> Search:
    from etude.launching.call import Call
    from etude.launching.launch import Launch
    from etude.results.ablated import Ablation
    from etude.verbs.ablation_question import question_again

    question = question_again(told, study.meta["definition"], experiment)
    live = Launch(experiment, question, Call.read(name=name, **given), result=Ablation).start()
    experiment.last = live.search
    live.wait(progress=progress)
    return live.search


def _as_before(asked: int | tuple[int, int | None], before: int | Sequence[int] | None) -> int | tuple[int, int | None]:
    """Return how many workers are asked for; as many as before at most, where that is left open."""
    if isinstance(asked, int) or asked[1] is not None or before is None:
        return asked
    return asked[0], max(asked[0], before if isinstance(before, int) else before[-1])


def stop(study: StudyName, as_json: AsJson = False) -> None:
    """Have a study that is at work wind down.

    Nothing that has ended is lost, and the study can go on later.
    """
    from etude.studies.at_work import STOP_FILE

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


def demo(as_json: AsJson = False) -> None:
    """Tune a small CNN on real images, in about a minute."""
    from etude import demo

    if not as_json:
        demo.main()
        return
    with standard_output_kept(as_json):
        search = demo.tune()
    tell_and_leave(search, as_json=as_json)


def tell_and_leave(search: Search, *, as_json: bool) -> None:
    """Print what came of a study, and leave with the code for it."""
    if as_json:
        print_json(for_programs(open_study(str(search.folder))))  # with what was recorded while it ran
    else:
        print(search.summary())
    if search.limit:
        raise typer.Exit(Code.LIMIT)
    if search.counts().get("failed"):
        raise typer.Exit(Code.SOME_FAILED)


def _refuse_what_no_journal_holds(meta: Mapping[str, Any], call: Mapping[str, Any], place: str, folder: Path) -> None:
    if (meta.get("question") or {}).get("verb") == "compare":
        raise ConfigError(
            f"Study {folder.name} compares partitions, which no journal can hold. Run the script again instead "
            f"({place.rpartition(':')[0]}): the same call goes on."
        )
    if own := in_no_journal(call):
        argv = newest_run(meta).get("argv")
        if (
            isinstance(argv, list) and argv[:1] == ["etude"] and argv[1:2] in (["tune"], ["run"])
        ):  # the script holds no call
            again = f"Give the same command again instead, it goes on: {shlex.join(map(str, argv))}"
        else:
            again = f"Run the script again instead ({place.rpartition(':')[0]}): the same call goes on."
        raise ConfigError(
            f"Study {folder.name} was started with {' and '.join(own)}, which no journal can hold. {again}"
        )
