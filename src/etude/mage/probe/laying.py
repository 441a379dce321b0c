"""The folder in which a variant runs: its own files as copies, and all else of the project by links.

Links lead to the project itself, so that data of any size is there at once. In bubblewrap they can only be read, and
only if the job names where they lead (``reached``). Sockets, pipes and devices are no data: whoever may read them may
talk to what is behind them. None is linked, and a job hides those that lie in a folder that is linked as a whole
(``hidden``).
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from etude.core.errors import ConfigError
from etude.mage.keys import is_named_like_keys
from etude.mage.tree import Tree

LEFT_OUT: Final = (
    *(".git", ".hg", ".svn", "__pycache__", "node_modules", ".venv", "venv", ".tox", ".nox", ".cache", "*_cache"),
    *(".hypothesis", ".ipynb_checkpoints", ".idea", ".vscode", "*.egg-info", "etude-studies", ".etude-probe-*"),
)
"""What no variant needs: histories, environments, studies, caches."""
MOST_ENTRIES: Final = 200
"""A folder with more entries is linked as a whole; of others each entry is, so that a program can write beside them."""
JOURNAL: Final = "journal.sqlite"


def lay(tree: Tree, root: Path, folder: Path) -> Path:
    """Make the folder of a variant, and return it.

    Args:
        tree: The variant's files. They are copied, so that whatever is written over them is written here.
        root: The project's folder. What of it is not in the tree, data and checkpoints, is linked; histories, virtual
            environments, studies, caches, sockets, pipes, devices and what is called like a secret are not there, nor
            are links to a folder around the project, by which all of that would be there.
        folder: The folder to make; it may be there and empty.

    Raises:
        ConfigError: The folder holds something, or a file of the tree would lie outside of it.
    """
    root, folder = root.resolve(), folder.absolute()
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} holds something already. Pass a folder that is new or empty.")
    for path in tree:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or not PurePosixPath(path).parts:
            raise ConfigError(f"{path!r} lies outside of the project. Paths of a tree are relative to its folder.")
    folder.mkdir(parents=True, exist_ok=True)
    for path in tree:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(tree.files[path])
        if os.access(root / path, os.X_OK):
            file.chmod(0o755)
    for path, target in _links(tree, root, folder):
        link = folder / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    return folder


def reached(tree: Tree, root: Path, folder: Path | None = None) -> tuple[Path, ...]:
    """Return where the links of a laid folder lead: what its job has to be allowed to read.

    Args:
        tree: As for ``lay``.
        root: As for ``lay``.
        folder: As for ``lay``; None if it does not lie inside the project.
    """
    root = root.resolve()
    targets = [target for _, target in _links(tree, root, folder.absolute() if folder else root / ".nowhere")]
    return tuple(target for target in targets if target.exists())


def hidden(reads: Iterable[Path]) -> tuple[Path, ...]:
    """Return what a job is not to find in what it may read: sockets, pipes, devices, and what is called like a secret.

    Args:
        reads: As ``reached`` gives them. Every folder is looked through, and no link is followed in there.
    """
    found = []
    todo = [str(path) for path in reads if path.is_dir()]
    while todo:
        with contextlib.suppress(PermissionError), os.scandir(todo.pop()) as entries:  # the job cannot look either
            for entry in entries:
                if entry.is_symlink():  # where it leads is there only if it is to be read itself
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                if not (is_folder or entry.is_file(follow_symlinks=False)) or is_named_like_keys(entry.name):
                    found.append(Path(entry.path))
                elif is_folder:
                    todo.append(entry.path)
    return tuple(sorted(found))


def free(folder: Path, path: str) -> None:
    """Take away a file of an earlier run, so that what is there later was written by this one.

    A folder on its way that is a link becomes one of its own, with links to what is in it.

    Raises:
        ConfigError: The path leads outside of the folder.
    """
    parts = PurePosixPath(path).parts
    if not parts or PurePosixPath(path).is_absolute() or ".." in parts:
        raise ConfigError(f"{path!r} lies outside of the project. Pass a path relative to its folder.")
    place = folder
    for part in parts[:-1]:
        place = place / part
        if place.is_symlink() and place.is_dir():
            target = place.resolve()
            place.unlink()
            place.mkdir()
            for entry in sorted(target.iterdir()):
                if not _is_left_out(entry, folder):
                    (place / entry.name).symlink_to(entry)
    (place / parts[-1]).unlink(missing_ok=True)


def _links(tree: Tree, root: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Give what is linked: its path in the project, and where it is."""
    folders = {str(parent) for path in tree for parent in PurePosixPath(path).parents}
    todo = [""]
    while todo:
        place = todo.pop()
        for entry in sorted((root / place).iterdir()):
            path = f"{place}/{entry.name}" if place else entry.name
            if path in tree or _is_left_out(entry, folder) or root.is_relative_to(entry.resolve()):
                continue
            is_folder = entry.is_dir() and not entry.is_symlink()
            if path in folders or (is_folder and (folder.is_relative_to(entry) or _is_small(entry))):
                todo.append(path)
            else:
                yield path, entry


def _is_left_out(entry: Path, folder: Path) -> bool:
    if any(fnmatch.fnmatch(entry.name, pattern) for pattern in LEFT_OUT) or entry == folder or _is_secret(entry):
        return True
    try:
        mode = entry.stat().st_mode
    except OSError:  # a link that leads nowhere: the program may say so itself
        return False
    if not stat.S_ISDIR(mode):
        return not stat.S_ISREG(mode)
    return any(os.path.exists(entry / name) for name in ("pyvenv.cfg", "conda-meta", JOURNAL))


def _is_secret(entry: Path) -> bool:
    """Say whether a variant must not read something, as far as names tell: its own, or where a link of it leads."""
    try:
        names = entry.resolve().parts if entry.is_symlink() else ()
    except (OSError, RuntimeError):  # a circle of links
        return True
    return any(map(is_named_like_keys, (entry.name, *names)))


def _is_small(folder: Path) -> bool:
    with contextlib.suppress(PermissionError), os.scandir(folder) as entries:
        return all(nth < MOST_ENTRIES for nth, _ in enumerate(entries))
    return False
