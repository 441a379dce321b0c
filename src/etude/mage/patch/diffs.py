"""A change of a tree as a unified diff, in git's own words: what is kept, shown, approved and applied again.

``diff_of`` and ``apply_diff`` are each other's inverse: for any two trees of texts,
``apply_diff(base, diff_of(base, new)) == new``. Nothing is searched for: every hunk stands where it says, and what it
takes away is there byte for byte, or all of it is refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from etude.mage.patch.lines import file_of
from etude.mage.patch.refusals import PatchRefused, refuse
from etude.mage.tree import Tree

CONTEXT: Final = 3
UNENDED: Final = "\\ No newline at end of file"
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@$")
_ESCAPES: Final = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_LETTERS: Final = {chr(code): f"\\{letter}" for letter, code in _ESCAPES.items()}


@dataclass(frozen=True)
class Hunk:
    """Lines that stand together.

    Attributes:
        old: The number of its first line before, from 1; of an empty range the line before it.
        new: Likewise, after.
        rows: Its lines, each with a blank, ``-`` or ``+`` in front, and with its line end, if it has one.
    """

    old: int
    new: int
    rows: tuple[str, ...]

    def side(self, sign: str) -> list[str]:
        """Return its lines before (``-``) or after (``+``)."""
        return [row[1:] for row in self.rows if row[0] in (" ", sign)]


@dataclass(frozen=True)
class FileDiff:
    """What becomes of a file.

    Attributes:
        path: The file.
        was: Whether it is there before.
        stays: Whether it is there after.
        hunks: What changes in it.
    """

    path: str
    was: bool = True
    stays: bool = True
    hunks: tuple[Hunk, ...] = ()

    def numbered(self, sign: str) -> list[tuple[int, str]]:
        """Return the lines that go (``-``) or come (``+``), each with its number, from 1."""
        found = []
        for hunk in self.hunks:
            number = hunk.old if sign == "-" else hunk.new
            for row in hunk.rows:
                if row[0] == sign:
                    found.append((number, row[1:]))
                number += row[0] in (" ", sign)
        return found


def diff_of(base: Tree, new: Tree) -> str:
    """Return the canonical diff that leads from one tree to another; empty if they are equal.

    Raises:
        PatchRefused: A file that changes is no text.
    """
    return "".join(_told(one) for one in _compared(base, new))


def apply_diff(tree: Tree, diff: str) -> Tree:
    """Return what a diff makes of a tree.

    Raises:
        PatchRefused: It is no diff of this tree.
    """
    changed: dict[str, bytes | None] = {}
    for one in read_diff(diff):
        if (one.path in tree) is not one.was or one.path in changed:
            there = "is there already" if one.path in tree else "is not there"
            raise refuse(f"The diff does not fit: {one.path} {there}; nothing applied.", found=one.path)
        content = _applied(tree.files.get(one.path, b""), one)
        if not one.stays and content:
            raise refuse(f"The diff does not take all of {one.path} away; nothing applied.", found=one.path)
        changed[one.path] = content if one.stays else None
    return tree.with_files(changed)


def reversed_diff(diff: str) -> str:
    """Return the diff that leads back."""
    return "".join(_told(_turned(one)) for one in read_diff(diff))


def files_of(diff: str) -> tuple[str, ...]:
    """Return the files that a diff is about."""
    return tuple(sorted(_header(line) for line in diff.split("\n") if line.startswith("diff --git ")))


def read_diff(diff: str) -> tuple[FileDiff, ...]:
    """Return a diff as values.

    Raises:
        PatchRefused: It is no diff as ``diff_of`` writes it.
    """
    rows = diff.split("\n")
    if rows.pop():
        raise refuse("The diff is cut off: its last line has no end; nothing applied.")
    try:
        return tuple(_read(rows))
    except (ValueError, IndexError) as error:
        raise refuse(f"The diff cannot be read ({error}); nothing applied.") from None


def _compared(base: Tree, new: Tree) -> Iterator[FileDiff]:
    for path in sorted({*base, *new}):
        before, after = base.files.get(path), new.files.get(path)
        if before == after:
            continue
        for content in (before, after):
            file_of(path, content or b"")  # refuses what is no text
        hunks = tuple(_hunks(_at_lf(before or b""), _at_lf(after or b"")))
        yield FileDiff(path, before is not None, after is not None, hunks)


def _at_lf(content: bytes) -> list[str]:
    """Return lines as git counts them: it knows one line end, so a CR is a character like others."""
    *lines, last = content.decode().split("\n")
    return [line + "\n" for line in lines] + ([last] if last else [])


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[Hunk]:
    together: list[tuple[int, int, int, int]] = []
    for change in _changes(old, new):
        if together and change[0] - together[-1][1] > 2 * CONTEXT:
            yield _hunk(old, new, together)
            together = []
        together.append(change)
    if together:
        yield _hunk(old, new, together)


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the ranges that differ. What is equal at both ends is set aside first: the rest is small, and so fast."""
    most = min(len(old), len(new))
    front = next((n for n in range(most) if old[n] != new[n]), most)
    back = next((n for n in range(most - front) if old[-1 - n] != new[-1 - n]), most - front)
    middle = difflib.SequenceMatcher(
        None, old[front : len(old) - back], new[front : len(new) - back], autojunk=False
    ).get_opcodes()
    for tag, a, b, c, d in middle:
        if tag != "equal":
            yield a + front, b + front, c + front, d + front


