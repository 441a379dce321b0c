"""Removing a folder in which a program could write whatever it wanted.

Such folders may be thousands deep, deeper than any path may be long and than any function may call itself; they may
hold links to elsewhere, and folders that nobody may look into. So each folder is opened where it is named and nowhere
else, and what is in it is moved to the top before it goes: no path gets longer than two names.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it; where links lead nothing is touched.

    Raises:
        OSError: Something of it cannot be removed, or is written while it is removed.
    """
    mark = secrets.token_hex(8)  # what is moved to the top is called like nothing that was there
    with _opened(str(folder)) as top:
        folders = _emptied(top)
        count = 0
        while folders:
            name = folders.pop()
            with _opened(name, within=top) as one:
                for deeper in _emptied(one):
                    count += 1
                    _free(deeper, one)  # to move a folder is to write into it
                    os.rename(deeper, f"{mark}-{count}", src_dir_fd=one, dst_dir_fd=top)
                    folders.append(f"{mark}-{count}")
            os.rmdir(name, dir_fd=top)
    folder.rmdir()


def _emptied(folder: int) -> list[str]:
    """Remove all of a folder but the folders in it, whose names are returned."""
    found = []
    with os.scandir(folder) as entries:
        inside = list(entries)  # else what is removed meanwhile may hide what is not
    for entry in inside:
        if entry.is_dir(follow_symlinks=False):
            found.append(entry.name)
        else:
            os.unlink(entry.name, dir_fd=folder)
    return found


@contextlib.contextmanager
def _opened(name: str, *, within: int | None = None) -> Iterator[int]:
    """Give a folder that can be read and written, whatever it forbids."""
    _free(name, within)
    folder = os.open(name, _FOLDER, dir_fd=within)
    try:
        yield folder
    finally:
        os.close(folder)


def _free(name: str, within: int | None) -> None:
    """Let us read and write a folder, which is ours; what has been put in its place meanwhile stays as it is."""
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, 0o700, dir_fd=within, follow_symlinks=False)
    else:  # Linux has no such call; a handle to the folder itself does
        handle = os.open(name, os.O_PATH | _FOLDER, dir_fd=within)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        finally:
            os.close(handle)
