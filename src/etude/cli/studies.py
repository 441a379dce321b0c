"""Looking at studies: ``etude ls``, ``show`` and ``trials``. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from etude.cli.shell import open_study, print_json, print_table
from etude.core.errors import EtudeError

if TYPE_CHECKING:
    from etude.results import Search, TrialResult

StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="A study's name, or its folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def ls(
    folder: Annotated[Path | None, typer.Argument(help="Where the studies are; by default where new ones go.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the studies that there are."""
    from etude.results import show as shown
    from etude.results import studies_folder
    from etude.store.journal import FILE

    where = folder if folder is not None else studies_folder()
    found = [where] if (where / FILE).exists() else [path.parent for path in where.glob(f"*/{FILE}")]
    rows = [_row(path) for path in sorted(found, key=lambda path: (path / FILE).stat().st_mtime)]
    if as_json:
        print_json(rows)
    elif not rows:
        print(f"There are no studies in {where}.")
    else:
        head = ["study", "standing", "trials", "metric", "best"]
        print_table(head, [[shown(row[title]) for title in head] for row in rows])


def show(study: StudyName, as_json: AsJson = False) -> None:
    """Show what came of a study, and how it was recorded."""
    search = open_study(study)
    record = _record(search)
    if as_json:
        best = [_trial(trial, search.metric) for trial in search.top(5)]
        print_json(
            {"study": search.name, "standing": _standing(search), "counts": search.counts(), **record, "best": best}
        )
        return
    print(search.summary())
    if winners := search.top(5):
        _print_trials(search, winners)
    print("\n".join(f"{title + ':':<12}{told}" for title, told in record.items() if told))


class Order(StrEnum):
    """What trials can be sorted by."""

    TRIAL = "trial"
    VALUE = "value"
    DURATION = "duration"


def trials(
    study: StudyName,
    sort: Annotated[Order, typer.Option(help="Best, earliest or longest first.")] = Order.TRIAL,
    state: Annotated[str | None, typer.Option(help="Only those that are finished, stopped, failed, ...")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="How many at most.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the trials of a study."""
    from etude.core.errors import ConfigError
    from etude.core.lifecycle import State

    if state is not None and state not in set(State):
        raise ConfigError(f"--state {state} is no state of a trial. There are: {', '.join(State)}.")
    search = open_study(study)
    found = [trial for trial in search.trials if state in (None, trial.state)]
    if sort is Order.DURATION:
        found.sort(key=lambda trial: -(trial.duration_s or 0.0))
    elif sort is Order.VALUE:
        place = {trial.number: i for i, trial in enumerate(search.top(len(found)))}
        found.sort(key=lambda trial: place.get(trial.number, len(place) + trial.number))
    found = found[:limit]
    if as_json:
        print_json([_trial(trial, search.metric) for trial in found])
    elif found:
        _print_trials(search, found, with_reason=True)
    else:
        print(f"Study {search.name} has no trials{f' that are {state}' if state else ''}.")


def newest_run(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what was recorded when a study was taken up last; empty if nothing was."""
    runs = [(int(key.removeprefix("run ")), found) for key, found in meta.items() if key.startswith("run ")]
    return max(runs, key=lambda run: run[0])[1] if runs else {}


def _row(folder: Path) -> dict[str, Any]:
    from etude.results import read

    try:
        search = read(folder)
    except EtudeError as error:  # one broken study must not hide the others
        return {"study": folder.name, "standing": f"unreadable: {error}", "trials": None, "metric": "", "best": None}
    best = next((trial.value for trial in search.top(1)), None)
    n_trials = sum(search.counts().values())
    return {
        "study": search.name,
        "standing": _standing(search),
        "trials": n_trials,
        "metric": f"{search.metric} ({search.mode})",
        "best": best,
    }


def _standing(search: Search) -> str:
    if search.driver is not None:
        return "at work"
    return "complete" if search.complete else "not complete"


def _record(search: Search) -> dict[str, Any]:
    """Return where a study is and what was written down about how it was run."""
    meta = search.meta
    run = newest_run(meta)
    git, packages, hardware = run.get("git") or {}, run.get("packages") or {}, run.get("hardware") or {}
    commit = str(git.get("commit") or "")[:12]
    machine = [run.get("host"), hardware.get("cpu"), f"{hardware.get('cores_available')} cores" if hardware else None]
    driver = search.driver
    return {
        "folder": str(search.folder),
        "experiment": meta.get("experiment") or "not in a file (a notebook)",
        "started": run.get("time"),
        "code": f"commit {commit}{' with changes' if git.get('dirty') else ''}" if commit else None,
        "packages": f"{len(packages)} recorded" if packages else None,
        "machine": ", ".join(str(part) for part in machine if part) or None,
        "driver": f"process {driver[1]} on {driver[0]} works on it now" if driver else None,
    }


def _trial(trial: TrialResult, metric: str) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "state": trial.state,
        metric: trial.value,
        "params": trial.params,
        "seed": trial.seed,
        "metrics": trial.metrics,
        "reports": len(trial.curve),
        "attempts": trial.attempts,
        "duration_s": trial.duration_s,
        "same_as": trial.same_as,
        "reason": trial.reason,
    }


def _print_trials(search: Search, found: list[TrialResult], *, with_reason: bool = False) -> None:
    from etude.core.text import seconds
    from etude.results import show as shown

    names = list(dict.fromkeys(name for trial in found for name in trial.params))
    rows = []
    for trial in found:
        lasted = seconds(trial.duration_s) if trial.duration_s is not None else ""
        told = [
            str(trial.number),
            trial.state,
            shown(trial.value),
            *(shown(trial.params.get(n)) for n in names),
            lasted,
        ]
        rows.append([*told, trial.reason[:80]] if with_reason else told)
    print_table(["trial", "state", search.metric, *names, "took", *(["reason"] if with_reason else [])], rows)
