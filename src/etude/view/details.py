"""What a page asks for about one trial: all that its row has no room for, and what its attempts printed."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any, Final

from etude.analyse.report.figure import thinned
from etude.core.errors import ConfigError
from etude.core.text import seconds, show
from etude.results.search import TrialResult
from etude.view.board import told
from etude.view.following import Follower

MOST_REPORTS: Final = 500
"""Reports that are shown of a trial that has more, evenly."""

MOST_BYTES: Final = 256 * 1024
"""What is read of a log at a time; of a longer one the end is shown first."""


def details(follower: Follower, number: int) -> dict[str, Any]:
    """Return all that is to be shown of a trial, as plain data.

    Raises:
        ConfigError: There is no such trial.
    """
    trial = _trial(follower, number)
    took = trial.usage
    return {
        "trial": number,
        "state": trial.state,
        "params": {name: show(value) for name, value in trial.params.items()},
        "seed": trial.seed,
        "values": {name: told(value) for name, value in trial.values.items()},
        "metrics": {name: show(value) for name, value in trial.metrics.items()},
        "arm": trial.arm,
        "start": trial.start,
        "reason": trial.reason or trial.because,
        "traceback": trial.traceback,
        "took": seconds(took.wall_s) if took is not None else None,
        "memory": f"{took.memory_mb:,.0f} MB" if took is not None and took.memory_mb else None,
        "same_as": trial.same_as,
        "reused_from": list(trial.reused_from) if trial.reused_from is not None else None,
        "reports": [
            {"step": one.step, "attempt": one.attempt, **{name: told(value) for name, value in one.metrics.items()}}
            for one in thinned(trial.reports, MOST_REPORTS)
        ],
        "attempts": trial.attempts,
    }


def log(follower: Follower, number: int, attempt: int, after: int | None) -> tuple[str, int, bool]:
    """Return what an attempt printed.

    Args:
        follower: Follows the study.
        number: The trial's number.
        attempt: The attempt's.
        after: How many bytes of it are known; None for the end of it, of which nothing is known.

    Returns:
        What it printed after these, where that ends, and whether something was left out before it. A character of which
        a part is not there yet comes with the next piece.

    Raises:
        ConfigError: There is no such trial.
    """
    path = _trial(follower, number).folder.parent / f"attempt-{attempt}" / "log.txt"
    return _read(path, after)


def _read(path: Path, after: int | None) -> tuple[str, int, bool]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            start = max(0, size - MOST_BYTES) if after is None else min(after, size)
            file.seek(start)
            found = file.read(MOST_BYTES)
    except OSError:  # it printed nothing, or is gone
        return "", 0, False
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(found)
    begun, _ = decoder.getstate()
    return text, start + len(found) - len(begun), after is None and start > 0


def _trial(follower: Follower, number: int) -> TrialResult:
    trials = follower.board.history.trials
    if number >= len(trials):
        raise ConfigError(f"There is no trial {number}: the study has {len(trials)}, numbered from 0.")
    return follower.trial(number)
