"""Where a block belongs in a file: one place, found without doubt, or a refusal that says what is there instead.

Nothing is guessed. A symbol is a definition of the syntax tree; a search text are whole lines that occur once. What is
tolerated is white space at the ends of lines, and how they end; either is told.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from etude.mage.patch.blocks import Search, Symbol
from etude.mage.patch.lines import File, bare, end_of, fitted, lines_of
from etude.mage.patch.refusals import PatchRefused, refuse
from etude.mage.sources.definitions import Defined, Definition, definitions, named, nearest_names, parsed, plain_name
from etude.mage.sources.indenting import flush, indentation_of, indented, strings_over_lines
from etude.mage.verdicts import Rung

PYTHON: Final = (".py", ".pyi")
NEAREST: Final = 3
_SHOWN: Final = 3


@dataclass(frozen=True)
class Edit:
    """A text that takes the place of another in a file.

    Attributes:
        first: Where that begins, as an offset in the text.
        last: Where it ends.
        text: The text.
        mended: What was tolerated.
    """

    first: int
    last: int
    text: str
    mended: tuple[str, ...] = ()


def place_symbol(file: File, block: Symbol, lost_ok: Sequence[str] = ()) -> Edit:
    """Return what a new source of a definition changes.

    Args:
        file: The file.
        block: The source, at any indentation.
        lost_ok: Names of decorators that may go.

    Raises:
        PatchRefused: There is no such definition, or several, or the block is not exactly one of that name.
    """
    there = _definition_of(file, block)
    old = file.lines[there.first - 1 : there.last]
    text = "\n".join(bare(line) for line in lines_of(block.text)).strip("\n")
    try:
        left = flush(text)
        new = definitions_of_block(left)
    except SyntaxError as error:
        raise refuse(
            f"The block for `{block.name}` of {file.path} is no Python: line {error.lineno or 1} of the block: "
            f"{error.msg}; nothing applied.",
            claim="a symbol block parses",
            found=error.msg,
            rung=Rung.PARSE,
        ) from None
    _check_one(block, file, there, new)
    _check_decorators(block, file, there, new[0], lost_ok)
    left = _without_comments_above(left, file.lines[: there.first - 1])
    before, indent = indentation_of(next(filter(str.strip, text.split("\n")))), indentation_of(old[0])
    source = "".join(f"{bare(line)}\n" for line in old)
    put = indented(left, before, indent, set(strings_over_lines(source).values()))
    return _edit(file, there.first, there.last, put + "\n", ("\r\n" in block.text,))


def place_search(file: File, block: Search) -> Edit:
    """Return what a search and its replacement change.

    A search text of whole lines has to stand there as whole lines: one that fits the end of a longer line alone does
    not. A text without the end of a line may be any part of the file.

    Raises:
        PatchRefused: It is not there, or several times.
    """
    if not block.search.strip():
        raise refuse(
            f"The search text for {file.path} is empty; nothing applied. Search for the lines that change, or for a "
            "line beside which something comes.",
            claim="a search text occurs exactly once",
            found="nothing to search for",
        )
    if not block.search.endswith(("\n", "\r")):
        return _place_part(file, block)
    wanted = [bare(line) for line in lines_of(block.search)]
    lines = [bare(line) for line in file.lines]
    mended: list[str] = []
    found = _runs(lines, wanted)
    if not found:
        found = _runs([line.rstrip() for line in lines], [line.rstrip() for line in wanted])
        mended += ["white space at the ends of lines"] * bool(found)
    _check_found(file, block.search, [n + 1 for n in found])
    first, last = found[0] + 1, found[0] + len(wanted)
    ends = {end_of(line) or "\n" for line in file.lines[first - 1 : last]}
    return _edit(file, first, last, block.text, (ends != {end_of(line) for line in lines_of(block.search)},), mended)


def definitions_of_block(text: str) -> list[Definition]:
    """Return the definitions that a source consists of; none if it consists of anything else as well.

    Raises:
        SyntaxError: It is no Python.
    """
    body = parsed(text).body
    return [Definition(one.name, one) for one in body if isinstance(one, Defined)] if _only_defined(body) else []


def _only_defined(body: Sequence[ast.stmt]) -> bool:
    return all(isinstance(one, Defined) for one in body)


def _definition_of(file: File, block: Symbol) -> Definition:
    if not file.path.endswith(PYTHON):
        raise refuse(
            f"{file.path} is no Python, so it has no symbol `{block.name}`; nothing applied. Use a search block.",
            claim="a symbol is in a Python file",
            found=file.path,
        )
    try:
        known = definitions(parsed(file.text))
    except SyntaxError as error:
        raise refuse(
            f"{file.path} cannot be read as Python (line {error.lineno}: {error.msg}), so no symbol can be found in "
            "it; nothing applied. Use a search block.",
            claim="a symbol is in a Python file",
            found=error.msg,
        ) from None
    found = named(block.name, known)
    if not found:
        names = list(dict.fromkeys(one.name for one in known))
        near = nearest_names(plain_name(block.name), names) or names[:NEAREST]
        mend = f"Did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else "It defines nothing."
        raise refuse(
            f"{file.path} has no definition `{block.name}`; nothing applied. {mend}",
            claim="the target exists",
            expected=block.name,
            found=", ".join(near) or "nothing",
        )
    places = ", ".join(str(one.first) for one in found)
    if len(found) > 1 and not block.nth:
        raise refuse(
            f"`{block.name}` is defined {len(found)} times in {file.path} (lines {places}); nothing applied. Say which "
            f"by nth=1 to nth={len(found)}.",
            claim="the target is one definition",
            expected="nth",
            found=f"{len(found)} definitions, in lines {places}",
        )
    if block.nth > len(found):
        raise refuse(
            f"`{block.name}` has no definition number {block.nth} in {file.path}: there are {len(found)}, in lines "
            f"{places}; nothing applied.",
            claim="the target exists",
            expected=f"number {block.nth}",
            found=f"{len(found)} definitions",
        )
    return found[max(block.nth, 1) - 1]


def _check_one(block: Symbol, file: File, there: Definition, new: Sequence[Definition]) -> None:
    name = there.node.name
    if len(new) == 1 and new[0].name == name and new[0].kind == there.kind:
        return
    what = ", ".join(f"{one.kind} {one.name}" for one in new) or "other statements than one definition"
    raise refuse(
        f"The block for `{block.name}` of {file.path} has to be exactly one definition of {there.kind} {name}, and it "
        f"holds {what}; nothing applied. Imports and other statements go into search blocks.",
        claim="a symbol block is exactly one definition of that name",
        expected=f"{there.kind} {name}",
        found=what,
    )


def _check_decorators(block: Symbol, file: File, there: Definition, new: Definition, lost_ok: Sequence[str]) -> None:
    has = {ast.unparse(one) for one in new.node.decorator_list}
    lost = [ast.unparse(one) for one in there.node.decorator_list]
    lost = [one for one in lost if one not in has and not _may_go(one, lost_ok)]
    if lost and not has:
        raise refuse(
            f"`{block.name}` of {file.path} is decorated with {', '.join(f'@{one}' for one in lost)}, and the block "
            "has no decorator; nothing applied. Repeat it; to take a decorator away, use a search block for its line.",
            claim="a symbol block holds the decorators",
            expected=", ".join(f"@{one}" for one in lost),
            found="no decorator",
        )


def _may_go(decorator: str, lost_ok: Sequence[str]) -> bool:
    name = decorator.partition("(")[0]
    return any(one in (name, name.rpartition(".")[2]) for one in lost_ok)


def _without_comments_above(text: str, above: Sequence[str]) -> str:
    """Leave out comments at a block's beginning that stand above the definition already: those stay."""
    lines = text.split("\n")
    count = next((n for n, line in enumerate(lines) if not line.startswith("#")), 0)
    if count and [line.strip() for line in above[-count:]] == [line.strip() for line in lines[:count]]:
        return "\n".join(lines[count:])
    return text


