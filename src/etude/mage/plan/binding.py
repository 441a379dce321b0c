"""Which statement a comment belongs to: the whole one that it stands behind, or the next one below it."""

from __future__ import annotations

import ast
import re
import textwrap
import tokenize
from dataclasses import dataclass

from etude.mage.sources.naming import members_at, names_of
from etude.mage.sources.source import Comment, Placed, Source


@dataclass(frozen=True)
class Bound:
    """What a comment belongs to.

    Attributes:
        statement: First and last line; None if there is nothing.
        scope: Qualified name of the definition around it.
        names: What it is about.
        remark: What is odd, as the end of a sentence that begins with the mark.
    """

    statement: tuple[int, int] | None = None
    scope: str = ""
    names: tuple[str, ...] = ()
    remark: str = ""


def bind(source: Source, comment: Comment, *, loosely: bool = False) -> Bound:
    """Return what a comment belongs to.

    Behind a statement, that is all of it, over however many lines it goes; of several on the line, the last one.
    On a line of its own it is the next statement; inside brackets it is the one that these are in. On a line of a list
    that goes over many lines, it is about what stands on this line.

    Args:
        source: The file.
        comment: The comment; of a hint, its last line.
        loosely: Whether the definition around it counts where nothing follows.
    """
    if source.module is None:
        return _by_words(source, comment)
    inside = [one for one in source.statements if one.first <= comment.line <= one.last]
    if comment.alone and not (inside and inside[-1].is_simple):
        return _below(source, comment, inside, loosely)
    if not inside:  # behind a backslash, or nothing at all
        return Bound(remark="belongs to nothing. Not treated as an annotation: put it behind a statement.")
    before = [one for one in inside if one.first < comment.line or one.node.col_offset < comment.column]
    placed = before[-1] if before else inside[-1]
    siblings = [one for one in inside if one.first == one.last == comment.line and one.is_simple]
    odd = ""
    if len(siblings) > 1 and not comment.alone:
        odd = f"stands behind {len(siblings)} statements; it is about the last one, `{source.segment(placed.node)}`."
    names = members_at(placed, comment.line, alone=comment.alone) or names_of(source, placed)
    return Bound(placed.lines, placed.scope, names, odd)


def _below(source: Source, comment: Comment, inside: list[Placed], loosely: bool) -> Bound:
    following = [one for one in source.statements if one.first > comment.line]
    placed = min(following, key=lambda one: (one.first, one.node.col_offset), default=None)
    # further in than what follows: the comment closes a block, and what follows is outside
    if placed is not None and _column(source, placed) >= comment.column:
        return Bound(placed.lines, placed.scope, names_of(source, placed))
    around = [one for one in inside if isinstance(one.node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    if loosely and around:
        placed = around[-1]
        return Bound(placed.lines, placed.scope, names_of(source, placed))
    if loosely and placed is not None:
        return Bound(placed.lines, placed.scope, names_of(source, placed))
    where = "at the end of a block" if placed is not None else "at the end of the file"
    mend = "put it behind or above a statement"
    return Bound(remark=f"stands {where}, where nothing follows. Not treated as an annotation: {mend}.")


def _column(source: Source, placed: Placed) -> int:
    line = source.lines[placed.first - 1]
    return len(line) - len(line.lstrip())


def _by_words(source: Source, comment: Comment) -> Bound:
    """Bind in a file that does not parse: to the lines between two ends of statements, as far as words can be told."""
    ends = [one.start[0] for one in source.tokens if one.type == tokenize.NEWLINE]
    starts = sorted({one.start[0] for one in source.tokens if one.type not in _SPACE})
    last = next((line for line in ends if line >= comment.line), None)
    if last is None:
        return Bound(remark="stands where the file can no longer be read. Not treated as an annotation: mend the file.")
    before = max((line for line in ends if line < comment.line), default=0)
    floor = comment.line if comment.alone else before
    first = next((line for line in starts if floor < line <= last or line == last), last)
    text = textwrap.dedent("\n".join(source.lines[first - 1 : last]))
    return Bound((first, last), "", _named(source, text))


_SPACE = {tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def _named(source: Source, text: str) -> tuple[str, ...]:
    for attempt in (text, f"{text}\n    pass"):
        try:
            node = ast.parse(attempt).body[0]
        except (SyntaxError, IndexError):
            continue
        return names_of(source, Placed(node, (), 1, 1))
    found = re.match(r"\s*(?:self\.)?([\w.]+)\s*[=(:]", text)
    return (found[1],) if found else ()
