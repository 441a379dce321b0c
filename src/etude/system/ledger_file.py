"""The file that studies on one machine share: where it is, what is in it, and why it cannot be used where it cannot."""

from __future__ import annotations

import contextlib
import os
import platform
import sqlite3
import stat
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from etude.system.budget import Amount
from etude.system.sqlite_file import DAMAGED, Kind, Unusable, code, made, memory, opened, transaction
from etude.system.tenants import Process, Response, Tenant

T = TypeVar("T")

FILE: Final = "ledger.sqlite"
WAIT_S: Final = 0.25
"""Seconds to wait for others that write. A study's event loop stands still meanwhile."""
PATIENT_S: Final = 5.0
"""Seconds to wait for them before a study begins, and when it has ended."""
POLL_S: Final = 0.02
"""Seconds for which SQLite waits each time that it is asked; longer, and it would look seldom."""
KEPT: Final = 1000
"""Responses that are remembered, the newest ones."""
OLD_S: Final = 86_400.0
"""After so many seconds without a sign of life a tenant of another start of the machine is forgotten."""
KIND: Final = Kind(
    application_id=0x45744C64,  # "EtLd"
    version=1,
    schema=(
        "CREATE TABLE budgets (machine TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT",
        "CREATE TABLE tenants (id INTEGER PRIMARY KEY AUTOINCREMENT, machine TEXT NOT NULL, seen_s REAL NOT NULL, "
        "body TEXT NOT NULL) STRICT",
        "CREATE TABLE responses (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL) STRICT",
    ),
    touch="DELETE FROM budgets WHERE false",
)
MEND: Final = "Move it away, or remove it: nothing in it is needed when no study runs."


