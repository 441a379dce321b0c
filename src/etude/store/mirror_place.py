"""Whether a study's mirror may lie where it was asked for: found out before anything is started, and without a write.

A place that is only out of reach, such as a disk that is not mounted or a bucket behind a network, is none of this: the
study goes on without it, and catches up.
"""

from __future__ import annotations

from pathlib import Path

from etude.core.errors import ConfigError
from etude.store.filesystems import is_made_up, nearest_existing
from etude.store.remote import Remote


def open_mirror(place: str, name: str, *, folder: Path) -> Remote:
    """Return the mirror of a study.

    Args:
        place: Where mirrors go: a URL, or a folder.
        name: The study's name.
        folder: The study's own folder.

    Raises:
        ConfigError: It is no place that can be used, or lies in the study's own folder.
    """
    remote = Remote(f"{place}/{name}")
    if remote.local is None:
        return remote
    there = nearest_existing(remote.local.parent)
    if not there.is_dir():
        raise ConfigError(
            f"mirror={place!r} cannot be a place for mirrors: {there} is no folder. Pass a folder, which need not "
            "exist, or a URL such as s3://bucket/studies."
        )
    if is_made_up(there):
        raise ConfigError(
            f"mirror={place!r} cannot be a place for mirrors: what is in {there} is made up by the kernel, and keeps "
            "no files. Pass a folder on a disk, or a URL such as s3://bucket/studies."
        )
    if remote.local.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(
            f"mirror={place!r} would put the mirror into the study's own folder, {folder}: with that, both would be "
            "lost. Pass a folder on another disk, or a URL such as s3://bucket/studies."
        )
    return remote
