"""A tree that travels: packed into a value, and laid into a folder where it is needed."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from etude.core.errors import ConfigError
from etude.mage.tree import Tree, digest_of

COPIED_B: Final = 16 * 2**20
"""Files beside those of the tree are copied up to this size, so that nobody writes through a link into the project."""
NOT_TAKEN: Final = frozenset({"etude-studies", "__pycache__", "node_modules"})


@dataclass(frozen=True)
class Files:
    """A tree, packed.

    Attributes:
        digest: That of the tree.
        content: All of its files; small, since they are compressed.
        root: The project's folder, where this machine has it: what the tree leaves out, such as data, is found there.
    """

    digest: str
    content: bytes
    root: str = ""

    @classmethod
    def of(cls, tree: Tree, *, root: Path | None = None) -> Files:
        """Return a tree, packed."""
        packed = zlib.compress(msgspec.msgpack.encode({path: tree.files[path] for path in tree}), 6)
        return cls(tree.digest, packed, "" if root is None else str(root.absolute()))

    @property
    def tree(self) -> Tree:
        """The tree."""
        return Tree(msgspec.msgpack.decode(zlib.decompress(self.content), type=dict[str, bytes]))

    def lay(self, folder: Path) -> None:
        """Write the tree into a folder, with all else that the project has beside it.

        What is beside it are links to folders and to large files, and copies of small files.

        Args:
            folder: Is made, or is empty.

        Raises:
            ConfigError: A path of the tree leads out of the folder.
        """
        tree, root = self.tree, Path(self.root) if self.root else None
        folders = {"."}
        for path in tree:
            pure = PurePosixPath(path)
            if pure.is_absolute() or ".." in pure.parts:
                raise ConfigError(f"{path!r} leads out of the project's folder. Give paths inside it.")
            place = folder / pure
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(tree.files[path])
            folders.update(str(parent) for parent in pure.parents)
        if root is not None and root.is_dir():
            for inner in sorted(folders):
                _take_along(root / inner, folder / inner)

    def laid(self) -> Path:
        """Return a folder of the user's own that holds the tree; it is written once on a machine.

        It is looked at each time: what somebody has changed there is not used.
        """
        place = _own_folder() / digest_of(f"{self.digest} {self.root}".encode())[:32]
        if place.is_dir() and self._is_in(place):
            return place
        made = Path(tempfile.mkdtemp(dir=place.parent))
        self.lay(made)
        if place.exists():  # changed, or half written by one who was killed
            shutil.rmtree(place, ignore_errors=True)
        try:
            made.rename(place)
        except OSError:  # another process was faster
            if not (place.is_dir() and self._is_in(place)):
                return made
            shutil.rmtree(made, ignore_errors=True)
        return place

    def _is_in(self, folder: Path) -> bool:
        tree = self.tree
        with contextlib.suppress(OSError):
            return all((folder / path).read_bytes() == tree.files[path] for path in tree)
        return False


def _own_folder() -> Path:
    """Return a folder that nobody else may write to."""
    place = Path(tempfile.gettempdir()) / f"etude-mage-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        place.mkdir(mode=0o700)
    found = place.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
        return place
    return Path(tempfile.mkdtemp(prefix="etude-mage-"))


def _take_along(source: Path, into: Path) -> None:
    """Link or copy what is in a folder and is not there yet."""
    if not source.is_dir():
        return
    for entry in sorted(source.iterdir()):
        place = into / entry.name
        if entry.name.startswith(".") or entry.name in NOT_TAKEN or place.exists() or into.is_relative_to(entry):
            continue  # nothing of git's, and never a folder into itself
        if entry.is_dir() or entry.stat().st_size > COPIED_B:
            place.symlink_to(entry.absolute())
        elif entry.is_file():
            shutil.copyfile(entry, place)
