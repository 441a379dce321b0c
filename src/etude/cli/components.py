"""``etude components``: what could be taken away from an experiment of a script."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from etude.cli.shell import AsJson, print_json, standard_output_kept
from etude.core.errors import SignatureError

if TYPE_CHECKING:
    from etude.experiment import Experiment

SUCH_AS: Final = {float: "0.1", int: "8", bool: "True"}
"""Type of a parameter -> a value of it, to show how one is given."""


def components(
    experiment: Annotated[str, typer.Argument(metavar="SCRIPT.py:NAME", help="Where the experiment is.")],
    given: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE...", help="The configuration: lr=0.1 width=64.")
    ] = None,
    at: Annotated[str | None, typer.Option(help="The same as one text: --at 'lr=0.1 width=64'.")] = None,
    as_json: AsJson = False,
) -> None:
    """List what an ablation could take away from an experiment.

    Layers with their sizes, features of the data, settings. The model is built, and the data is loaded.
    """
    from etude.cli import options
    from etude.files import scripts

    with standard_output_kept(as_json):
        found, _ = scripts.load(experiment)
        told = " ".join([*(given or ()), *([at] if at is not None else [])])
        told_at = options.read_start(told, lead="") if told else {}
        with _told_as_a_command(experiment, found, told_at):
            listing = found.components(at=told_at or None)
    if as_json:
        print_json(msgspec.to_builtins(listing))
    else:
        print(listing)


@contextlib.contextmanager
def _told_as_a_command(place: str, experiment: Experiment, given: Mapping[str, Any]) -> Iterator[None]:
    """Have a configuration that lacks values refused with the command that has them."""
    try:
        yield
    except SignatureError as error:
        parameters = experiment.signature.parameters
        missing = [one for one in parameters.values() if one.required and one.name not in given]
        if not missing or not parameters.keys() >= given.keys():
            raise
        values = [f"{name}={value}" for name, value in given.items()]
        values += [f"{one.name}={SUCH_AS.get(one.annotation, '...')}" for one in missing]
        raise SignatureError(f"{error} Here: etude components {shlex.join([place, *values])}") from None
