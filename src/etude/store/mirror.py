"""A study's mirror: what is new in its folder goes to a place elsewhere every few seconds, and when a trial ends.

A thread of its own does it, never the driver's loop. It reads the journal as any reader does, so it ships what is
committed and nothing else; and it only ever writes files that are new there, except for the lease. First the files of
a trial, then the segment that speaks of them, then a look at the lease: only if that is still ours does the driver
hear what the mirror has, and tell workers that they may forget. A mirror that is out of reach holds up nobody but them.

A place may vanish, be emptied, or come back as it was an hour ago. So the thread looks before it writes, too, at the
lease and at the last segment. What another driver did ends the study; what nobody did is a mirror out of reach, and
the lease is taken anew, the segments are compared with the journal, and what is gone is shipped again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from etude.core.errors import ConfigError, StudyError
from etude.core.text import count
from etude.store import segments
from etude.store.changed_files import Looker
from etude.store.journal import Journal
from etude.store.remote import Remote, sha256_of
from etude.store.remote_lease import RemoteLease
from etude.store.rows import Digest, Rows
from etude.store.same_study import MOST, digest_of, standing
from etude.store.segments import Segment, Stored

EVERY_S: Final = 3.0
"""Seconds between two shipments while nothing ends."""

BACKOFF_S: Final = 1.0
LONGEST_BACKOFF_S: Final = 30.0
ATTACH_S: Final = 20.0
"""Seconds that the start of a study waits to hear where its mirror stands."""

LAST_S: Final = 30.0
"""Seconds that the end of a study waits for the last shipment."""

GONE_S: Final = 10.0
"""Seconds for which a place that is gone may come back, before it is made anew: a folder renamed, a disk taken away."""

FILES: Final = "files"

REFUSALS: Final = (StudyError, ConfigError)
"""What no waiting mends; anything else is a mirror that cannot be reached just now."""


class Mirror:
    """Keeps a study's mirror up to date.

    Args:
        folder: The study's folder.
        remote: Where the mirror is.
        every_s: Seconds between two shipments while nothing ends.
        files: Whether logs and kept files are shipped beside the journal.

    Attributes:
        upto: The last fact that the mirror has, and that counts there; 0 while what it had is gone.
    """

    def __init__(self, folder: Path, remote: Remote, *, every_s: float = EVERY_S, files: bool = True) -> None:
        self.folder = folder
        self.remote = remote
        self.upto = 0
        self._every_s = every_s
        self._looker = Looker(folder) if files else None
        self._lease = RemoteLease(remote)
        self._journal: Journal | None = None
        self._digest = Digest()
        self._last: segments.Number | None = None
        self._meta: dict[str, str] = {}
        self._files: dict[str, Stored] = {}
        self._garbage: set[str] = set()
        self._attached = False
        self._since = 0  # our first epoch
        self._gone_at: float | None = None
        self._unreachable = 0  # times in a row
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._note: Callable[[str], None] = lambda text: None
        self._fail: Callable[[BaseException], None] = lambda error: None
        self._shipped: Callable[[], None] = lambda: None
        self._attaching: threading.Thread | None = None
        self._thread = threading.Thread(target=self._work, name="etude-mirror", daemon=True)

    # --- for the driver's threads -----------------------------------------------------------------

    def attach(self, note: Callable[[str], None]) -> None:
        """Take the mirror's lease, and find out where it stands. If it cannot be reached, that is done later.

        Args:
            note: Takes what users should be told, from any thread.

        Raises:
            StudyInUseError: Another driver writes to it.
            StudyError: It is another study's, it has more than the folder has, or it is damaged.
        """
        self._note = note
        problems: list[BaseException] = []

        def attach() -> None:
            try:
                self._attach(last=False)
            except BaseException as error:
                problems.append(error)

        # Libraries try for minutes to reach a host that does not answer, and nobody should wait for that.
        self._attaching = threading.Thread(target=attach, name="etude-mirror-attach", daemon=True)
        self._attaching.start()
        self._attaching.join(ATTACH_S)
        if self._attaching.is_alive():
            self._say_unreachable(TimeoutError(f"no answer within {ATTACH_S:g} s"))
        for problem in problems:
            if isinstance(problem, REFUSALS) or not isinstance(problem, Exception):
                raise problem
            self._say_unreachable(problem)

    def start(self, *, fail: Callable[[BaseException], None], shipped: Callable[[], None]) -> None:
        """Keep the mirror up to date from now on.

        Args:
            fail: Takes the reason why the study cannot go on with this mirror, from any thread.
            shipped: Is told when ``upto`` has grown, likewise.
        """
        self._fail, self._shipped = fail, shipped
        self._thread.start()

    def wake(self) -> None:
        """Ship what is new at once: a trial has ended."""
        self._wake.set()

    def close(self, upto: int) -> None:
        """Ship what is left, say goodbye, and say what could not be shipped.

        Args:
            upto: The last fact that there is.
        """
        self._closing.set()
        self._wake.set()
        if self._thread.ident is None:  # it never came to that
            with contextlib.suppress(Exception):
                self._lease.release()
            return
        self._thread.join(LAST_S)
        if self.upto < upto:
            missing = count(upto - self.upto, "fact")
            self._note(
                f"The mirror {self.remote.url} has not got everything: the last {missing} of {upto} are in "
                f"{self.folder} alone. The same call ships them."
            )

    # --- the thread -------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            if self._attaching is not None:
                self._attaching.join()
            self._ship_until_closed()
        except BaseException as error:  # a study must not go on believing that it has a mirror
            self._fail(error)
        finally:
            if self._journal is not None:
                self._journal.close()

    def _ship_until_closed(self) -> None:
        next_beat = time.monotonic()
        while True:
            if not self._closing.is_set():
                self._wake.wait(max(0.0, next_beat - time.monotonic()))
            self._wake.clear()
            last = self._closing.is_set()
            beat = last or time.monotonic() >= next_beat
            self._try_to_ship(beat=beat, last=last)
            if last:
                return
            if beat:
                next_beat = time.monotonic() + self._every_s
            if self._unreachable:
                doubled = min(self._unreachable - 1, 10)  # of a mirror that is gone for hours, no power is taken
                self._closing.wait(min(LONGEST_BACKOFF_S, BACKOFF_S * 2.0**doubled))
                self._wake.set()

    def _try_to_ship(self, *, beat: bool, last: bool) -> None:
        try:
            while self._ship(beat=beat, last=last):
                pass
            if last:
                self._lease.release()
        except REFUSALS:
            raise
        except Exception as error:
            self._say_unreachable(error)
            return
        if self._unreachable:
            self._note(f"The mirror {self.remote.url} is reached again, and has everything up to now.")
        self._unreachable = 0

    def _say_unreachable(self, error: Exception) -> None:
        self._unreachable += 1
        if self._unreachable == 1:
            self._note(
                f"The mirror {self.remote.url} cannot be reached ({type(error).__name__}: {error}). The study goes on "
                "without it, and it is tried again."
            )

    def _ship(self, *, beat: bool, last: bool) -> bool:
        """Ship one segment of what is new; return whether there is more."""
        if self._attached:
            self._see_whether_it_stands(last=last)
        if attached_anew := not self._attached:
            self._attach(last=last)
            beat = True
        journal = self._opened()
        rows = journal.rows(self._digest.upto, MOST)
        recorded = journal.recorded() if beat else {}
        meta = {key: value for key, value in recorded.items() if self._meta.get(key) != value}
        files = self._ship_files(rows, look_at_all=beat)
        if rows.upto > rows.after or meta or files:
            self._write(rows, meta, files)
            self._lease.check()
        elif attached_anew:
            self._lease.check()
        self._clear()  # only now: who took over meanwhile may need what we do not
        if beat:
            self._lease.beat()
        if self.upto != self._digest.upto:
            self.upto = self._digest.upto
            self._shipped()
        return rows.upto - rows.after == MOST

    def _write(self, rows: Rows, meta: dict[str, str], files: dict[str, Stored]) -> None:
        epoch = self._lease.epoch
        number = (epoch, self._last[1] + 1 if self._last is not None and self._last[0] == epoch else 1)
        digest = self._digest.copy()
        segment = Segment(number, self._last, rows, digest.feed(rows), meta, files)
        self.remote.put(segments.path_of(number), segments.pack(segment))
        self._digest, self._last = digest, number
        self._meta |= meta
        for path, stored in files.items():
            if (before := self._files.get(path)) is not None:
                self._garbage.add(before.sha256)
            self._files[path] = stored

    def _opened(self) -> Journal:
        if self._journal is None:
            self._journal = Journal.read(self.folder)
        return self._journal

    # --- taking it up -----------------------------------------------------------------------------

    def _attach(self, *, last: bool) -> None:
        """Take the lease, and find out where the mirror stands."""
        if not last and self._may_come_back():
            raise FileNotFoundError("the place is gone")
        epoch = self._lease.take()
        try:
            contents = self.remote.all_segments()
            with contextlib.closing(Journal.read(self.folder)) as journal:
                where = standing(journal, contents, folder=self.folder, url=self.remote.url, since=self._since)
                digest = digest_of(journal, where.chain.upto)
            there = set(self.remote.names(FILES)) if where.chain.files else set()
        except BaseException:
            with contextlib.suppress(Exception):
                self._lease.release()
            raise
        if where.broken:
            self._note(
                f"The mirror {self.remote.url} was damaged ({where.broken}). All of it is shipped again from "
                f"{self.folder}."
            )
        self._digest, self._last, self._meta = digest, where.chain.last, where.chain.meta
        self._files = {path: stored for path, stored in where.chain.files.items() if stored.sha256 in there}
        if self._looker is not None:
            self.remote.make(FILES)
            self._looker.look_at_everything()
        self._attached, self._gone_at, self._since = True, None, self._since or epoch

    def _may_come_back(self) -> bool:
        return self._gone_at is not None and time.monotonic() - self._gone_at < GONE_S and not self.remote.names()

    def _see_whether_it_stands(self, *, last: bool) -> None:
        """Make sure, before anything is written, that the mirror is what we left.

        Raises:
            StudyInUseError: Another driver has taken it over.
            FileNotFoundError: Something of it is gone, and there is time to find out later how much.
        """
        try:
            self._lease.check()
            if self._last is not None and not self.remote.has(name := segments.path_of(self._last)):
                raise FileNotFoundError(f"{name}, which was there, is gone")
        except FileNotFoundError:
            self._attached, self.upto, self._gone_at = False, 0, time.monotonic()
            if not last:
                raise

    # --- files ------------------------------------------------------------------------------------

    def _ship_files(self, rows: Rows, *, look_at_all: bool) -> dict[str, Stored]:
        if self._looker is None:
            return {}
        wanted = self._looker.look(rows, look_at_all=look_at_all)
        shipped: dict[str, Stored] = {}
        for path in wanted:
            local = self.folder / path
            with contextlib.suppress(FileNotFoundError):  # it was there a moment ago
                before, stored = local.stat(), self._files.get(path)
                if stored is not None and (stored.size, stored.mtime) == (before.st_size, before.st_mtime):
                    continue
                digest = sha256_of(local)
                if stored is None or stored.sha256 != digest:
                    self.remote.put_file(f"{FILES}/{digest}", local)
                after = local.stat()
                if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
                    shipped[path] = Stored(digest, before.st_size, before.st_mtime)
                else:  # somebody wrote to it meanwhile: what is there now has another name
                    self._garbage.add(digest)
        self._looker.looked()
        return shipped

    def _clear(self) -> None:
        """Remove contents that no file has any more."""
        if not self._garbage:
            return
        for digest in self._garbage - {stored.sha256 for stored in self._files.values()}:
            self.remote.remove(f"{FILES}/{digest}")
        self._garbage.clear()
