"""What trials took of their machines, and how these were set: ``etude machines``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from etude.cli import complete
from etude.cli.shell import AsJson, open_study, print_json, print_table, trial_of
from etude.cli.studies import StudyName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from etude.system.decisions import Decided


def machines(
    study: StudyName,
    trial: Annotated[
        int | None,
        typer.Argument(metavar="TRIAL", help="Only the decisions on this trial.", autocompletion=complete.trials),
    ] = None,
    *,
    decisions: Annotated[
        bool, typer.Option("--decisions", help="How the machine was set for each epoch, why, and on what evidence.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show time and energy of trials whose machines were tuned.

    With what that saved, and what probing cost.
    """
    search = open_study(study)
    found = search.machines
    if trial is None and not decisions:
        print_json(found.rows()) if as_json else print(found)
        return
    if trial is not None:
        trial_of(search, trial)  # or it is refused
    told = [one for one in found.decided if trial in (None, one.trial)]
    if as_json:
        print_json([one.row() for one in told])
    elif told:
        _print(told)
    else:
        whose = f"trial {trial}" if trial is not None else "any trial"
        print(f"Study {search.name} has no decisions on the machine of {whose}.")


def _print(told: Sequence[Decided]) -> None:
    from etude.core.text import show
    from etude.results.machines import labelled, said

    head = ["trial", "attempt", "epoch", "phase", "setting", "s a step", "energy", "why", "evidence"]
    rows = [
        [
            *(str(one.trial), str(one.attempt), str(one.epoch), one.phase.value, said(one.setting)),
            *(f"{one.step_s:.4g}", labelled(one.energy), one.why),
            ", ".join(f"{name} {show(value)}" for name, value in one.evidence.items()),
        ]
        for one in told
    ]
    print_table(head, rows)
