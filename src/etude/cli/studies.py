"""Looking at studies: ``etude ls``, ``show`` and ``trials``. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from etude.cli import complete
from etude.cli.shell import AsJson, open_study, print_json, print_table
from etude.core.errors import ConfigError
from etude.store.provenance import newest_run

if TYPE_CHECKING:
    from etude.results.search import Search, TrialResult

StudyName = Annotated[
    str,
    typer.Argument(
        metavar="STUDY", help="A study's name, its folder, or the URL of its mirror.", autocompletion=complete.studies
    ),
]
TrialNumber = Annotated[
    int, typer.Argument(metavar="TRIAL", help="The trial's number.", autocompletion=complete.trials)
]


def ls(
    folder: Annotated[
        str | None,
        typer.Argument(help="Where the studies are, or the URL of their mirrors; by default where new ones go."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the studies that there are."""
    from etude.core.text import show as shown
    from etude.results.finding import studies_folder
    from etude.results.listed import listed

    where = folder if folder is not None else str(studies_folder())
    rows = listed(where)
    if as_json:
        print_json(rows)
    elif not rows:
        print(f"There are no studies in {where}.")
    else:
        told = [
            {**row, "standing": _standing(row), "metric": _metrics(row["metrics"]), "best": _best(row)} for row in rows
        ]
        head = ["study", "standing", "trials", "metric", "best"]
        print_table(head, [[shown(row[title]) for title in head] for row in told])


def show(study: StudyName, as_json: AsJson = False) -> None:
    """Show what came of a study, and how it was recorded."""
    from etude.results.listed import winners

    search = open_study(study)
    if as_json:
        print_json(for_programs(search))
        return
    print(search.summary())
    if found := winners(search):
        _print_trials(search, found)
    print("\n".join(f"{title + ':':<12}{told}" for title, told in _record(search).items() if told))


