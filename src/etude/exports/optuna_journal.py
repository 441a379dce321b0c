"""A journal file of Optuna's, to which an export is appended in one piece: all of it is there, or nothing is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optuna.storages.journal import BaseJournalBackend, JournalFileBackend

from etude.core.errors import ConfigError


class Buffered(BaseJournalBackend):
    """Stands before a journal file, and keeps what is written until ``flush``.

    Otherwise each trial is a write of its own, which waits for the disk.
    """

    def __init__(self, inner: BaseJournalBackend, path: Path) -> None:
        self._inner = inner
        self._path = path
        try:
            self._logs = list(inner.read_logs(0))
        except (ValueError, UnicodeDecodeError, OSError) as error:  # JSON's errors are among them
            raise _foreign(path) from error
        if not all(isinstance(log, dict) and "op_code" in log for log in self._logs) or _lines(path) > len(self._logs):
            raise _foreign(path)
        self._begun = len(self._logs)

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Yield what is in the file, and what is to be."""
        yield from self._logs[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Keep what is to be written, in the form in which it would be read again."""
        self._logs += json.loads(json.dumps(logs))

    def flush(self) -> None:
        """Append all of it.

        Raises:
            ConfigError: Somebody else wrote there meanwhile, so that numbers of studies may mean others; or the disk
                refuses.
        """
        if any(True for _ in self._inner.read_logs(self._begun)):
            raise ConfigError(
                f"{self._path} was written by another process in the meantime, and nothing was added. Export again."
            )
        try:
            self._inner.append_logs(self._logs[self._begun :])
        except OSError as error:
            raise ConfigError(
                f"{self._path} cannot be written: {error.strerror}. Pass another place, into=...."
            ) from error


def opened(path: Path) -> JournalFileBackend:
    """Return a journal file, a new one if there is none.

    Raises:
        ConfigError: It cannot be written.
    """
    try:
        return JournalFileBackend(str(path))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Pass another place, into=....") from error


def _lines(path: Path) -> int:
    """Return how many lines a file has: Optuna passes over a last one that it cannot read, and fails at the next."""
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _foreign(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} is no journal file of Optuna's that can be read, and no database. Pass another path; one that ends "
        "in .db or .sqlite is a database."
    )
