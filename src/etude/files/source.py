"""Texts that people wrote, places in them, and errors that show the place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from etude.core.errors import FileError
from etude.core.near import did_you_mean

LONGEST_LINE = 120
"""Characters of a line that an error shows."""


@dataclass(frozen=True, eq=False)
class Source:
    """A text that was read.

    Attributes:
        name: What it is called, for people.
        text: What stands in it.
        folder: What paths in it are relative to.
        argument: Which argument of the command line it is; 0 for a file.
        within: Where another file includes it; None if none does.
        shown: What is shown in place of the text, column for column; empty for the text itself.
    """

    name: str
    text: str
    folder: Path
    argument: int = 0
    within: Place | None = None
    shown: str = ""

    def line(self, number: int) -> str:
        """Return a line by its number, from 1; empty behind the end."""
        lines = (self.shown or self.text).split("\n")
        return lines[number - 1].rstrip("\r") if number <= len(lines) else ""


@dataclass(frozen=True)
class Place:
    """Where something stands.

    Attributes:
        source: In which text.
        line: Its line, from 1.
        column: Its first character, from 1.
        width: How many characters it has on that line.
    """

    source: Source
    line: int
    column: int
    width: int = 1

    def __str__(self) -> str:
        if self.source.argument:
            return f"argument {self.source.argument}, column {self.column}"
        if self.source.text == self.source.name:  # all of it is one word of the command line
            return self.source.name
        return f"{self.source.name}:{self.line}:{self.column}"

    def shown(self) -> str:
        """Return the line with a mark below what is meant, and who includes the file."""
        line = self.source.line(self.line).replace("\t", " ")
        begin = max(0, self.column - LONGEST_LINE // 2) if len(line) > LONGEST_LINE else 0
        cut = line[begin : begin + LONGEST_LINE]
        number = "" if self.source.argument else f"{self.line}"
        at = self.column - 1 - begin
        mark = "^" * max(1, min(self.width, len(cut) - at))
        told = f"  {number} | {cut}\n  {' ' * len(number)} | {' ' * at}{mark}"
        return told + (f"\n  included at {self.source.within}" if self.source.within is not None else "")


class Problems:
    """What is wrong with a file: all of it is told at once."""

    def __init__(self) -> None:
        self._found: list[tuple[Place, str]] = []

    def add(self, place: Place, message: str, *, missing: bool = False) -> None:
        """Keep in mind what is wrong at a place; once for each place, unless something is missing there."""
        if missing or all(str(place) != str(other) for other, _ in self._found):
            self._found.append((place, message))

    def fatal(self, place: Place, message: str) -> FileError:
        """Return the error for something behind which nothing can be read."""
        self.add(place, message)
        return self.error()

    def check(self) -> None:
        """Raise what was found, if anything was.

        Raises:
            FileError: Something was.
        """
        if self._found:
            raise self.error()

    def error(self) -> FileError:
        """Return what was found as one error, at the place of the first."""
        names = list(dict.fromkeys(place.source.name for place, _ in self._found))
        found = sorted(self._found, key=lambda one: (names.index(one[0].source.name), one[0].line, one[0].column))
        first = found[0][0]
        told = "\n".join(f"{place}: {message}\n{place.shown()}" for place, message in found)
        return FileError(told, file=first.source.name, line=first.line, column=first.column)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a question for a name that is none, where there is one like it; else nothing."""
    return f" {did_you_mean(name, known)}".rstrip()
