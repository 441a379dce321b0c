"""Waits of a rank for the others: they end when all have come, or with an error once some of them never can.

A wait that lasts some seconds is said to the others, through their store. Rank 0, which serves it, reads what all of
them say, and ends the attempt at a standstill. A wait that ends sooner costs no message, and no thread.

The store is asked from a thread: it may be gone, or its process stand still, and then it does not answer. The thread
lives while this rank waits, so it is in nobody's way, and forks meet none.
"""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, Protocol

from etude.core.errors import RanksError
from etude.frameworks.standstill import Awaited, Waiting, has_moved, is_standstill, last_heard, told

LOOK_S: Final = 2.0
"""How often a rank that waits says so, in seconds, and rank 0 looks whether all of them do."""

ASKED: Final = 64
"""So many ranks are asked for, at most, when one has waited too long."""

NOT_THEIRS: Final = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    "<frozen",
)
"""How the names of files begin whose code is not the user's."""


class Work(Protocol):
    """Something that is under way between the ranks, as torch has it."""

    def wait(self, timeout: timedelta = ..., /) -> Any:
        """Wait for it; it is still under way if it does not come in time."""
        ...

    def is_completed(self) -> bool:
        """Whether it is over, well or not."""
        ...


class Store(Protocol):
    """Texts by name that all ranks can read."""

    def set(self, key: str, value: str, /) -> Any:
        """Put a text there."""
        ...

    def check(self, keys: list[str], /) -> bool:
        """Whether all of them are there."""
        ...

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        """Return them."""
        ...


class Waits:
    """The waits of one rank.

    Args:
        rank: Its number.
        ranks: How many there are.
        store: What they say it through.
        look_s: How often a rank that waits says so, and rank 0 looks, in seconds.
    """

    def __init__(self, rank: int, ranks: int, store: Store, *, look_s: float = LOOK_S) -> None:
        self._rank = rank
        self._store = store
        self._look_s = look_s
        self._look = timedelta(seconds=look_s)
        self._keys = [f"wait of rank {number}" for number in range(ranks)]
        self._thread: threading.Thread | None = None
        self._main = threading.get_ident()
        self._begun: Counter[str] = Counter()
        self._nth = 0
        self._said = 0
        self._before: list[Waiting] | None = None
        self._found: list[Waiting] | None = None  # all of them, at a standstill

    def begin(self, kind: str, at: str = "") -> Awaited:
        """Note that this rank begins one more of a kind of things that all ranks take part in; it waits for it later.

        Args:
            kind: Counted for itself; all ranks begin equally many.
            at: What users call it; left out, the kind and the number.
        """
        self._begun[kind] += 1
        number = self._begun[kind]
        return Awaited(kind, number, at or f"{kind} {number}")

    def wait(self, work: Work, awaited: Awaited) -> None:
        """Wait for something that all ranks take part in.

        Raises:
            RanksError: Some of them will never begin it, since they wait for others.
            RuntimeError: It failed.
        """
        self._nth += 1
        said = self._said
        while True:
            try:
                work.wait(self._look)
                break
            except RuntimeError:
                if work.is_completed():
                    work.wait()  # it may have come just now
                    break
            self._say(awaited)
        if self._said > said:
            self._ask(lambda: self._store.set(self._keys[self._rank], ""), patient=False)

    def last_heard(self) -> str:
        """Return in words where ranks were when they were last heard; empty if nobody knows."""
        found: dict[int, Waiting | None] = {}

        def ask() -> None:
            for rank, key in enumerate(self._keys[:ASKED]):
                [text] = self._store.multi_get([key]) if self._store.check([key]) else [b""]
                found[rank] = Waiting.unpacked(text.decode()) if text else None

        if not self._said:
            return ""
        self._ask(ask)
        return last_heard(dict(found))

    def _say(self, awaited: Awaited) -> None:
        """Say where this rank waits; rank 0 looks where all do."""
        if self._found is None and not self._is_asking:
            self._said += 1
            waiting = Waiting(awaited, users_line(self._main), self._nth, self._said, dict(self._begun))
            self._ask(lambda: self._meet(waiting))
        if self._found is not None:
            raise RanksError(told(self._found))

    def _meet(self, waiting: Waiting) -> None:
        self._store.set(self._keys[self._rank], waiting.packed())
        if self._rank or not self._store.check(self._keys):
            return
        texts = self._store.multi_get(self._keys)
        if not all(texts):
            self._before = None
            return
        now = [Waiting.unpacked(text.decode()) for text in texts]
        if self._before is None or has_moved(self._before, now):
            self._before = now
        elif is_standstill(self._before, now):
            self._found = now

    @property
    def _is_asking(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _ask(self, ask: Callable[[], object], *, patient: bool = True) -> None:
        """Have a thread ask the store something, and await it for a while; one that does not answer is left alone."""
        if self._is_asking:
            return

        def work() -> None:
            with contextlib.suppress(RuntimeError):  # it is gone
                ask()

        self._thread = threading.Thread(target=work, name="etude-waits", daemon=True)
        self._thread.start()
        if patient:
            self._thread.join(self._look_s)


def users_line(thread: int) -> str:
    """Return in which line of the user's own code a thread is, such as ``"train.py:33"``; empty if in none."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(NOT_THEIRS):
            return f"{os.path.basename(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
