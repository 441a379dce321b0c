"""A folder at any URL that fsspec understands.

fsspec is imported when one is opened: most studies have none.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from etude.core.errors import ConfigError

WHOLE: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "memory"})
"""Protocols whose files appear whole or not at all; elsewhere they are written under another name and renamed."""

LOCAL: Final = frozenset({"file", "local"})


class UrlFolder:
    """A folder at a URL.

    Args:
        url: Where it is.
        argument: What it was given as, for messages.

    Raises:
        ConfigError: fsspec knows no such place, or lacks a library for it; or the URL holds a password.
    """

    def __init__(self, url: str, *, argument: str) -> None:
        import fsspec

        self.url = url.rstrip("/")
        if _has_password(url):
            raise ConfigError(
                f"{argument}=<URL> holds a password, and the journal would keep it. Leave it out of the URL and give "
                "it through the environment or fsspec's own configuration."
            )
        try:
            # Not the instance that others share: its listings would be, too.
            self._fs, path = fsspec.core.url_to_fs(self.url, skip_instance_cache=True, use_listings_cache=False)
        except (ValueError, ImportError) as error:
            raise ConfigError(
                f"{argument}={url!r} is no place that can be used: {error}. Pass a URL that fsspec understands, such "
                "as s3://bucket/studies or a folder, and install what it needs."
            ) from None
        self._path = path.rstrip("/")
        protocols = {self._fs.protocol} if isinstance(self._fs.protocol, str) else set(self._fs.protocol)
        self._whole = not protocols.isdisjoint(WHOLE)
        self._local = not protocols.isdisjoint(LOCAL)
        self.in_memory = "memory" in protocols
        """Whether it is in the memory of this process."""

    @property
    def local(self) -> Path | None:
        """The folder on this machine that it is; None if it is elsewhere."""
        return Path(self._path) if self._local else None

    def make(self, *folders: str) -> None:
        """Make the place, with folders in it, where there are such things as folders.

        Nothing else makes them: so nothing is written by accident where a folder was renamed or a disk taken away.
        """
        for folder in folders if not self._whole else ():
            self._fs.makedirs(f"{self._path}/{folder}", exist_ok=True)

    def put(self, name: str, content: bytes) -> None:
        """Write a small file, in the place of an earlier one if there is one."""
        self._place(name, lambda path: self._fs.pipe_file(path, content))

    def put_file(self, name: str, local: Path, *, aside: str = "") -> None:
        """Copy a file there.

        Args:
            name: What it is called there.
            local: Where it is.
            aside: What it is called until it is whole, where files do not appear whole; by default any name.
        """
        self._place(name, lambda path: self._fs.put_file(str(local), path), aside=aside)

    def get(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        try:
            content: bytes = self._fs.cat_file(f"{self._path}/{name}")
        except FileNotFoundError:
            return None
        return content

    def head(self, name: str, size: int) -> bytes:
        """Return the first bytes of a file; none if it is not there."""
        try:
            content: bytes = self._fs.cat_file(f"{self._path}/{name}", start=0, end=size)
        except FileNotFoundError:
            return b""
        return content

    def has(self, name: str) -> bool:
        """Say whether a file is there."""
        try:
            self._fs.info(f"{self._path}/{name}")
        except FileNotFoundError:
            return False
        return True

    def get_all(self, folder: str, names: list[str]) -> dict[str, bytes]:
        """Return the contents of several files of a folder, by name."""
        paths = {f"{self._path}/{folder}/{name}": name for name in names}
        return {name: self._fs.cat_file(path) for path, name in paths.items()}

    def get_file(self, name: str, local: Path) -> None:
        """Copy a file from there."""
        self._fs.get_file(f"{self._path}/{name}", str(local))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(f"{self._path}/{name}")

    def names(self, folder: str = "") -> list[str]:
        """Return what is in a folder."""
        try:
            found = self._fs.ls(f"{self._path}/{folder}".rstrip("/"), detail=False)
        except FileNotFoundError:
            return []
        return [path.rstrip("/").rpartition("/")[2] for path in found]

    def folders(self) -> list[str]:
        """Return the names of the folders that are there."""
        try:
            found = self._fs.ls(self._path, detail=True)
        except FileNotFoundError:
            return []
        return [one["name"].rstrip("/").rpartition("/")[2] for one in found if one["type"] == "directory"]

    def find(self, folder: str = "") -> dict[str, int]:
        """Return all files below a folder, by their path from here, with their sizes in bytes."""
        root = self._path.rstrip("/")
        try:
            found = self._fs.find(f"{root}/{folder}".rstrip("/"), detail=True)
        except FileNotFoundError:
            return {}
        return {path[len(root) + 1 :]: int(one["size"] or 0) for path, one in found.items()}

    def _place(self, name: str, write: Callable[[str], Any], *, aside: str = "") -> None:
        path = f"{self._path}/{name}"
        if self._whole:
            write(path)
            return
        aside = f"{self._path}/{aside}" if aside else f"{path}.{secrets.token_hex(4)}.part"
        try:
            write(aside)
            self._fs.mv(aside, path)
        except BaseException:
            with contextlib.suppress(Exception):
                self._fs.rm_file(aside)
            raise


def _has_password(url: str) -> bool:
    try:
        return urlsplit(url).password is not None
    except ValueError:  # no URL in the strict sense; fsspec says what it makes of it
        return False
