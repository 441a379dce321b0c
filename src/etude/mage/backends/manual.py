"""A person is asked: the question lies in a file, and the answer is put beside it."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from etude.core.clock import Clock, WallClock
from etude.core.errors import BackendError
from etude.mage.backends.capabilities import Capability
from etude.mage.backends.hosts import THIS_MACHINE
from etude.mage.backends.protocol import Backend, Reply, Request
from etude.mage.backends.wording import as_text

LOOK_EVERY_S: Final = 1.0
"""So often it is looked whether there is an answer."""


class Manual:
    """Writes a question into a file, and reads the answer from another one. Any chat window can give it.

    The files are named after the question, so the same question is asked once: if its answer is there it is taken.

    Args:
        folder: Where they lie.
        timeout_s: How long to wait for an answer; 0 to look once.
        clock: Tells the time.
        sleep: Waits for some seconds.
        say: Tells a person where the question is.
        capability: What whoever answers takes and gives, if that is known.
    """

    def __init__(
        self,
        folder: Path,
        *,
        timeout_s: float = 600.0,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
        say: Callable[[str], None] | None = None,
        capability: Capability | None = None,
    ) -> None:
        self.folder = folder
        self.name = f"manual:{folder}"
        self.host = THIS_MACHINE
        self.timeout_s = timeout_s
        self.capability = capability
        self._clock = clock or WallClock()
        self._sleep = sleep
        self._say = say
        self._variant = ""
        self._nth = 0

    def __repr__(self) -> str:
        return f"Manual({str(self.folder)!r})"

    def for_variant(self, variant: str, nth: int = 0) -> Backend:
        """Return it with files that are named after a variant, too, and after which answer is wanted."""
        other = Manual(
            self.folder,
            timeout_s=self.timeout_s,
            clock=self._clock,
            sleep=self._sleep,
            say=self._say,
            capability=self.capability,
        )
        other._variant, other._nth = variant, nth
        return other

    def paths(self, request: Request) -> tuple[Path, Path]:
        """Return where the question is, and where the answer is looked for."""
        digest = hashlib.sha256(self.sent(request)).hexdigest()[:12]
        again = f"again{self._nth}" if self._nth else ""
        stem = "-".join(part for part in (self._variant, digest, again) if part)
        return self.folder / f"{stem}.prompt.md", self.folder / f"{stem}.reply.md"

    def sent(self, request: Request) -> bytes:
        """Return what would be written down for whoever answers, byte for byte."""
        return as_text(request).encode("utf-8", "surrogatepass")

    def ask(self, request: Request) -> Reply:
        """Return the answer that a person has put there.

        Raises:
            BackendError: There is none yet; the question stays where it is, and waits.
        """
        question, answer = self.paths(request)
        self.folder.mkdir(parents=True, exist_ok=True)
        if (found := _content(answer)).strip():
            return self._reply(found, answer)
        if not question.exists():
            aside = question.with_suffix(".part")
            aside.write_bytes(self.sent(request))
            os.replace(aside, question)  # nobody reads half a question
        if self._say is not None:
            self._say(f"The question is in {question}. Put the answer into {answer}.")
        until_s, before = self._clock.now_s() + self.timeout_s, b""
        while self._clock.now_s() < until_s:
            self._sleep(min(LOOK_EVERY_S, self.timeout_s))
            found = _content(answer)
            if found.strip() and found == before:  # twice the same: nobody is writing it just now
                return self._reply(found, answer)
            before = found
        raise BackendError(
            f"There is no answer in {answer} yet. The question is in {question}; put the answer there and "
            "`resume`: nothing is asked twice.",
            code="timeout",
        )

    @staticmethod
    def _reply(content: bytes, path: Path) -> Reply:
        return Reply(text=content.decode("utf-8-sig", "replace"), request=path.name, model="a person", raw=content)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
