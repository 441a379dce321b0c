"""Studies in a folder that several machines share: the journal stays on this machine's disk, and is mirrored there.

SQLite is not safe on a network file system. So a new study there has its journal (and the spool) in a place of its
own, in the user's cache, named by the study's path; the shared folder gets the segments of a mirror, and the files of
trials as ever. Another machine rebuilds the journal from the segments, in a place of its own.

    ~/.cache/etude/studies/digits-11b0683e5494/journal.sqlite
    ~/.cache/etude/studies/digits-11b0683e5494/trials -> /home/ada/studies/digits/trials
    ~/.cache/etude/studies/digits-11b0683e5494/shared -> /home/ada/studies/digits

Where the cache is on a network as well, as home folders often are, it is /var/tmp/etude-<user id> instead.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from etude.store import segments
from etude.store.changed_files import TRIALS
from etude.store.fetch import COPY_OF, bring, copy
from etude.store.filesystems import cache_folder, network_kind, place_name
from etude.store.journal import FILE
from etude.store.remote import Remote
from etude.store.remote_lease import RemoteLease

SHARED: Final = "shared"
"""The link from a local place to the shared folder that it is for."""

SPARE: Final = Path("/var/tmp")  # noqa: S108 - what is there is looked at before it is used
"""Where journals are kept if the user's cache is on a network, too; unlike /tmp, it outlives a restart."""


def kind_of_shared(folder: Path) -> str:
    """Return the kind of network file system on which a study is to be kept so; empty for any other study.

    One whose journal lies there already, by an earlier version of Étude, goes on with it: slowly, and with a journal
    that waits for the disk.
    """
    return "" if (folder / FILE).exists() or _local_root() is None else network_kind(folder)


def is_shared(folder: Path) -> bool:
    """Say whether a folder is a study whose journal is kept elsewhere."""
    return not (folder / FILE).exists() and all((folder / name).is_dir() for name in (segments.FOLDER, TRIALS))


def local_place(folder: Path) -> Path:
    """Return where this machine keeps the journal of a shared study."""
    return (_local_root() or cache_folder()) / "studies" / place_name(str(folder.absolute()))


def to_work_on(folder: Path) -> Path:
    """Make this machine's place of a shared study what the shared folder says, and return it.

    Raises:
        StudyInUseError: A driver on another machine works on it.
        StudyError: Something is damaged, or both went on for themselves.
    """
    folder = folder.absolute()
    place = local_place(folder)
    (folder / TRIALS).mkdir(parents=True, exist_ok=True)
    place.mkdir(parents=True, exist_ok=True)
    for name, target in ((TRIALS, folder / TRIALS), (SHARED, folder)):
        with contextlib.suppress(FileExistsError):
            os.symlink(target, place / name)
    if is_shared(folder):
        bring(str(folder), place)
    return place


def to_look_at(folder: Path) -> Path:
    """Return a folder with the journal of a shared study as it is now, and with its trials."""
    folder = folder.absolute()
    place = local_place(folder)
    if (place / FILE).exists() and RemoteLease(Remote(str(folder))).is_this_machines():
        return place  # nobody elsewhere has gone on with it
    seen = cache_folder() / "mirrors" / place_name(str(folder))
    seen.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.symlink(folder / TRIALS, seen / TRIALS)
    copy(str(folder), seen)
    return seen


def home_of(folder: Path) -> Path:
    """Return the shared folder that a local place is for; for any other folder, itself."""
    link = folder / SHARED
    return Path(os.readlink(link)) if link.is_symlink() else folder


def address_of(folder: Path) -> str:
    """Return what to give to go on with a study: its folder, or the mirror that the folder is a copy of."""
    with contextlib.suppress(OSError):
        return (folder / COPY_OF).read_text()
    return str(home_of(folder))


def _local_root() -> Path | None:
    """Return a folder of this user's on a disk of this machine's; None if there is none."""
    for root in (cache_folder(), SPARE / f"etude-{os.getuid()}"):
        if network_kind(root):
            continue
        with contextlib.suppress(OSError):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if root.stat().st_uid == os.getuid():  # others may make folders there, too
                return root
    return None
