"""A depot at a URL: states lie where every machine of a study reaches them, and not in the study's folder.

    s3://bucket/states/digits-9f86d081/00007/attempt-1/checkpoints/0-00005.weights.safetensors

What is written goes to a file of this machine first, and what is read comes to one. Both lie in the attempt's folder,
under names by which they are known for what they are, so that of a killed process nothing stays.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

from etude.core.errors import ConfigError, StateError
from etude.places.depot import Depot, FolderDepot, Found, is_whole, read_path
from etude.places.turns import Turn
from etude.places.url import UrlFolder

T = TypeVar("T")

AGAIN_S: Final = (1.0, 5.0, 15.0)
"""Seconds after which a state that could not be fetched is tried again: a trial that cannot have it starts over."""

WRITING: Final = "writing"
"""The file in a study's folder by which those who write states wait for each other."""

TRY_S: Final = 20.0
"""Seconds that the start of a study waits for the place of its states."""


class UrlDepot:
    """A depot at a URL.

    Args:
        url: Where it is.
        trials: The folder of all attempts on this machine.
    """

    everywhere = True

    def __init__(self, url: str, trials: Path) -> None:
        self._url = url
        self._passing = FolderDepot(trials)

    @functools.cached_property
    def _there(self) -> UrlFolder:
        # Made when it is needed, which is in the process that uses it: some libraries start threads for it.
        return UrlFolder(self._url, argument="states")

    def put(self, trial: int, name: str, write: Callable[[Path], T]) -> T:
        """Have a file written here, and bring it there; it is there when it is whole."""
        path, place = self._passing.path(trial, name), PurePosixPath(f"{trial:05d}", name)
        try:
            written = write(path)
            self._there.make(str(place.parent))
            self._there.put_file(str(place), path, aside=str(place.with_name(f".{place.name}.part")))
        finally:
            path.unlink(missing_ok=True)
        return written

    def turn(self) -> Turn:
        """Return a turn for which nobody waits: machines reach the place each by its own line."""
        return Turn(None)

    @contextlib.contextmanager
    def opened(self, trial: int, name: str) -> Iterator[Path]:
        """Fetch a file, and give its path for as long as it is needed.

        Raises:
            StateError: It is not there, or cannot be fetched.
        """
        path = self._passing.path(trial, name)
        path = path.with_name(f".tmp{secrets.token_hex(6)}")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._fetch(f"{trial:05d}/{name}", path)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _fetch(self, name: str, path: Path) -> None:
        for wait_s in (*AGAIN_S, None):
            try:
                self._there.get_file(name, path)
            except FileNotFoundError as error:
                raise StateError(f"{self._url}/{name} is not there.") from error
            except Exception as error:  # each kind of place has its own
                if wait_s is None:
                    told = f"{type(error).__name__}: {error}"
                    raise StateError(f"{self._url}/{name} cannot be fetched ({told}).") from error
                time.sleep(wait_s)
            else:
                return

    def remove(self, trial: int, name: str) -> None:
        """Remove a file, if it is there."""
        self._there.remove(f"{trial:05d}/{name}")

    def files(self) -> list[Found]:
        """Return all that is there, and what did not get that far."""
        return [*self._found(""), *self._on_their_way(self._passing.files())]

    def files_of(self, trial: int, attempt: int) -> list[Found]:
        """Return what is there of one attempt, and what did not get that far."""
        found = self._found(f"{trial:05d}/attempt-{attempt}/checkpoints")
        return [*found, *self._on_their_way(self._passing.files_of(trial, attempt))]

    def _found(self, folder: str) -> list[Found]:
        found = []
        for path, size_b in self._there.find(folder).items():
            if (read := read_path(path)) is not None:
                found.append(Found(*read, size_b, is_whole(path.rpartition("/")[2]), self))
        return found

    def _on_their_way(self, found: list[Found]) -> list[Found]:
        return [file._replace(whole=False) for file in found]


def depot_at(states: str, trials: Path) -> Depot:
    """Return the depot of a study.

    Args:
        states: Its URL; empty for that in the study's folder.
        trials: The folder of all attempts on this machine.
    """
    return UrlDepot(states, trials) if states else FolderDepot(trials, trials.parent / WRITING)


def try_out(url: str, *, given: str) -> None:
    """Make sure that states can be kept at a URL: a small file is written there, read and removed.

    Args:
        url: Where the states of a study are to lie.
        given: What the user said, for messages.

    Raises:
        ConfigError: They cannot, or nobody answers.
    """
    folder = UrlFolder(url, argument="states")
    if folder.in_memory:
        raise ConfigError(
            f"states={given!r} is in the memory of this process, where workers cannot reach it. Pass a folder, or a "
            "URL such as s3://bucket/states."
        )
    problems: list[BaseException] = []

    def attempt() -> None:
        name, content = f".try-{secrets.token_hex(4)}", secrets.token_bytes(8)
        try:
            folder.make("")
            folder.put(name, content)
            found = folder.get(name)
            folder.remove(name)
            if found != content:
                problems.append(OSError("what was written there is not what is read"))
        except BaseException as error:
            problems.append(error)

    # Libraries try for minutes to reach a host that does not answer, and nobody should wait for that.
    thread = threading.Thread(target=attempt, name="etude-try-states", daemon=True)
    thread.start()
    thread.join(TRY_S)
    if thread.is_alive():
        problems.append(TimeoutError(f"no answer within {TRY_S:g} s"))
    for problem in problems:
        raise ConfigError(
            f"states={given!r} cannot keep states: {type(problem).__name__}: {problem}. Look whether the address is "
            "right, and whether what it needs (credentials, an endpoint, the right to write and to remove) is set; or "
            "leave states= out, and they lie in the study's folder."
        ) from problem
