"""``etude components``: what could be taken away from an experiment of a script."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from etude.cli.shell import AsJson, print_json, standard_output_kept


def components(
    experiment: Annotated[str, typer.Argument(metavar="SCRIPT.py:NAME", help="Where the experiment is.")],
    given: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE...", help="The configuration: lr=0.1 width=64.")
    ] = None,
    at: Annotated[str | None, typer.Option(help="The same as one text: --at 'lr=0.1 width=64'.")] = None,
    as_json: AsJson = False,
) -> None:
    """List what an ablation could take away: layers with their sizes, features of the data, settings.

    The model is built, and the data is loaded.
    """
    from etude.cli import options
    from etude.files import scripts

    with standard_output_kept(as_json):
        found, _ = scripts.load(experiment)
        told = " ".join([*(given or ()), *([at] if at is not None else [])])
        listing = found.components(at=options.read_start(told, lead="") if told else None)
    if as_json:
        print_json(msgspec.to_builtins(listing))
    else:
        print(listing)