def trials(
    study: StudyName,
    *,
    sort: Annotated[
        str, typer.Option(help="trial: the earliest first; value or a metric: the best; duration: the longest.")
    ] = "trial",
    state: Annotated[
        str | None,
        typer.Option(help="Only those that are finished, stopped, failed, ...", autocompletion=complete.states),
    ] = None,
    front: Annotated[bool, typer.Option("--front", help="Only those that no other is better than.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="How many at most.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the trials of a study."""
    from etude.core.lifecycle import State

    if state is not None and state not in set(State):
        raise ConfigError(f"--state {state} is no state of a trial. There are: {', '.join(State)}.")
    search = open_study(study)
    best = _numbers(search.front)
    found = [t for t in search.trials if state in (None, t.state) and (not front or t.number in best)]
    found = _sorted(search, found, sort)[:limit]
    if as_json:
        used = used_by(search)
        print_json([_trial(trial, search, used) for trial in found])
    elif found:
        _print_trials(search, found, with_reason=True)
    else:
        print(f"Study {search.name} has no trials{f' that are {state}' if state else ''}.")


def for_programs(search: Search) -> dict[str, Any]:
    """Return what came of a study as plain data: what ``show``, ``tune``, ``resume`` and ``stop`` print as JSON."""
    from etude.results.listed import modes, standing

    several = len(search.metrics.names) > 1
    return {
        "study": search.name,
        "standing": standing(search),
        "why": search.why,
        "counts": search.counts(),
        "metrics": modes(search),
        **_record(search),
        **_told_of(search, "front" if several else "best"),
    }


def _told_of(search: Search, title: str) -> dict[str, Any]:
    from etude.results.ablated import Ablation
    from etude.results.listed import winners

    if not isinstance(search, Ablation):
        used = used_by(search)
        return {title: [_trial(trial, search, used) for trial in winners(search)]}
    return {
        "arms": [
            {**arm._asdict(), "mean": arm.mean, "values": {str(seed): value for seed, value in arm.values.items()}}
            for arm in search.arms
        ]
    }


def _standing(row: Mapping[str, Any]) -> str:
    return f"{row['standing']}{', simulated' if row.get('simulated') else ''}"


def _best(row: Mapping[str, Any]) -> Any:
    """Return what a table says of the best: with several metrics there may be many."""
    from etude.core.text import count

    return f"front of {count(len(row['front']), 'trial')}" if "front" in row else row["best"]


def _metrics(modes: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({mode})" for name, mode in modes.items())


def _numbers(found: Sequence[TrialResult]) -> list[int]:
    return [trial.number for trial in found]


def _sorted(search: Search, found: list[TrialResult], by: str) -> list[TrialResult]:
    if by == "trial":
        return found
    if by == "duration":
        return sorted(found, key=lambda trial: -(trial.duration_s or 0.0))
    metric = search.metrics.main if by == "value" else by
    if metric not in search.metrics.names:
        raise ConfigError(f"--sort {by} is no order. There are: trial, value, duration, {_listed(search)}.")

    def key(trial: TrialResult) -> tuple[bool, float]:
        value = trial.values.get(metric)
        return (value is None, search.metrics.loss(value, metric) if value is not None else 0.0)

    return sorted(found, key=key)


def _listed(search: Search) -> str:
    return ", ".join(search.metrics.names)


def _record(search: Search) -> dict[str, Any]:
    """Return where a study is and what was written down about how it was run."""
    from etude.results.summary import is_prepared

    meta = search.meta
    run = newest_run(meta)
    git, packages, hardware = run.get("git") or {}, run.get("packages") or {}, run.get("hardware") or {}
    commit = str(git.get("commit") or "")[:12]
    machine = [run.get("host"), hardware.get("cpu"), f"{hardware.get('cores_available')} cores" if hardware else None]
    driver = search.driver
    return {
        "folder": str(search.folder),
        "experiment": meta.get("experiment") or ("" if is_prepared(meta) else "not in a file (a notebook)"),
        "started": run.get("time"),
        "code": f"commit {commit}{' with changes' if git.get('dirty') else ''}" if commit else None,
        "packages": f"{len(packages)} recorded" if packages else None,
        "machine": ", ".join(str(part) for part in machine if part) or None,
        "simulated": _options(meta["simulated"]) if search.simulated else None,
        "driver": f"process {driver[1]} on {driver[0]} works on it now" if driver else None,
    }


def _options(simulated: Mapping[str, Any]) -> str:
    """Return what a simulated study was simulated with."""
    return ", ".join(f"{name}={value}" for name, value in simulated.items() if name != "name")


def _trial(trial: TrialResult, search: Search, used: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    from etude.results.search import column

    own = {
        "params": trial.params,
        "seed": trial.seed,
        "metrics": trial.metrics,
        "reports": len(trial.curve),
        "attempts": trial.attempts,
        "duration_s": trial.duration_s,
        "same_as": trial.same_as,
        "reused_from": list(trial.reused_from) if trial.reused_from is not None else None,
        "promotes": trial.promotes,
        "reason": trial.reason or trial.because,
        **used.get(trial.number, {}),
    }
    first: dict[str, Any] = {"trial": trial.number, "state": trial.state}
    first |= {"arm": trial.arm} if trial.arm is not None else {}
    taken = (*first, *own)
    values = {column(name, taken, "metrics"): trial.values.get(name) for name in search.metrics.names}
    return {**first, **values, **own}


def used_by(search: Search) -> dict[int, dict[str, Any]]:
    """Return what each trial took whose machine was tuned, as plain data: an energy is never without its label."""
    from etude.results.tables import used

    return used(search.machines)


def _print_trials(search: Search, found: list[TrialResult], *, with_reason: bool = False) -> None:
    from etude.core.text import seconds
    from etude.core.text import show as shown
    from etude.results.machines import labelled, said

    names = list(dict.fromkeys(name for trial in found for name in trial.params))
    metrics = search.metrics.names
    best = set(_numbers(search.front)) if with_reason and len(metrics) > 1 else None
    arms = ["arm"] if any(trial.arm is not None for trial in found) else []
    used = {use.trial: [labelled(use.energy), said(use.setting)] for use in search.machines.uses}
    rows = []
    for trial in found:
        lasted = seconds(trial.duration_s) if trial.duration_s is not None else ""
        told = [
            str(trial.number),
            trial.state,
            *([trial.arm or ""] if arms else []),
            *(shown(trial.values.get(metric)) for metric in metrics),
            *(["*" if trial.number in best else ""] if best is not None else []),
            *(shown(trial.params.get(n)) for n in names),
            lasted,
            *(used.get(trial.number, ["", ""]) if used else []),
        ]
        rows.append([*told, (trial.reason or trial.because)[:80]] if with_reason else told)
    marks = ["front"] if best is not None else []
    tuned = ["energy", "setting"] if used else []
    last = ["reason"] if with_reason else []
    print_table(["trial", "state", *arms, *metrics, *marks, *names, "took", *tuned, *last], rows)
