"""A place for a study's mirror: any URL that fsspec understands."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from etude.places.url import UrlFolder
from etude.store import segments

PIECE: Final = 2**20


class Remote(UrlFolder):
    """The folder of a mirror.

    Args:
        url: Where it is.

    Raises:
        ConfigError: fsspec knows no such place, or lacks a library for it; or the URL holds a password.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url, argument="mirror")

    def all_segments(self) -> dict[str, bytes]:
        """Return the segments that are there, by name."""
        numbers = segments.numbers_in(self.names(segments.FOLDER))
        return self.get_all(segments.FOLDER, [segments.name_of(number) for number in numbers])

    def chain(self) -> segments.Chain:
        """Return the study that is there, as far as it counts.

        Raises:
            StudyError: It is damaged.
        """
        return segments.read_chain(self.all_segments(), where=self.url)


def sha256_of(path: Path) -> str:
    """Return the hash of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()
