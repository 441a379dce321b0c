"""The command line: a thin shell over the same calls.

Exit codes: 0 all went well, 1 a study that cannot be used, 2 a call that cannot be, 3 some trials failed or did not
come out as on record, 4 a limit ended the study before it was complete, 130 interrupted. With ``--json`` there is one
JSON document on standard output and nothing else; errors and progress are on standard error, and where nothing came
of a command the document is ``{"error": ...}``. Commands import what they need when they are called, so that
``etude --help`` is quick.
"""

from __future__ import annotations

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


for command in (
    studies.ls,
    studies.show,
    studies.trials,
    machines.machines,
    logs.logs,
    export.export,
    report.report,
    report.compare,
    view.view,
    debug.debug,
    disk.du,
    disk.gc,
    forecast.forecast,
    components.components,
    run.schema,
    run.run,
    work.tune,
    work.resume,
    work.stop,
    work.demo,
    machine.doctor,
    worker.worker,
):
    app.command()(command)
app.add_typer(system.app)
app.add_typer(mage.app)


def main() -> None:
    """Run the command line."""
    app()
