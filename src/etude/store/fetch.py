"""Bringing a study back from its mirror: the journal rebuilt from its segments, files with their hashes checked.

Before it reads, it takes the mirror's lease. What a driver elsewhere writes after that does not count, and it tells
its workers nothing of it; so all that was ever acknowledged is in what is read here.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from etude.core.errors import EtudeError, NotAStudyError, StudyError
from etude.store import segments
from etude.store.changed_files import PART, TRIALS, WORKERS_LOG
from etude.store.journal import FILE, Journal
from etude.store.mirror import FILES
from etude.store.remote import Remote, sha256_of
from etude.store.remote_lease import RemoteLease
from etude.store.same_study import digest_of, has_all_of, is_beginning
from etude.store.segments import Chain, Stored

OURS: Final = (TRIALS, WORKERS_LOG)
"""Where in a study's folder files from a mirror may lie."""


COPY_OF: Final = "copy-of"
"""The file in a copy to look at that says which mirror it is of."""

COPIED: Final = "copied"
"""The file in such a copy that says what was there when all of it was copied: who follows a mirror asks often."""


def is_url(study: str | os.PathLike[str]) -> bool:
    """Say whether a study is given by the URL of its mirror, and not by a name or a folder."""
    return isinstance(study, str) and "://" in study


def is_mirror(folder: Path) -> bool:
    """Say whether a folder is a mirror: it has segments, and neither the journal of a study nor its trials.

    A study on a disk that machines share has segments as well, beside its trials (``store.shared``).
    """
    return (folder / segments.FOLDER).is_dir() and not any((folder / name).exists() for name in (FILE, TRIALS))


def mirror_of(study: str | os.PathLike[str]) -> str | None:
    """Return the mirror that a study is given by, as a URL or a whole path; None if it is given otherwise.

    Example:
        >>> mirror_of("s3://bucket/studies/digits")
        's3://bucket/studies/digits'
        >>> mirror_of("digits") is None
        True
    """
    if is_url(study):
        return str(study)
    return str(Path(study).absolute()) if is_mirror(Path(study)) else None


def split(url: str) -> tuple[str, str]:
    """Return where the studies of a mirror are, and the name of this one.

    Example:
        >>> split("s3://bucket/studies/digits")
        ('s3://bucket/studies', 'digits')
    """
    place, _, name = url.rstrip("/").rpartition("/")
    return place if not place.endswith(":/") else f"{place}/", name


def bring(url: str, folder: Path, *, force: bool = False) -> None:
    """Make a study's folder what its mirror is, to go on with it here.

    Args:
        url: The study's mirror.
        folder: The folder, which need not exist. If there is a beginning of the same study, it is added to.
        force: Do it even if a driver that is alive writes to the mirror; that one stops when it notices.

    Raises:
        NotAStudyError: There is no study at the URL.
        StudyInUseError: A driver that is alive writes to the mirror, or works in the folder.
        StudyError: The mirror is damaged, or the folder holds something else.
    """
    remote = Remote(url)
    _see_whether_it_is_there(remote)
    lease = RemoteLease(remote)
    lease.take(force=force)
    try:
        contents = remote.all_segments()
        try:
            chain = segments.chain_in(contents)
        except ValueError as error:
            if _has_all_of(folder, contents):  # nothing is to be brought, and the next driver mends the mirror
                return
            raise segments.damaged(remote.url, error) from None
        _rebuild(chain, folder, url)
        _fetch_files(remote, chain.files, folder)
    finally:
        lease.release()


def studies_at(url: str) -> list[str]:
    """Return the URLs of the mirrors that lie in a place, by name; that of the place itself if it is a mirror.

    Raises:
        ConfigError: It is no place that can be used.
        StudyError: It cannot be reached.
    """
    remote = Remote(url)
    with _reaching(remote):
        if remote.names(segments.FOLDER):
            return [remote.url]
        places = [f"{remote.url}/{name}" for name in sorted(remote.folders())]
        return [place for place in places if Remote(place).names(segments.FOLDER)]


def copy(url: str, folder: Path, *, logs: bool = True) -> None:
    """Make a folder what a study's mirror is now, to look at. The mirror may be written to.

    Args:
        url: The study's mirror.
        folder: The folder, which need not exist.
        logs: Whether to bring the logs, and not its journal alone.

    Raises:
        NotAStudyError: There is no study at the URL.
        StudyError: The mirror cannot be reached, or is damaged.
    """
    remote = Remote(url)
    there = _told_of(remote, _see_whether_it_is_there(remote))
    if (folder / FILE).exists() and _was_copied(folder) == there:
        return
    with _reaching(remote):
        chain = remote.chain()
    if (folder / FILE).exists() and not _begins(folder, chain):  # another study had this address before
        for end in ("", "-wal", "-shm"):
            (folder / f"{FILE}{end}").unlink(missing_ok=True)
    _rebuild(chain, folder, url)
    (folder / COPY_OF).write_text(url)
    if logs:
        texts = {path: stored for path, stored in chain.files.items() if path.endswith((".txt", ".log"))}
        with contextlib.suppress(StudyError):  # who writes there replaces them
            _fetch_files(remote, texts, folder)
            (folder / COPIED).write_text(there)


