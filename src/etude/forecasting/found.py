"""Which past studies an experiment has: found by where its script says that it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from etude.core.errors import ConfigError, EtudeError
from etude.definition import where_is
from etude.results.finding import studies_folder, studies_here
from etude.results.reading import read
from etude.results.search import Search
from etude.store.journal import FILE


def newest_study_at(place: str) -> Search:
    """Return the newest study of the experiment at ``path/to/script.py:name``; the script is not run.

    Raises:
        ConfigError: There is none here.
    """
    file, _, name = place.rpartition(":")
    return _newest(Path(file), name, told=place)


def newest_study_of(experiment: object) -> Search:
    """Return the newest study of an experiment.

    Raises:
        ConfigError: There is none here, or no file says what the experiment is called.
    """
    place = where_is(experiment)
    if place is None:
        raise ConfigError(
            "This experiment is in no file, so its past studies cannot be told from others. Name one: "
            "etude.forecast('name')."
        )
    return newest_study_at(place)


def _newest(file: Path, name: str, *, told: str) -> Search:
    newest_first = sorted(studies_here(), key=lambda folder: (folder / FILE).stat().st_mtime, reverse=True)
    for search in _readable(newest_first):
        if search.simulated or search.verb != "tune":  # nothing was measured in it, or no configurations were tried
            continue
        there, _, called = str(search.meta.get("experiment") or "").rpartition(":")
        base = search.folder / str(search.meta.get("cwd", "."))
        if called == name and there and (base / there).resolve() == file.resolve():
            return search
    raise ConfigError(
        f"There is no study of {told} in {studies_folder()} to go by. Measure a few trials first, with tune(trials=10, "
        "stopper='none', ...), or name a study."
    )


def _readable(folders: list[Path]) -> Iterator[Search]:
    for folder in folders:
        try:
            yield read(folder)
        except EtudeError:  # a broken study is no reason not to look at the others
            continue
