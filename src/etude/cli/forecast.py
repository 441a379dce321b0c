"""What a study will take, before it is started: ``etude forecast``."""

from __future__ import annotations

import shutil
import textwrap
from typing import Annotated, Any, Final

import typer

from etude.cli import complete
from etude.cli.shell import AsJson, open_study, print_json, print_table

MOST_COLUMNS: Final = 100
"""Of the table where nobody says how wide a line is, and of sentences: programs have ``--json``."""


def forecast(
    studies: Annotated[
        list[str],
        typer.Argument(
            metavar="STUDY...",
            help="Past or running studies, by name or folder; or SCRIPT.py:NAME for the newest study of an experiment.",
            autocompletion=complete.studies,
        ),
    ],
    *,
    trials: Annotated[int | None, typer.Option(help="How many trials there will be; by default as before.")] = None,
    workers: Annotated[
        list[int] | None,
        typer.Option(help="How many run at a time. May be given several times; by default 1, 2, 4, ..."),
    ] = None,
    stopper: Annotated[
        list[str] | None,
        typer.Option(help="What stops trials early; by default as before.", autocompletion=complete.stoppers),
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            help="What proposes; by default trials are drawn from those measured.", autocompletion=complete.samplers
        ),
    ] = None,
    price_per_hour: Annotated[float | None, typer.Option(help="What an hour of one worker costs.")] = None,
    max_cost: Annotated[float | None, typer.Option(help="What the workers may cost in all.")] = None,
    deadline: Annotated[float | None, typer.Option(help="Seconds that the study may take.")] = None,
    startup: Annotated[
        float | None, typer.Option(help="Seconds until workers are there; by default as before.")
    ] = None,
    failures: Annotated[float, typer.Option(help="Share of the attempts whose process dies.")] = 0.0,
    resamples: Annotated[int, typer.Option(help="How many studies are simulated for each row.")] = 100,
    seed: Annotated[int, typer.Option(help="The seed of all that is drawn.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what a larger study would take, by one that was measured.

    With 1, 2, 4, ... workers: time, cost, and what stopping early would save and risk.
    """
    from etude.cli import options
    from etude.forecasting.forecast import forecast as foretell
    from etude.forecasting.found import newest_study_at

    given: dict[str, Any] = {"stopper": options.read_stoppers(stopper)} if stopper else {}
    given |= {"sampler": options.read_sampler(sampler)} if sampler is not None else {}
    found = foretell(
        *(newest_study_at(one) if ".py:" in one else open_study(one) for one in studies),
        trials=trials,
        workers=workers or None,
        price_per_hour=price_per_hour,
        max_cost=max_cost,
        deadline_s=deadline,
        startup_s=startup,
        failures=failures,
        resamples=resamples,
        seed=seed,
        progress=False if quiet or as_json else None,
        **given,
    )
    if as_json:
        print_json(found.to_dict())
        return
    first, *rest = found.sentences()
    width = min(shutil.get_terminal_size((MOST_COLUMNS, 24)).columns, MOST_COLUMNS)
    print(textwrap.fill(first, width))
    head = [title.replace(" ", "\n") for title in found.head()]
    print_table(head, [[cell.replace(" (", "\n(") for cell in row] for row in found.cells()], most=MOST_COLUMNS)
    print("\n".join(textwrap.fill(sentence, width) for sentence in rest))