def _hunk(old: Sequence[str], new: Sequence[str], changes: Sequence[tuple[int, int, int, int]]) -> Hunk:
    first, last = max(changes[0][0] - CONTEXT, 0), min(changes[-1][1] + CONTEXT, len(old))
    rows, at = [], first
    for a, b, c, d in changes:
        rows += [f" {line}" for line in old[at:a]]
        rows += [f"-{line}" for line in old[a:b]]
        rows += [f"+{line}" for line in new[c:d]]
        at = b
    rows += [f" {line}" for line in old[at:last]]
    after = changes[0][2] - (changes[0][0] - first)
    return _numbered(first, after, tuple(rows))


def _numbered(old: int, new: int, rows: tuple[str, ...]) -> Hunk:
    hunk = Hunk(0, 0, rows)
    return Hunk(old + bool(hunk.side("-")), new + bool(hunk.side("+")), rows)


def _told(one: FileDiff) -> str:
    old, new = _quoted(f"a/{one.path}"), _quoted(f"b/{one.path}")
    told = [f"diff --git {old} {new}\n"]
    if not one.was:
        told.append("new file mode 100644\n")
    if not one.stays:
        told.append("deleted file mode 100644\n")
    if one.hunks:
        tab = "\t" if " " in one.path else ""  # as git does, so that nobody takes the name's end for a date
        told.append(f"--- {old + tab if one.was else '/dev/null'}\n")
        told.append(f"+++ {new + tab if one.stays else '/dev/null'}\n")
    for hunk in one.hunks:
        told.append(f"@@ -{_range(hunk.old, hunk.side('-'))} +{_range(hunk.new, hunk.side('+'))} @@\n")
        told += [row if row.endswith("\n") else f"{row}\n{UNENDED}\n" for row in hunk.rows]
    return "".join(told)


def _range(start: int, lines: Sequence[str]) -> str:
    return f"{start}" if len(lines) == 1 else f"{start},{len(lines)}"


def _quoted(name: str) -> str:
    """Return a name as git writes it: in quotes, if a character in it is not plain ASCII, those as numbers."""
    if all(" " <= c <= "~" and c not in _LETTERS for c in name):
        return name
    return '"' + "".join(_LETTERS.get(chr(byte)) or _octal(byte) for byte in name.encode("utf-8")) + '"'


def _octal(byte: int) -> str:
    return chr(byte) if " " <= chr(byte) <= "~" else f"\\{byte:03o}"


def _unquoted(name: str) -> str:
    if not name.startswith('"'):
        return name
    found = bytearray()
    for octal, letter, plain in re.findall(r"\\([0-7]{3})|\\(.)|([^\\])", name[1:-1]):
        found += bytes([int(octal, 8)]) if octal else bytes([_ESCAPES[letter]]) if letter else plain.encode("utf-8")
    return found.decode("utf-8")


