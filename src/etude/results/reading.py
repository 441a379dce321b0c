"""Studies that are there: which, where, and read from their journals to be looked at."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from etude.core.history import History
from etude.core.metrics import Fidelity, Metrics, Mode
from etude.results.ablated import Ablation
from etude.results.fitted import Fit
from etude.results.search import Search
from etude.results.summary import is_prepared
from etude.store import shared
from etude.store.fetch import copy, mirror_of, split
from etude.store.filesystems import cache_folder, place_name
from etude.store.journal import FILE, Journal

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
        NotAStudyError: There is no study.
        JournalError: Its journal is damaged or from a later version.
    """
    path = find(folder)
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
    budgets = meta.get("fidelity")
    fidelity = Fidelity(budgets["name"], tuple(budgets["rungs"])) if budgets else None
    modes = UNNAMED if is_prepared(meta) else meta["metrics"]
    history = History(Metrics(modes, watched=meta.get("watched"), fidelity=fidelity))
    for fact in journal.facts():
        history.apply(fact)
    return history


def studies_folder() -> Path:
    """Return where studies are kept: ``ETUDE_STUDIES``, or ``etude-studies`` in the current folder."""
    return Path(os.environ.get("ETUDE_STUDIES") or "etude-studies")


def studies_here() -> list[Path]:
    """Return the folders of all studies that are kept there, by name."""
    return sorted(path.parent for path in studies_folder().glob(f"*/{FILE}"))


def find(study: str | os.PathLike[str], *, logs: bool = True) -> Path:
    """Return the folder of a study that is given by its path, its name, or its mirror: a URL, or a folder.

    A mirror is copied into the user's cache, without the files that its trials kept, and with its logs if ``logs``.
    """
    path = Path(study)
    if not (path / FILE).exists() and (studies_folder() / path / FILE).exists():
        return studies_folder() / path
    for there in (study, studies_folder() / path):
        if shared.is_shared(Path(there)):
            return shared.to_look_at(Path(there))
        if (mirror := mirror_of(there)) is not None:
            return _copied(mirror, logs=logs)
    return path


def _copied(mirror: str, *, logs: bool) -> Path:
    folder = cache_folder() / "mirrors" / place_name(mirror) / split(mirror)[1]
    copy(mirror, folder, logs=logs)
    return folder