def _see_whether_it_is_there(remote: Remote) -> list[str]:
    """Return the names of the files in which its journal is."""
    with _reaching(remote):
        found = remote.names(segments.FOLDER)
    if not found:
        raise NotAStudyError(
            f"{remote.url} is no mirror of a study: it has no segments. Give the mirror and the study's name, as in "
            "s3://bucket/studies/NAME."
        )
    return found


def _told_of(remote: Remote, names: Iterable[str]) -> str:
    """Return what is another text once anybody has shipped anything: which segments there are, and the last one's hash.

    That hash is also over a digest of all rows before it.
    """
    numbers = segments.numbers_in(names)
    with _reaching(remote):
        last = remote.head(segments.path_of(numbers[-1]), segments.HEAD) if numbers else b""
    return "\n".join([*map(segments.name_of, numbers), last.hex()])


def _was_copied(folder: Path) -> str:
    """Return what was told of a mirror when all of it was copied last."""
    with contextlib.suppress(OSError):
        return (folder / COPIED).read_text()
    return ""


@contextlib.contextmanager
def _reaching(remote: Remote) -> Iterator[None]:
    """Say which place cannot be reached, and why."""
    try:
        yield
    except EtudeError:
        raise
    except Exception as error:  # each kind of place has its own
        raise StudyError(
            f"The mirror {remote.url} cannot be reached: {type(error).__name__}: {error}. Look whether the address is "
            "right, and whether what it needs (credentials, an endpoint) is set here as it was there."
        ) from error


def _begins(folder: Path, chain: Chain) -> bool:
    with contextlib.closing(Journal.read(folder)) as journal:
        return is_beginning(digest_of(journal, chain.upto), chain)


def _has_all_of(folder: Path, contents: Mapping[str, bytes]) -> bool:
    if not (folder / FILE).exists():
        return False
    with contextlib.closing(Journal.read(folder)) as journal:
        return has_all_of(journal, contents)


def _rebuild(chain: Chain, folder: Path, url: str) -> None:
    if (folder / FILE).exists():
        journal = Journal.write(folder)
    else:
        journal = Journal.create(folder, {key: msgspec.json.decode(value) for key, value in chain.meta.items()})
    with contextlib.closing(journal):
        if not is_beginning(digest_of(journal, chain.upto), chain):
            raise StudyError(
                f"{folder} holds another study than the mirror {url}, or both went on for themselves. Nothing was "
                "changed. Move the folder away, or name another place with ETUDE_STUDIES=<folder>."
            )
        if journal.seq >= chain.upto:  # it has all of it: no need to be its driver, not even for a moment
            return
        journal.take(f"fetch-{uuid.uuid4().hex}")
        try:
            for segment in chain.segments:
                if segment.rows.upto > journal.seq:
                    journal.put(segment.rows.beyond(journal.seq), chain.meta)
        finally:
            journal.lease.release()


def _fetch_files(remote: Remote, files: Mapping[str, Stored], folder: Path) -> None:
    for path, stored in files.items():
        parts = PurePosixPath(path).parts
        if not parts or parts[0] not in OURS or ".." in parts:
            raise StudyError(
                f"The mirror {remote.url} names a file outside of the study, {path!r}: nobody of ours did."
            )
        local = folder / path
        with contextlib.suppress(FileNotFoundError):
            there = local.stat()
            if (there.st_size, there.st_mtime) == (stored.size, stored.mtime):
                continue
        local.parent.mkdir(parents=True, exist_ok=True)
        aside = local.with_name(local.name + PART)
        try:
            try:
                remote.get_file(f"{FILES}/{stored.sha256}", aside)
            except FileNotFoundError:
                raise _lost(remote, path, "it is missing") from None
            if sha256_of(aside) != stored.sha256:
                raise _lost(remote, path, "its hash is another")
            os.utime(aside, (stored.mtime, stored.mtime))
            aside.replace(local)
        finally:
            aside.unlink(missing_ok=True)


def _lost(remote: Remote, path: str, why: str) -> StudyError:
    return StudyError(
        f"The mirror {remote.url} is damaged: of the file {path}, {why}. The journal was brought; restore the mirror "
        "from a copy to get the rest."
    )
