"""A file as its lines, so that what is put in keeps the file's own way: line ends, byte order mark, last line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from etude.mage.patch.refusals import refuse

BOM: Final = "\ufeff"
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")  # Python counts a lone CR as the end of a line, too
_END: Final = re.compile(r"\r\n|\n")


def lines_of(text: str) -> list[str]:
    r"""Return a text's lines with their ends, counted as Python counts them.

    Example:
        >>> lines_of("a\r\nb\n\nc")
        ['a\r\n', 'b\n', '\n', 'c']
    """
    return _LINE.findall(text)


def bare(line: str) -> str:
    """Return a line without its end."""
    return line.rstrip("\r\n")


def end_of(line: str) -> str:
    """Return how a line ends; empty for a last line without an end."""
    return line[len(bare(line)) :]


def usual_end(lines: Sequence[str]) -> str:
    """Return how most lines end."""
    ends = Counter(end_of(line) for line in lines if end_of(line))
    return ends.most_common(1)[0][0] if ends else "\n"


@dataclass(frozen=True)
class File:
    """A text file of a tree.

    Attributes:
        path: Its path.
        text: Its text, without byte order mark.
        marked: Whether it begins with a byte order mark.
    """

    path: str
    text: str
    marked: bool = False

    @cached_property
    def lines(self) -> list[str]:
        """Its lines, with their ends."""
        return lines_of(self.text)

    @cached_property
    def starts(self) -> list[int]:
        """Where each line begins in the text, and where the last one ends."""
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line))
        return starts

    @cached_property
    def end(self) -> str:
        """How its lines end."""
        return usual_end(self.lines)

    def line_at(self, offset: int) -> int:
        """Return the number of the line, from 1, in which a character stands."""
        return len(lines_of(self.text[:offset])) + (offset == 0 or self.text[offset - 1] in "\r\n")

    def content(self, text: str) -> bytes:
        """Return another text as this file's content."""
        return ((BOM if self.marked else "") + text).encode("utf-8")


def file_of(path: str, content: bytes) -> File:
    """Return a content as a text file.

    Raises:
        PatchRefused: It is no UTF-8, or it holds a zero byte as only binary files do.
    """
    if b"\0" in content:
        raise refuse(f"{path} holds a zero byte, so it is no text that could be changed; nothing applied.", found=path)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refuse(
            f"{path} is no UTF-8 (byte {error.start}), so it cannot be changed as a text; nothing applied.", found=path
        ) from None
    return File(path, text.removeprefix(BOM), text.startswith(BOM))


def fitted(text: str, old: Sequence[str], usual: str) -> str:
    """Return a text with the line ends of what it takes the place of.

    A line that was there before keeps its own end, others get the usual one. The last line ends as the last one did.

    Args:
        text: The text.
        old: The lines that go, with their ends.
        usual: How most lines of the file end.
    """
    ends = {bare(line): end_of(line) for line in old if end_of(line)}
    lines = [bare(line) for line in lines_of(_END.sub("\n", text))]
    whole = [line + ends.get(line, usual) for line in lines]
    if whole and old:
        whole[-1] = lines[-1] + (end_of(old[-1]) and ends.get(lines[-1], end_of(old[-1])))
    return "".join(whole)
