"""What tuning the machine has to do with this one: ``etude system``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from etude.cli.shell import AsJson, Code, print_json, print_table, standard_output_kept
from etude.cli.tenants import tenants
from etude.core.errors import ConfigError
from etude.core.text import count

if TYPE_CHECKING:
    from etude.system.campaigning import Campaign
    from etude.system.entries import Entry, Hardware
    from etude.system.history import History
    from etude.system.knobs import Knob
    from etude.system.machine import Machine

app = typer.Typer(
    name="system",
    help="See what of this machine can be tuned, and who shares it.\n\nAlso what is remembered of it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AFile = Annotated[Path, typer.Argument(metavar="FILE", help="A file with one entry in a line.")]
AHistory = Annotated[
    Path | None, typer.Option("--history", metavar="FILE", help="The history; by default the user's.", dir_okay=False)
]
MOST_VALUES: Final = 8
"""Values of a knob that stand in a table."""


@app.command()
def show(
    framework: Annotated[
        str, typer.Option("--framework", help="What would be trained with: torch, keras, or none of them.")
    ] = "torch",
    history: AHistory = None,
    as_json: AsJson = False,
) -> None:
    """Show which knobs there are, and what is remembered.

    Also how closely one can look, and what tells energy.
    """
    from etude.system.knobs import catalogue
    from etude.system.meters.best import best_meter
    from etude.system.profile import profiler
    from etude.system.wants import FRAMEWORKS

    if framework not in (*filter(None, FRAMEWORKS), "none"):
        raise ConfigError(f"--framework {framework} is not known. Pass torch, keras or none.")
    machine, hardware = _this_machine()
    knobs = catalogue(machine, "" if framework == "none" else framework)
    looking = profiler(gpu_ids=machine.gpus)
    rung, missing = looking.rung, looking.missing
    looking.close()
    energy = best_meter(gpus=machine.gpus)
    remembered = _remembered(history, hardware)
    if as_json:
        print_json(
            {
                "machine": asdict(machine),
                "hardware": {**asdict(hardware), "digest": hardware.digest},
                "knobs": [_for_programs(knob) for knob in knobs.values()],
                "profiles": {"rung": rung, "missing": {one.name: one.why for one in missing}},
                "energy": {
                    "label": energy.meter.label,
                    "source": energy.meter.source,
                    "missing": dict(energy.passed_over),
                },
                "history": remembered,
            }
        )
        return
    cores = f"{machine.cores} of {count(hardware.cores, 'core')}"
    print(", ".join([hardware.cpu or "a processor of unknown model", cores, *hardware.gpus]))
    print_table(["knob", "values", "effect on the numbers"], [_row(knob) for knob in knobs.values() if not knob.needs])
    for knob in knobs.values():
        if knob.needs:
            print(f"no {knob.name}: {knob.needs}")
    print()
    print("\n".join([f"profiles from {rung}", *map(str, missing), str(energy), _sentence(remembered)]))


@app.command()
def export(file: AFile, history: AHistory = None, as_json: AsJson = False) -> None:
    """Write all that is remembered into a new file.

    For another machine, or for a colleague.
    """
    with _opened(history) as opened:
        _refuse_unreadable(opened)
        n = opened.export_to(file)
    _tell(as_json, f"{_entries(n)} written to {file}.", entries=n)


@app.command("import")
def import_(file: AFile, history: AHistory = None, as_json: AsJson = False) -> None:
    """Add what an export has, all or nothing.

    What is known already is not added twice.
    """
    from etude.system.history import History

    with History.open(history) as opened:
        n = opened.import_from(file)
    _tell(as_json, f"{_entries(n, 'new ')} added to {opened.path}.", entries=n)


@app.command()
def forget(
    before: Annotated[
        datetime | None,
        typer.Option(
            "--before", formats=["%Y-%m-%d"], help="Only what was learned before this day, such as 2026-01-31."
        ),
    ] = None,
    *,
    this_machine: Annotated[bool, typer.Option("--machine", help="Only what was learned on this machine.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    history: AHistory = None,
    as_json: AsJson = False,
) -> None:
    """Remove what is remembered: without options all of it."""
    if as_json and not yes:
        raise ConfigError("--json asks nothing, and forgetting cannot be undone. Add --yes.")
    hardware = _this_machine()[1] if this_machine else None
    with _opened(history) as opened:
        _refuse_unreadable(opened)
        day = f" before {before:%Y-%m-%d}" if before else ""
        what = f"what was learned{' on this machine' if hardware else ''}{day}" if hardware or before else "all"
        if not yes:
            typer.confirm(f"Forget {what} in {opened.path}?", abort=True)
        n = opened.forget(
            before_s=before.timestamp() if before else None, machine=hardware.digest if hardware else None
        )
    _tell(as_json, f"{_entries(n)} forgotten.", entries=n)


@app.command()
def campaign(
    experiment: Annotated[str, typer.Argument(metavar="SCRIPT[:NAME]", help="The script, and the experiment in it.")],
    parameters: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE...", help="The configuration: lr=0.1 width=64.")
    ] = None,
    knob: Annotated[list[str] | None, typer.Option("--knob", metavar="KNOB", help="A knob; by default all.")] = None,
    objective: Annotated[str, typer.Option("--objective", help="What costs are: time or energy.")] = "time",
    most: Annotated[int, typer.Option("--settings", help="How many settings are measured.")] = 48,
    repeats: Annotated[int, typer.Option("--repeats", help="How often each of them.")] = 2,
    history: AHistory = None,
    as_json: AsJson = False,
) -> None:
    """Measure many settings of a training, for a first history.

    One in each epoch, on purpose, in as many runs as it takes.
    """
    from etude.cli.options import read_start
    from etude.files import scripts
    from etude.system.asked import System
    from etude.system.campaigning import Campaign
    from etude.worker.plainly import measured, named

    system = System(knobs=knob or None, objective=objective, history=history)
    at_work = Campaign(system, most=most, repeats=repeats)
    with standard_output_kept(as_json):
        found, _ = scripts.load(experiment)
        params = found.checked(read_start(" ".join(parameters), lead="") if parameters else {})
        try:
            while not at_work.epochs or at_work.done < at_work.epochs:
                before = at_work.done, at_work.epochs
                measured(found, params, system, at_work)
                if at_work.trouble:
                    raise ConfigError(at_work.trouble)
                if before == (at_work.done, at_work.epochs):
                    raise ConfigError(
                        "A run of the training measured no setting: it has fewer than two epochs. Pass more: epochs=20."
                    )
        except BaseException:
            if at_work.has_compared:
                [entry, *_] = _remember(at_work, named(found), history)
                print(
                    f"The campaign ends early. What {at_work.done} of {count(at_work.epochs, 'epoch')} have shown is "
                    f"remembered; the best is {_spelled(entry.best)}.",
                    file=sys.stderr,
                )
            raise
    entries = _remember(at_work, named(found), history)
    best, settings = entries[0].best, entries[0].costs
    _tell(
        as_json,
        f"{count(at_work.done, 'epoch')} of {count(len(settings), 'setting')} measured in "
        f"{count(len(entries), 'training')}; the best is {_spelled(best)}.",
        epochs=at_work.done,
        settings=len(settings),
        trainings=len(entries),
        best=dict(best),
    )


@app.command()
def restore(as_json: AsJson = False) -> None:
    """Put back clock and power limits after a study was killed.

    Only what such a study has left changed.
    """
    from etude.system.applied.restoring import restore

    found = restore()
    if as_json:
        print_json({"found": [asdict(one) for one in found]})
    else:
        for one in found:
            print(f"{one.what}: {one.told}")
        if not found:
            print("No study has changed the clock or a power limit since this machine was started.")
    if any(one.failed for one in found):
        raise typer.Exit(Code.STUDY)


app.command()(tenants)


def _this_machine() -> tuple[Machine, Hardware]:
    from etude.system import nvml
    from etude.system.entries import Hardware
    from etude.worker import machine as workers

    gpus = workers.gpus()
    return workers.tunable(None, gpus), Hardware.here(nvml.models(gpus))


def _opened(path: Path | None) -> History:
    """Open a history that is there; one that is not is not made for looking at it."""
    from etude.system.history import History

    at = _place(path)
    if not at.exists():
        raise ConfigError(f"There is no system history yet: {at} is not there. Tune the machine, or import one.")
    return History.open(at)


def _remember(at_work: Campaign, workload: str, path: Path | None) -> list[Entry]:
    """Remember what a campaign has shown, and return it."""
    from etude.core.clock import WallClock
    from etude.system.history import History

    with History.open(path) as opened:
        entries = at_work.entries(opened.digest, workload, at_s=WallClock().now_s())
        for entry in entries:
            opened.add(entry)
        trouble = opened.trouble
    if trouble:
        raise ConfigError(trouble)
    return entries


def _spelled(setting: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in setting.items()) or "the default"


def _place(path: Path | None) -> Path:
    from etude.system.history_file import default_path

    try:
        return default_path() if path is None else path
    except RuntimeError:
        raise ConfigError("This user has no home, and so no history. Name one by --history FILE.") from None


def _refuse_unreadable(history: History) -> None:
    if history.trouble and not history.counts():
        raise ConfigError(history.trouble)


def _remembered(path: Path | None, hardware: Hardware) -> dict[str, Any]:
    at = _place(path)
    if not at.exists():
        return {"path": str(at), "is_there": False, "trouble": "", "here": {}, "elsewhere": 0}
    with _opened(at) as history:
        found = history.counts()
        here = {objective: n for (machine, objective), n in found.items() if machine == hardware.digest}
        elsewhere = sum(found.values()) - sum(here.values())
        return {"path": str(at), "is_there": True, "trouble": history.trouble, "here": here, "elsewhere": elsewhere}


def _sentence(remembered: Mapping[str, Any]) -> str:
    if not remembered["is_there"]:
        return f"history: none yet; it would be {remembered['path']}"
    here = ", ".join(f"{n} for {objective}" for objective, n in remembered["here"].items()) or "nothing"
    told = f"history: {remembered['path']}: {here} of this machine, {remembered['elsewhere']} of others"
    return f"{told}\n{remembered['trouble']}" if remembered["trouble"] else told


def _for_programs(knob: Knob) -> dict[str, Any]:
    return {
        "name": knob.name,
        "effect": knob.effect,
        "values": list(knob.values),
        "default": knob.default,
        "needs": knob.needs,
        "if_named": knob.if_named,
    }


def _row(knob: Knob) -> tuple[str, str, str]:
    shown = [_value(value) for value in knob.values[:MOST_VALUES]]
    more = ["..."] if len(knob.values) > MOST_VALUES else []
    return knob.name, ", ".join([*shown, *more]), f"{knob.effect}{'; off unless named' if knob.if_named else ''}"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "as it is" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def _entries(n: int, kind: str = "") -> str:
    entries = f"{n:,} {kind}{'entry' if n == 1 else 'entries'}"
    return f"{entries} {'was' if n == 1 else 'were'}"


def _tell(as_json: bool, said: str, **values: Any) -> None:
    if as_json:
        print_json(values)
    else:
        print(said)
