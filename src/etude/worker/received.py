"""Files of attempts that ran elsewhere, as their pieces arrive."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from etude.wire.node_messages import Piece
from etude.worker.attempt import make_folder


def keep(piece: Piece, trials: str) -> None:
    """Write a piece where its attempt's files are.

    Args:
        piece: Part of a file.
        trials: The folder of all attempts.

    Raises:
        OSError: It cannot be written, or its name leads elsewhere.
    """
    name = PurePosixPath(piece.path)
    if name.is_absolute() or os.pardir in name.parts or not name.name or "\0" in piece.path:
        raise OSError(f"{piece.path!r} is no name of a file in a folder")
    place = Path(make_folder(trials, piece.trial, piece.attempt), name)
    place.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_TRUNC if piece.first else os.O_APPEND)
    file = os.open(place, flags, 0o644)
    try:
        data = memoryview(piece.data)
        while data:
            data = data[os.write(file, data) :]
    finally:
        os.close(file)