def _header(line: str) -> str:
    """Return the path of a line ``diff --git a/PATH b/PATH``: the same twice, so the middle is known."""
    names = line.removeprefix("diff --git ")
    half = (len(names) - 1) // 2
    old, new = _unquoted(names[:half]), _unquoted(names[half + 1 :])
    if names[half] != " " or old[:2] != "a/" or new[:2] != "b/" or old[2:] != new[2:]:
        raise ValueError(f"no header: {line!r}")
    return old[2:]


def _read(rows: list[str]) -> Iterator[FileDiff]:
    at = 0
    while at < len(rows):
        one = FileDiff(_header(rows[at]))
        at += 1
        if at < len(rows) and rows[at].startswith("new file mode "):
            one, at = replace(one, was=False), at + 1
        elif at < len(rows) and rows[at].startswith("deleted file mode "):
            one, at = replace(one, stays=False), at + 1
        hunks: list[Hunk] = []
        if at < len(rows) and rows[at].startswith("--- "):
            if not rows[at + 1].startswith("+++ "):
                raise ValueError(f"no second name: {rows[at + 1]!r}")
            at += 2
            while at < len(rows) and rows[at].startswith("@@ "):
                hunk, at = _read_hunk(rows, at)
                hunks.append(hunk)
        yield replace(one, hunks=tuple(hunks))


def _read_hunk(rows: list[str], at: int) -> tuple[Hunk, int]:
    match = _HUNK.match(rows[at])
    if match is None:
        raise ValueError(f"no hunk: {rows[at]!r}")
    old, before, new, after = (int(part) if part is not None else 1 for part in match.groups())
    found: list[str] = []
    while before or after or (at + 1 < len(rows) and rows[at + 1] == UNENDED):
        at += 1
        row = rows[at]
        if row == UNENDED and found:
            found[-1] = found[-1][:-1]
            continue
        if row[:1] not in (" ", "-", "+") or min(before - (row[0] != "+"), after - (row[0] != "-")) < 0:
            raise ValueError(f"no line of a hunk: {row!r}")
        before, after = before - (row[0] != "+"), after - (row[0] != "-")
        found.append(f"{row}\n")
    return Hunk(old, new, tuple(found)), at + 1


def _applied(content: bytes, one: FileDiff) -> bytes:
    old, new, at = _at_lf(content), [], 0
    for hunk in one.hunks:
        goes = hunk.side("-")
        first = hunk.old - bool(goes)
        if first < at or old[first : first + len(goes)] != goes:
            raise _misfit(one.path, hunk)
        new += old[at:first]
        if len(new) + bool(hunk.side("+")) != hunk.new:
            raise _misfit(one.path, hunk)
        new += hunk.side("+")
        at = first + len(goes)
    new += old[at:]
    if any(not line.endswith("\n") for line in new[:-1]):
        raise refuse(f"The diff lets two lines of {one.path} run into one; nothing applied.", found=one.path)
    return "".join(new).encode("utf-8")


def _misfit(path: str, hunk: Hunk) -> PatchRefused:
    return refuse(
        f"The diff does not fit {path} at line {hunk.old}; nothing applied. It was made of another base.",
        claim="a diff applies to the base that it was made of",
        found=path,
    )


def _turned(one: FileDiff) -> FileDiff:
    turned = [Hunk(hunk.new, hunk.old, tuple(_turned_rows(hunk.rows))) for hunk in one.hunks]
    return FileDiff(one.path, one.stays, one.was, tuple(turned))


def _turned_rows(rows: Sequence[str]) -> Iterator[str]:
    """Yield rows with their signs exchanged; of each change what goes still stands before what comes."""
    goes: list[str] = []
    comes: list[str] = []
    for row in (*rows, " "):
        if row[0] == " ":
            yield from (*goes, *comes)
            goes, comes = [], []
        if row != " ":
            if row[0] == " ":
                yield row
            else:
                (goes if row[0] == "+" else comes).append(("-" if row[0] == "+" else "+") + row[1:])
