"""Studies that are there: which, and where."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from etude.core.errors import NotAStudyError
from etude.core.near import nearest
from etude.core.text import few
from etude.store import shared
from etude.store.fetch import copy, is_mirror, mirror_of, split
from etude.store.filesystems import cache_folder, place_name
from etude.store.journal import FILE


def studies_folder() -> Path:
    """Return where studies are kept: ``ETUDE_STUDIES``, or ``etude-studies`` in the current folder."""
    return Path(os.environ.get("ETUDE_STUDIES") or "etude-studies")


def studies_here() -> list[Path]:
    """Return the folders of all studies that are kept there, by name."""
    return sorted(path.parent for path in studies_folder().glob(f"*/{FILE}"))


def studies_in(folder: Path) -> list[Path]:
    """Return the folder, if it is a study itself, else those in it; the one that changed last is last."""
    found = [folder] if is_study(folder) else [path for path in folder.glob("*/") if is_study(path)]
    return sorted(found, key=_changed_at)


def is_study(folder: Path) -> bool:
    """Say whether a folder is a study, or the mirror of one."""
    return (folder / FILE).exists() or shared.is_shared(folder) or is_mirror(folder)


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


@contextlib.contextmanager
def naming_the_nearest(given: str | os.PathLike[str]) -> Iterator[None]:
    """Say of what is no study also what else may be meant."""
    try:
        yield
    except NotAStudyError as error:
        raise NotAStudyError(f"{error}{instead_of(given)}") from None


def instead_of(given: str | os.PathLike[str]) -> str:
    """Return what else may be meant by what is no study, in a sentence with a space before it; nothing if unknown."""
    path = Path(given)
    if path.suffix == ".py" and path.is_file():
        return f" A script begins one: python {path}, or `etude tune {path} ...`."
    inside = sorted(
        {found.parent.name for place in (path, path / "etude-studies") for found in place.glob(f"*/{FILE}")}
    )
    if inside:
        return f" There are studies in it, so give one of them: {few(inside)}."
    here = [folder.name for folder in studies_here()]
    if near := nearest(path.name, here, n=3):
        return f" Did you mean {' or '.join(map(repr, near))}?"
    return f" In {studies_folder()} there are: {few(here)}." if here and not path.exists() else ""


def _changed_at(folder: Path) -> float:
    return (folder / FILE if (folder / FILE).exists() else folder).stat().st_mtime


def _copied(mirror: str, *, logs: bool) -> Path:
    folder = cache_folder() / "mirrors" / place_name(mirror) / split(mirror)[1]
    copy(mirror, folder, logs=logs)
    return folder
