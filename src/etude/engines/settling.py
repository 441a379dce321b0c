"""How a study that was packed on the driver's machine settles in on another one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from etude.core.errors import StudyError
from etude.wire.messages import Serve
from etude.wire.node_messages import Source
from etude.wire.search_path import search_path
from etude.worker.edits import is_as_it_was


def sources_of(files: Iterable[str], path: Sequence[str]) -> tuple[Source, ...]:
    """Return the files that workers import, with the entries of the search path that they are found below."""
    found = []
    for file in files:
        below = max((entry for entry in path if Path(file).is_relative_to(entry)), key=len, default=None)
        if below is not None:
            found.append(Source(file, below, Path(file).read_bytes()))
    return tuple(found)


def settled_in(serve: Serve, sources: Sequence[Source], folder: Path, project: Path | None = None) -> Serve:
    """Return what workers of this machine are told: as those of the driver's are, with folders that are here.

    If the project is here as well, byte by byte, on a shared disk or since somebody copied it, it is used as it is.
    Else what workers import of it is written below ``folder``.

    Args:
        serve: What workers of the driver's machine are told.
        sources: Files of the project.
        folder: An empty folder of our own.
        project: The project's folder on this machine, if somebody brought it here: attempts run in it.
    """
    places = {name: folder / name for name in ("spool", "trials", "work")}
    for place in places.values():
        place.mkdir()
    cwd, path, files = serve.cwd, serve.path, serve.files
    if not _is_here(serve):
        homes = {entry: str(folder / "project" / str(n)) for n, entry in enumerate(path)}
        files = _written(sources, homes, serve.files)
        path = tuple(dict.fromkeys(homes[source.below] for source in sources))
        cwd = homes[cwd] if homes.get(cwd) in path else str(places["work"])
    return msgspec.structs.replace(
        serve,
        spool=str(places["spool"]),
        trials=str(places["trials"]),
        path=tuple(dict.fromkeys([*path, *search_path()])),
        cwd=str(project) if project is not None else cwd,
        files=files,
    )


def _written(sources: Iterable[Source], homes: Mapping[str, str], digests: Mapping[str, str]) -> dict[str, str]:
    """Write the project's files, and return the sha256 of each, by where it is now."""
    files = {}
    for source in sources:
        name = os.path.normpath(os.path.relpath(source.file, source.below))
        if source.below not in homes or name.startswith(os.pardir) or os.path.isabs(name):
            raise StudyError(f"The driver sent a file of no known place: {source.file} below {source.below}.")
        place = Path(homes[source.below], name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(source.content)
        files[str(place)] = digests[source.file]
    return files


def _is_here(serve: Serve) -> bool:
    """Whether the project lies on this machine where it lies on the driver's, as it is there."""
    return os.path.isdir(serve.cwd) and all(is_as_it_was(file, sha256) for file, sha256 in serve.files.items())