def default_path() -> Path:
    """Return where the user's ledger is: in the user's runtime folder, or in one of ours among temporary files.

    A process that was started without a login, as cron does, finds the runtime folder as well, and so the same file.
    """
    user = os.geteuid()
    for folder in (os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{user}"):
        with contextlib.suppress(OSError):
            if folder and os.stat(folder).st_uid == user:
                return Path(folder, "etude", FILE)
    return Path(tempfile.gettempdir(), f"etude-{user}", FILE)


@dataclass
class LedgerFile:
    """A ledger that can be read and written, be it in its file or in memory. It is used inside transactions.

    Attributes:
        path: The file that was meant.
        connection: To the file, or to what stands in for it in memory.
        machine: Of its tenants, those of this start of this machine are looked at.
        trouble: Why it is in memory; empty if it is in the file.
        inode: Of the file; 0 in memory.
    """

    path: Path
    connection: sqlite3.Connection
    machine: str
    trouble: str = ""
    inode: int = 0

    @property
    def is_there(self) -> bool:
        """Whether the file is still the one that was opened: a cleaner of temporary files may have been here."""
        with contextlib.suppress(OSError):
            return not self.inode or self.inode == os.stat(self.path).st_ino
        return False

    def transaction(self, *, wait_s: float | None = None) -> contextlib.AbstractContextManager[None]:
        """Return a block in which all is written or nothing; None to wait as long as a study's event loop may."""
        return transaction(self.connection, wait_s=WAIT_S if wait_s is None else wait_s)

    def tenants(self) -> list[Tenant]:
        """Return who is at work, in the order in which they came; maybe some who are gone."""
        rows = self.connection.execute("SELECT id, body FROM tenants WHERE machine = ? ORDER BY id", (self.machine,))
        return [replace(_read(body, Tenant), id=id_) for id_, body in rows.fetchall()]

    def add(self, tenant: Tenant) -> Tenant:
        """Write down who has come, and return it with the id that it gets."""
        row = (self.machine, tenant.seen_s, _written(tenant))
        found = self.connection.execute("INSERT INTO tenants (machine, seen_s, body) VALUES (?, ?, ?)", row)
        assert found.lastrowid is not None
        return replace(tenant, id=found.lastrowid)

    def update(self, tenant: Tenant) -> None:
        """Write down what has changed of one."""
        row = (tenant.seen_s, _written(tenant), tenant.id)
        self.connection.execute("UPDATE tenants SET seen_s = ?, body = ? WHERE id = ?", row)

    def remove(self, tenant: Tenant, *, now_s: float, died: bool) -> None:
        """Write down that one is gone."""
        self.connection.execute("DELETE FROM tenants WHERE id = ?", (tenant.id,))
        went = Response(tenant.name, tenant.submitted_s, tenant.began_s, now_s, died)
        self.connection.execute("INSERT INTO responses (body) VALUES (?)", (_written(went),))
        self.connection.execute("DELETE FROM responses WHERE id <= (SELECT max(id) FROM responses) - ?", (KEPT,))
        old = (self.machine, now_s - OLD_S)
        self.connection.execute("DELETE FROM tenants WHERE machine != ? AND seen_s < ?", old)

    def responses(self) -> list[Response]:
        """Return how long studies took, in the order in which they went."""
        rows = self.connection.execute("SELECT body FROM responses ORDER BY id").fetchall()
        return [_read(body, Response) for (body,) in rows]

    def budget(self) -> Amount | None:
        """Return what the machine has; None if nobody has said it."""
        row = self.connection.execute("SELECT body FROM budgets WHERE machine = ?", (self.machine,)).fetchone()
        return _read(row[0], Amount) if row else None

    def set_budget(self, budget: Amount) -> Amount:
        """Write down what the machine has."""
        self.connection.execute("REPLACE INTO budgets VALUES (?, ?)", (self.machine, _written(budget)))
        return budget


def open_ledger(path: Path | None) -> LedgerFile:
    """Return the ledger in a file, which is made if there is none; it never raises. One that is not ours is left alone.

    Args:
        path: The file; None for the user's.
    """
    where = Path(FILE) if path is None else path
    try:
        if path is None:
            where = default_path()
            _make_own(where.parent)
        where.parent.mkdir(parents=True, exist_ok=True)
        connection = opened(where, KIND, busy_s=POLL_S, wait_s=PATIENT_S)
        # Only a power cut can harm it then, after which nothing in it is needed. A sync would take 15 ms on a disk.
        connection.execute("PRAGMA synchronous = OFF")
        return LedgerFile(where, connection, machine(), inode=os.stat(where).st_ino)
    except (Unusable, OSError, sqlite3.Error) as error:
        return in_memory(where, told(where, error))


def in_memory(path: Path, trouble: str) -> LedgerFile:
    """Return what stands in for a file."""
    return LedgerFile(path, made(memory(), KIND), machine(), trouble)


def machine() -> str:
    """Return what tells this machine from others, and from what it was before it was started last."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()


def this_process() -> Process:
    """Return this process."""
    space = machine()
    with contextlib.suppress(OSError):
        space += os.readlink("/proc/self/ns/pid")
    return Process(space, os.getpid(), started(os.getpid()) or "")


def started(pid: int) -> str | None:
    """Return when a process started, in the kernel's own count; None if there is none, or it only waits to be reaped.

    Where the kernel does not tell, a process that exists gives ``"running"``.
    """
    if sys.platform == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] == "Z" else fields[19]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "running"


def told(path: Path, error: BaseException) -> str:
    """Return what is wrong with a file, why, and the mend."""
    here = "It was not touched. This study goes on alone, and may use cores and memory that others use as well."
    if isinstance(error, Unusable):
        return f"The ledger {path} {error}. {here} {error.mend}"
    if isinstance(error, sqlite3.Error) and code(error) in DAMAGED:
        return f"The ledger {path} is damaged, or another kind of file: {error}. {here} {MEND}"
    return (
        f"The ledger {path} cannot be used: {error}. {here} See to its permissions, to the space on its disk, and to "
        "who else has it open; or name another file."
    )


def _make_own(folder: Path) -> None:
    """Make a folder for this user alone; refuse one that others can write to."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise Unusable(
            f"lies in {folder}, which others can write to",
            "Make that folder yours alone (chmod 700), or remove it; or name another file.",
        )


def _written(value: Tenant | Response | Amount) -> str:
    return msgspec.json.encode(value).decode()


def _read(body: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise Unusable(f"is damaged: what is in it cannot be read ({error})", MEND) from None
