"""What the user has marked in the sources: components, and hints in plain words."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from etude.mage.values import Value

NONE: Final = "none"
"""``with=none``: nothing goes along. It is an answer, where saying nothing is a question."""


class Mark(StrEnum):
    """What a mark says."""

    COMPONENT = "component"
    HINT = "hint"


class Annotation(Value, frozen=True):
    """A mark in a source.

    Attributes:
        mark: What it says.
        file: In which file of the tree.
        lines: Its own first and last line, from 1.
        statement: First and last line of what it belongs to: the statement that it stands behind or above, of a hint
            the next one. None if there is none.
        scope: Qualified name of the definition around that, such as ``Net.__init__``; empty at module level.
        names: What it is called: ``conv2`` of ``self.conv2 = ...``, or what ``name=`` says.
        marked: What the statement makes, sets or calls, whatever that is called.
        along: What goes with it, by ``with=``; ``none`` if it says that nothing does.
        text: The mark as it stands there; of a hint, its lines without comment signs.
        digest: That of the file.
    """

    mark: Mark
    file: str
    lines: tuple[int, int]
    statement: tuple[int, int] | None = None
    scope: str = ""
    names: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    along: tuple[str, ...] = ()
    text: str = ""
    digest: str = ""

    @property
    def every_name(self) -> tuple[str, ...]:
        """By what it may be meant: what it is called, and what is marked."""
        return tuple(dict.fromkeys((*self.names, *self.marked)))


class Remark(Value, frozen=True):
    """Something about a source that its author should know.

    Attributes:
        file: The file.
        line: The line, from 1.
        text: What is the matter, and the mend.
    """

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}: Line {self.line}: {self.text}"
