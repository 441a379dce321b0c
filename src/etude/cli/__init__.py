"""The command line: a thin shell over the same calls.

Exit codes: 0 all went well, 1 a study that cannot be used, 2 a call that cannot be, 3 some trials failed or did not
come out as on record, 4 a limit ended the study before it was complete, 130 interrupted. With ``--json`` there is one
JSON document on standard output and nothing else; errors and progress are on standard error, and where nothing came
of a command the document is ``{"error": ...}``. Commands import what they need when they are called, so that
``etude --help`` is quick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import typer

from etude.cli import (
    components,
    debug,
    disk,
    export,
    forecast,
    logs,
    machine,
    machines,
    mage,
    report,
    run,
    studies,
    system,
    view,
    work,
    worker,
)
from etude.cli.shell import Shell, print_version

app = typer.Typer(
    cls=Shell,
    name="etude",
    help="One training function, every study: look at studies, start them, go on with them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: what rich needs for a framed one takes longer than all the rest
)


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", help="Say which version this is.", callback=print_version, is_eager=True
    ),
) -> None:
    """One training function, every study: look at studies, start them, go on with them."""


GROUPS: Final[Mapping[str, Sequence[Callable[..., Any] | typer.Typer]]] = {
    "Run studies": (run.run, work.tune, work.resume, work.stop, work.demo),
    "Look at studies": (studies.ls, studies.show, studies.trials, logs.logs, view.view, machines.machines, debug.debug),
    "Tell others": (report.report, report.compare, export.export),
    "Before a study": (forecast.forecast, components.components, run.schema, mage.app),
    "Machines and disks": (machine.doctor, worker.worker, system.app, disk.du, disk.gc),
}
"""Heading in the help -> the commands below it."""

for heading, commands in GROUPS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=heading)
        else:
            app.command(rich_help_panel=heading)(command)


def main() -> None:
    """Run the command line."""
    app()
