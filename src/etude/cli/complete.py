"""What the shell offers when Tab is pressed: names of studies, numbers of trials, samplers and stoppers.

Each function gets what was typed so far and returns what it could become, alone or with a word of help. Nothing here
may fail or take long: somebody waits at a prompt.
"""

from __future__ import annotations

import contextlib
from typing import Final

import typer

from etude.core.errors import EtudeError

MOST_BYTES: Final = 4 * 2**20
"""Journals that are larger are not read for a Tab: it would take more than a moment."""


def studies(incomplete: str) -> list[str]:
    """Return the names of studies here that begin so."""
    from etude.results.finding import studies_here

    return [folder.name for folder in studies_here() if folder.name.startswith(incomplete)]


def trials(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the numbers of the study's trials that begin so, each with how it stands."""
    from etude.core.text import show
    from etude.results.finding import find
    from etude.results.reading import read
    from etude.store.journal import FILE

    with contextlib.suppress(EtudeError, OSError):
        folder = find(str(ctx.params.get("study")))
        if (folder / FILE).stat().st_size <= MOST_BYTES:
            return [
                (str(trial.number), f"{trial.state} {show(trial.value)}".strip())
                for trial in read(folder).trials
                if str(trial.number).startswith(incomplete)
            ]
    return []


def states(incomplete: str) -> list[str]:
    """Return the states of trials that begin so."""
    from etude.core.lifecycle import State

    return [state for state in State if state.startswith(incomplete)]


def samplers(incomplete: str) -> list[str]:
    """Return the samplers that begin so."""
    from etude.tune.samplers import SAMPLERS

    return [name for name in SAMPLERS.choices if name.startswith(incomplete)]


def stoppers(incomplete: str) -> list[str]:
    """Return the stoppers that begin so."""
    from etude.tune.stop import STOPPERS

    return [name for name in STOPPERS.choices if name.startswith(incomplete)]


def tools(incomplete: str) -> list[str]:
    """Return the tools for exports that begin so."""
    from etude.exports.targets import TARGETS

    return [name for name in TARGETS if name.startswith(incomplete)]
