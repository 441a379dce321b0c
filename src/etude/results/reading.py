"""Studies read from their journals, to be looked at."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from etude.core.history import History
from etude.core.metrics import Fidelity, Metrics, Mode
from etude.results.ablated import Ablation
from etude.results.finding import find, naming_the_nearest
from etude.results.fitted import Fit
from etude.results.search import Search
from etude.results.summary import is_prepared
from etude.store.journal import Journal

UNNAMED: Final[Mapping[str, Mode]] = {"metric": "max"}
"""Stands for the metrics of a study whose variants are written and which has no trials yet: nobody has named them."""

KINDS: Final[Mapping[str, type[Search]]] = {"fit": Fit, "ablate": Ablation}
"""Verb -> what comes of it; of others, a search."""


def read(folder: str | os.PathLike[str]) -> Search:
    """Open a study to look at it: it is not changed, and none of the user's code is needed.

    Args:
        folder: The study's folder, its name among the studies here, or the URL of its mirror.

    Returns:
        A search; what a final training gives, if it was one.

    Raises:
        NotAStudyError: There is no study; the message names the nearest.
        JournalError: Its journal is damaged or from a later version.
    """
    path = find(folder)
    with naming_the_nearest(folder):
        journal = Journal.read(path)
    try:
        meta, driver = journal.meta(), journal.lease.held_by()
        history = history_in(journal, meta)
    finally:
        journal.close()
    kind = KINDS.get((meta.get("question") or {}).get("verb", ""), Search)
    return kind(path, history, meta=meta, driver=driver)


def history_of(folder: Path) -> History:
    """Return what is known of the study in a folder."""
    with contextlib.closing(Journal.read(folder)) as journal:
        return history_in(journal, journal.meta())


def history_in(journal: Journal, meta: Mapping[str, Any]) -> History:
    """Return the study that a journal tells of.

    Args:
        journal: The journal.
        meta: What it says about the study.
    """
    history = History(metrics_in(meta))
    for fact in journal.facts():
        history.apply(fact)
    return history


def metrics_in(meta: Mapping[str, Any]) -> Metrics:
    """Return what a study measures, by what its journal says about it."""
    budgets = meta.get("fidelity")
    fidelity = Fidelity(budgets["name"], tuple(budgets["rungs"])) if budgets else None
    modes = UNNAMED if is_prepared(meta) else meta["metrics"]
    return Metrics(modes, watched=meta.get("watched"), fidelity=fidelity)
