"""What a trial printed: ``etude logs``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from etude.cli.shell import AsJson, open_study, print_json, trial_of
from etude.cli.studies import StudyName, TrialNumber

if TYPE_CHECKING:
    from etude.results.search import TrialResult

LOOK_S: Final = 0.2
LOOK_AT_STUDY_S: Final = 1.0


def logs(
    study: StudyName,
    trial: TrialNumber,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the trial has ended.")] = False,
    attempt: Annotated[int | None, typer.Option(min=1, help="An earlier attempt than the newest.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what a trial printed."""
    printed = False
    pieces = _followed(study, trial, attempt) if follow else _printed(study, trial, attempt)
    if as_json:
        text = b"".join(pieces).decode(errors="replace")
        found, ends = _trial(study, trial)
        newest = found.attempts if attempt is None else attempt
        print_json({"study": study, "trial": trial, "attempt": newest, "ended": ends, "text": text})
        return
    for piece in pieces:
        sys.stdout.buffer.write(piece)  # as it is: a character may be cut in two
        sys.stdout.buffer.flush()
        printed = True
    if not printed:
        told = f"trial {trial}" if attempt is None else f"attempt {attempt} of trial {trial}"
        print(f"{told} printed nothing.", file=sys.stderr)


def _printed(study: str, number: int, attempt: int | None) -> Iterator[bytes]:
    folder = _folder(_trial(study, number)[0], attempt)
    for name in ("log.txt", "log.tail.txt"):  # the second is there only while a long log is being written
        text = _read(folder / name, 0)[0]
        if text and name != "log.txt":
            yield b"\n...\n"
        if text:
            yield text


def _followed(study: str, number: int, attempt: int | None) -> Iterator[bytes]:
    """Yield what is printed until the trial has ended, its later attempts included."""
    trial, ends = _trial(study, number)
    at, place, looked_at = 0, _folder(trial, attempt), time.monotonic()
    while True:
        text, at = _read(place / "log.txt", at)
        if text:
            yield text
        elif ends:
            return
        elif time.monotonic() - looked_at >= LOOK_AT_STUDY_S:
            trial, ends = _trial(study, number)
            looked_at = time.monotonic()
            newest = _folder(trial, attempt)
            if newest != place:
                text, _ = _read(place / "log.txt", at)
                yield text + f"--- attempt {trial.attempts} ---\n".encode()
                place, at = newest, 0
        else:
            time.sleep(LOOK_S)


def _trial(study: str, number: int) -> tuple[TrialResult, bool]:
    """Return a trial, and whether nothing more will come of it."""
    from etude.core.lifecycle import FINAL, State

    search = open_study(study)
    trial = trial_of(search, number)
    return trial, State(trial.state) in FINAL or search.driver is None


def _folder(trial: TrialResult, attempt: int | None) -> Path:
    return trial.folder if attempt is None else trial.folder.parent / f"attempt-{attempt}"


def _read(path: Path, start: int) -> tuple[bytes, int]:
    """Return what stands in a file from ``start`` on, and where it ends."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            found = file.read()
    except FileNotFoundError:
        return b"", start
    return found, start + len(found)
