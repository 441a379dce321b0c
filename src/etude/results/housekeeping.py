"""What studies take on the disk, and what of it is no use any more.

A study that ends in order leaves nothing behind. One whose driver was killed, and that does not go on, leaves files of
checkpoints that its journal does not name: halves, and those that were to be removed.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from etude.core.errors import ConfigError, StudyInUseError
from etude.core.shelf import Shelf
from etude.places.depot import Depot, Found, read_path
from etude.places.url_depot import depot_at
from etude.results.finding import find
from etude.results.reading import history_in
from etude.store import shared
from etude.store.artifacts import surplus
from etude.store.changed_files import LOG_TAIL, TRIALS, WORKERS_LOG
from etude.store.fetch import mirror_of
from etude.store.journal import FILE, Journal

LOGS: Final = frozenset({"log.txt", LOG_TAIL})
JOURNAL: Final = frozenset({"spool", "segments", "lease.json"})
"""What is counted with the journal: outcomes on their way to it, and its copy in a folder that machines share."""


@dataclass(frozen=True)
class Usage:
    """What a study takes on disks, in bytes by the sizes of its files.

    Attributes:
        study: Its name.
        journal: All that is recorded.
        logs: What attempts and workers printed.
        files: Other files of its attempts, and whatever else is in its folder.
        states: Checkpoints that trials may go on from.
        weights: Those of the best trials.
        surplus: Files of checkpoints that are of no use; while the study is at work, those on their way as well.
    """

    study: str
    journal: int
    logs: int
    files: int
    states: int
    weights: int
    surplus: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.journal + self.logs + self.files + self.states + self.weights + self.surplus


@dataclass(frozen=True)
class Cleared:
    """What was of no use in a study, and was removed or would be.

    Attributes:
        study: Its name.
        found: The files, as they were.
    """

    study: str
    found: tuple[Found, ...]

    @property
    def size_b(self) -> int:
        """Their sizes in bytes."""
        return sum(file.size_b for file in self.found)


def usage(study: str | os.PathLike[str]) -> Usage:
    """Return what a study takes on disks.

    Args:
        study: Its name or its folder.

    Raises:
        NotAStudyError: There is none.
        ConfigError: It is a mirror.
    """
    folder = _folder_of(study, what="du")
    with contextlib.closing(Journal.read(folder)) as journal:
        meta = journal.meta()
        shelf = history_in(journal, meta).shelf
    kept, points = shelf.files, _points(shelf)
    sizes = {"journal": 0, "logs": 0, "files": 0, "states": 0, "weights": 0, "surplus": 0}
    for kind, path in _files_in(folder):
        with contextlib.suppress(OSError):  # it was there a moment ago
            sizes[kind] += path.stat().st_size
    for file in _depot_of(folder, meta).files():
        key = (file.trial, file.name)
        kind = "surplus" if not file.whole or key not in kept else "states" if key in points else "weights"
        sizes[kind] += file.size_b
    return Usage(shared.home_of(folder).name, **sizes)


def clear(study: str | os.PathLike[str], *, dry_run: bool = False) -> Cleared:
    """Remove files of checkpoints that are of no use any more.

    Args:
        study: The study's name or its folder.
        dry_run: Only say which they are.

    Raises:
        NotAStudyError: There is none.
        StudyInUseError: A driver works on it, which does this by itself.
        ConfigError: It is a mirror.
    """
    folder = _folder_of(study, what="gc")
    name = shared.home_of(folder).name
    with contextlib.closing(Journal.read(folder)) as journal:
        if (driver := journal.lease.held_by()) is not None:
            raise StudyInUseError(
                f"Process {driver[1]} on {driver[0]} works on study {name}: what it does not need any more goes by "
                "itself. Call `etude gc` when it has ended, or end it with `etude stop`."
            )
        if dry_run:
            return Cleared(name, _surplus_of(journal))
    if shared.home_of(folder) != folder:  # a driver of it may be on another machine
        folder = shared.to_work_on(shared.home_of(folder))
    with contextlib.closing(Journal.write(folder)) as journal:
        # The lease alone: the mark that tells of a torn end is for the next driver.
        journal.lease.take(f"gc-{uuid.uuid4().hex}")
        try:
            found = _surplus_of(journal)
            for file in found:
                file.remove()
        finally:
            journal.lease.release()
    return Cleared(name, found)


def _folder_of(study: str | os.PathLike[str], *, what: str) -> Path:
    if (mirror := mirror_of(study)) is not None and not shared.is_shared(Path(study)):
        raise ConfigError(
            f"{mirror} is a mirror, and has no checkpoints. Give `etude {what}` a study's name or its folder."
        )
    return find(study)


def _surplus_of(journal: Journal) -> tuple[Found, ...]:
    meta = journal.meta()
    kept = history_in(journal, meta).shelf.files
    found = surplus(_depot_of(journal.folder, meta).files(), kept)
    return tuple(sorted(found, key=lambda file: (file.trial, file.name)))


def _points(shelf: Shelf) -> set[tuple[int, str]]:
    """Return the files that trials may go on from."""
    trials = {trial for trial, _ in shelf.files}
    whole = ((trial, point) for trial in trials for point in (*shelf.points(trial), *shelf.shared(trial).values()))
    return {(trial, name) for trial, point in whole for name in point.names()}


def _depot_of(folder: Path, meta: dict[str, Any]) -> Depot:
    return depot_at(meta.get("states") or "", folder / TRIALS)


def _files_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield all files of a study with what they count as, wherever its journal and its trials are."""
    home = shared.home_of(folder)
    for root in dict.fromkeys((folder, home)):
        for place, folders, names in os.walk(root):
            folders[:] = [name for name in folders if Path(place, name) != root / TRIALS]
            for name in names:
                is_journal = name.startswith(FILE) or not JOURNAL.isdisjoint((name, os.path.basename(place)))
                yield "journal" if is_journal else "logs" if name == WORKERS_LOG else "files", Path(place, name)
    for place, _, names in os.walk(home / TRIALS):
        for name in names:
            path = Path(place, name)
            if read_path("/".join(path.parts[-4:])) is None:
                yield "logs" if name in LOGS else "files", path
