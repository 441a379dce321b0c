"""``etude run``: what an experiment file asks for, or one call of an experiment; and ``etude schema`` for editors."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from etude.cli.shell import AsJson, print_json, standard_output_kept
from etude.cli.work import Quiet, tell_and_leave

if TYPE_CHECKING:
    from etude.experiment import Experiment
    from etude.files.reading import Asked

OURS: Final = str(Path(__file__).parent.parent)


def run(
    target: Annotated[
        str,
        typer.Argument(metavar="STUDY.yaml", help="An experiment file; or SCRIPT.py:NAME for a plain call."),
    ],
    given: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=VALUE...", help="Other values than the file's: lr=0.1 'space.width=[8, 16]' verb=tune."
        ),
    ] = None,
    *,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Do what a file says: run, check, tune, ablate or fit.

    Without a file: etude run SCRIPT.py:NAME verb=ablate 'components=[dropout]' seeds=7.

    The same file again goes on with its study. Its script is run as it is imported, up to a call that starts a study.
    """
    from etude.files.document import read_document
    from etude.files.reading import load, read_asked

    document = read_document(target, given or ())
    with standard_output_kept(as_json):
        experiment, script = load(document)
        asked = read_asked(document, experiment, script)
        for note in [] if quiet else asked.notes:
            typer.echo(note, err=True)
        if asked.verb == "run":
            came = _run(experiment, asked)
        elif asked.verb == "check":
            with _told_from_the_script_on():
                came = asked.call(experiment)
        else:
            came = asked.call(experiment, progress=False if quiet else None)
    _tell(asked, came, as_json=as_json)


def _run(experiment: Experiment, asked: Asked) -> dict[str, Any]:
    """Return what a plain call came to: what was reported last, and what was returned."""
    from etude.system.asked import read_system
    from etude.worker.plainly import call_plainly

    params = {**asked.arguments}
    seed = params.pop("seed", 0)
    system = None if "system" in experiment.signature.parameters else read_system(params.pop("system", None))
    with asked.located():
        flat = experiment.checked(params)
    with _told_from_the_script_on():
        returned, run = call_plainly(experiment, flat, seed=seed, system=system)
    came = (
        {} if returned is None else returned if isinstance(returned, dict) else {experiment.metrics.names[0]: returned}
    )
    return {**run.last, **came}


@contextlib.contextmanager
def _told_from_the_script_on() -> Iterator[None]:
    """Have what the functions raise shown as ``python script.py`` would: without the frames that led there."""
    from etude.core.errors import EtudeError, ScriptError

    try:
        yield
    except EtudeError:
        raise
    except Exception as error:
        frames = error.__traceback__
        while frames is not None and frames.tb_next is not None and _is_ours(frames):
            frames = frames.tb_next
        raise ScriptError("".join(traceback.format_exception(type(error), error, frames)).rstrip()) from error


def _is_ours(frame: TracebackType) -> bool:
    return frame.tb_frame.f_code.co_filename.startswith((OURS, contextlib.__file__))


def _tell(asked: Asked, came: Any, *, as_json: bool) -> None:
    from etude.results.search import Search

    if isinstance(came, Search):
        tell_and_leave(came, as_json=as_json)
    elif asked.verb == "run":
        _tell_values(came, as_json=as_json)
    elif as_json:
        print_json({"verb": asked.verb, "told": str(came)})
    else:
        print(came)


def _tell_values(values: dict[str, Any], *, as_json: bool) -> None:
    from etude.core.text import show

    if as_json:
        print_json({"verb": "run", "values": values})
    elif not values:
        print("It returned nothing, and reported nothing.")
    else:
        for name, value in values.items():
            print(f"{name} = {show(value) if isinstance(value, float) else value}")


def schema(
    experiment: Annotated[str, typer.Argument(metavar="SCRIPT.py:NAME", help="Where the experiment is.")],
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file; by default standard output.", dir_okay=False)
    ] = None,
) -> None:
    """Write a JSON Schema for experiment files, for editors.

    With it an editor completes keys and marks what cannot be. For VS Code
    the first line of a file says where it is: # yaml-language-server: $schema=FILE
    """
    import json

    from etude.cli.export import replace_file
    from etude.files import scripts
    from etude.files.schema import schema_of

    with standard_output_kept(True):
        found, _ = scripts.load(experiment)
    text = json.dumps(schema_of(found), indent=2) + "\n"
    if output is None:
        print(text, end="")
    else:
        replace_file(output, text.encode())
