"""What the users of a study should be told whatever else they are shown: kept, and said once."""

from __future__ import annotations

import contextlib
import sys
import threading


class Notes:
    """What should be told of a study, in sentences, each once.

    Whoever watches a study takes them with ``unsaid``, and says them where they do not disturb the picture. As long as
    nobody has, they go to standard error at once: a study that nobody watches must not lose pages in silence.

    Attributes:
        texts: All of them, the oldest first.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._unsaid: list[str] | None = None
        self._lock = threading.Lock()

    def add(self, text: str) -> None:
        """Take one in; any thread may."""
        with self._lock:
            if text in self.texts:
                return
            self.texts.append(text)
            if self._unsaid is not None:
                self._unsaid.append(text)
                return
        say(text)

    def unsaid(self) -> list[str]:
        """Return those that were not said yet, for somebody who says them now and will ask again."""
        with self._lock:
            unsaid, self._unsaid = self._unsaid or [], []
        return unsaid


def say(text: str) -> None:
    """Write a line to standard error; if that is closed, nobody can be told, and nothing ends for it."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)  # noqa: T201
