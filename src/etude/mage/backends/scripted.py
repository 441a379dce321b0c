"""Answers that were written beforehand: for tests, examples and classes. They are authored, and say so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from etude.core.errors import BackendError, ConfigError
from etude.mage.backends.caching import digest_of_question
from etude.mage.backends.hosts import THIS_MACHINE
from etude.mage.backends.protocol import Backend, Reply, Request, StopReason
from etude.mage.backends.wording import as_text

AUTHORED: Final = "authored"
"""The name of the model: there is none, and no success rate of one can be read off."""

STOPS: Final = {"cut-off": StopReason.CUT_OFF, "refused": StopReason.REFUSED, "other": StopReason.OTHER}
"""What stands before ``.md`` in the name of an answer that did not end by itself: ``2.cut-off.md``."""


class Scripted:
    """Gives the answers that lie in a folder, one after the other.

    A variant's own are in a folder of its name: ``without-conv2/1.md``, ``without-conv2/2.md``. What has none there
    gets those beside it, in the order of their names. The same question gets the same answer again, and of a
    conversation that goes on, what was answered before counts, so that a study may be resumed.

    Args:
        folder: Where they are.

    Raises:
        ConfigError: There is no such folder, or no answer in it.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir() or not any(folder.rglob("*.md")):
            raise ConfigError(f"{folder} has no answers. Put them there as 1.md, 2.md, or VARIANT/1.md, VARIANT/2.md.")
        self.folder = folder
        self.name = f"scripted:{folder}"
        self.host = THIS_MACHINE
        self._variant = ""
        self._nth = 0
        self._given: dict[str, list[str]] = {}

    def __repr__(self) -> str:
        return f"Scripted({str(self.folder)!r})"

    def for_variant(self, variant: str, nth: int = 0) -> Backend:
        """Return it as it answers for a variant; what it has given is remembered together.

        Args:
            variant: The variant.
            nth: Which of several answers to the same question is wanted: another one than before is the next one.
        """
        other = Scripted(self.folder)
        other._variant, other._nth, other._given = variant, nth, self._given
        return other

    def ask(self, request: Request) -> Reply:
        """Return the next answer.

        Raises:
            BackendError: There are no more.
        """
        own = self.folder / self._variant if self._variant else self.folder
        where = own if own.is_dir() else self.folder
        files = sorted(where.glob("*.md"), key=_number)
        given = self._given.setdefault(str(where), [])
        digest = digest_of_question(self, request, variant=self._variant, nth=self._nth)
        if digest not in given:
            before = sum(message.role == "assistant" for message in request.messages)
            given.extend(f"before this run {n}" for n in range(before - len(given)))
            given.append(digest)
        at = given.index(digest)
        if at >= len(files):
            raise BackendError(
                f"{where} has {len(files)} answers, and number {at + 1} was asked for. They are authored: "
                f"write another one. The question ends with:\n{as_text(request)[-400:]}",
                code="bad request",
            )
        content = files[at].read_bytes()
        kind = files[at].stem.rpartition(".")[2]
        return Reply(
            text=content.decode("utf-8"),
            stop=STOPS.get(kind, StopReason.COMPLETE),
            request=f"{AUTHORED} {files[at].relative_to(self.folder)}",
            model=AUTHORED,
            raw=content,
        )


def _number(path: Path) -> tuple[tuple[int, str], ...]:
    """Return a key by which 10 comes after 9."""
    parts = re.split(r"(\d+)", path.name)
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)