def _edit(file: File, first: int, last: int, text: str, odd_ends: Sequence[bool], mended: Sequence[str] = ()) -> Edit:
    """Return the change of some lines, which keep the file's own line ends, and its last line's."""
    old = file.lines[first - 1 : last]
    told = list(mended)
    if any(odd_ends):
        told.append("line ends")
    where = f"{file.path}, line {first}: "
    put = fitted(text, old, file.end)
    return Edit(file.starts[first - 1], file.starts[last], put, tuple(where + one for one in told))


def _place_part(file: File, block: Search) -> Edit:
    mended = False
    search = block.search
    found = list(_all(file.text, search))
    if not found and "\n" in search:
        search = search.replace("\r\n", "\n").replace("\n", file.end)
        found, mended = list(_all(file.text, search)), True
    _check_found(file, block.search, [file.line_at(offset) for offset in found])
    text = block.text.replace("\r\n", "\n").replace("\n", file.end)
    told = (f"{file.path}, line {file.line_at(found[0])}: line ends",) if mended else ()
    return Edit(found[0], found[0] + len(search), text, told)


def _all(text: str, search: str) -> Iterator[int]:
    at = text.find(search)
    while at >= 0:
        yield at
        at = text.find(search, at + 1)


def _runs(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return where lines stand one after the other, from 0."""
    size = len(wanted)
    return [n for n in range(len(lines) - size + 1) if lines[n] == wanted[0] and list(lines[n : n + size]) == wanted]


def _check_found(file: File, search: str, places: Sequence[int]) -> None:
    if len(places) == 1:
        return
    if places:
        shown = ", ".join(map(str, places))
        raise refuse(
            f"Search text found {len(places)} times in {file.path} (lines {shown}); nothing applied.",
            claim="a search text occurs exactly once",
            expected="1",
            found=f"{len(places)}, in lines {shown}",
        )
    raise _not_found(file, search)


def _not_found(file: File, search: str) -> PatchRefused:
    lines = [bare(line) for line in file.lines]
    wanted = [bare(line) for line in lines_of(search)]
    other = [n + 1 for n in _runs([line.strip() for line in lines], [line.strip() for line in wanted])]
    why = f" It stands in line {other[0]} with another indentation or as a part of lines." if other else ""
    near = _nearest(lines, wanted)
    told = "\n".join(_shown(lines, n, len(wanted)) for n in near)
    return refuse(
        f"Search text not found in {file.path}; nothing applied.{why} What is most like it:\n{told}",
        claim="a search text occurs exactly once",
        expected="1",
        found="0; nearest: " + ", ".join(f"line {n + 1}" for n in near),
    )


def _nearest(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return where the blocks begin that are most like some lines; they do not overlap."""
    size = len(wanted)
    matcher = difflib.SequenceMatcher(None, autojunk=False)
    matcher.set_seq2("\n".join(line.strip() for line in wanted)[:2000])
    ranked = []
    for n in range(max(len(lines) - size + 1, 1)):
        matcher.set_seq1("\n".join(line.strip() for line in lines[n : n + size])[:2000])
        ranked.append((matcher.quick_ratio(), n))
    best = []
    for _, n in sorted(ranked, key=lambda one: (-one[0], one[1]))[: 4 * NEAREST]:
        matcher.set_seq1("\n".join(line.strip() for line in lines[n : n + size])[:2000])
        best.append((matcher.ratio(), n))
    chosen: list[int] = []
    for _, n in sorted(best, key=lambda one: (-one[0], one[1])):
        if len(chosen) < NEAREST and all(abs(n - other) >= size for other in chosen):
            chosen.append(n)
    return chosen


def _shown(lines: Sequence[str], at: int, size: int) -> str:
    last = min(at + size, len(lines))
    shown = [f"{n + 1:>5}  {lines[n][:100]}" for n in range(at, min(last, at + _SHOWN))]
    return "\n".join([*shown, f"       (to line {last})"] if last - at > _SHOWN else shown)
