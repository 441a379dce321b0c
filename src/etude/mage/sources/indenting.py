"""A definition's source at another indentation: what stands in strings keeps its meaning."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Collection
from typing import Final

from etude.mage.sources.definitions import parsed

_OPENS: Final = {"FSTRING_START": 1, "FSTRING_END": -1, "TSTRING_START": 1, "TSTRING_END": -1}


def indentation_of(line: str) -> str:
    """Return the white space at a line's beginning."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def strings_over_lines(text: str) -> dict[tuple[int, int], str]:
    """Return the strings that go over several lines, by their first and last line, from 1.

    Raises:
        SyntaxError: It cannot be read as Python's words.
    """
    found: dict[tuple[int, int], str] = {}
    begun: list[int] = []
    lines = text.split("\n")
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            step = _OPENS.get(tokenize.tok_name[token.type], 0)
            if step > 0:
                begun.append(token.start[0])
            first = begun.pop() if step < 0 else token.start[0]
            last = token.end[0]
            if (token.type == tokenize.STRING or step < 0) and last > first:
                found[first, last] = "\n".join(lines[first - 1 : last])
    except tokenize.TokenError as error:
        raise SyntaxError(error.args[0], ("<text>", error.args[1][0], 0, "")) from None
    return found


def flush(text: str) -> str:
    """Return a source that begins at the left edge; lines inside strings are left as they are.

    Args:
        text: A source whose lines all are indented, or none; its line ends are LF.

    Raises:
        SyntaxError: Its indentation does not fit together.
    """
    lines = text.split("\n")
    indent = next((indentation_of(line) for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    if not indent:
        return text
    inside = {line for first, last in strings_over_lines(text) for line in range(first + 1, last + 1)}
    return "\n".join(line if n in inside else _without(indent, line) for n, line in enumerate(lines, start=1))


def indented(text: str, before: str, indent: str, known: Collection[str]) -> str:
    """Return a source that begins at the left edge at another indentation.

    Whether the lines of a long string moved along with the code around them cannot be seen in the text. So a string
    that stood in the old source is written as it stood there; a docstring moves; any other one is taken word for word.

    Args:
        text: The source, at the left edge.
        before: The indentation that it was written with.
        indent: The one that it gets.
        known: The lines of strings in the old source, as ``strings_over_lines`` gives them.
    """
    lines = text.split("\n")
    docstrings = {_docstring_at(node) for node in ast.walk(parsed(text))}
    moved = [indent + line if line.strip() else line for line in lines]
    for first, last in strings_over_lines(text):
        stays = [moved[first - 1], *lines[first:last]]
        moves = [moved[first - 1], *(_moved(line, before, indent) for line in lines[first:last])]
        if "\n".join(stays) in known or ("\n".join(moves) not in known and first not in docstrings):
            moved[first - 1 : last] = stays
        else:
            moved[first - 1 : last] = moves
    return "\n".join(moved)


def _without(indent: str, line: str) -> str:
    if line.startswith(indent):
        return line[len(indent) :]
    return line.lstrip(" \t") if line.strip() else ""  # a comment, or what goes on inside brackets


def _moved(line: str, before: str, indent: str) -> str:
    return indent + line[len(before) :] if line.strip() and line.startswith(before) else line


def _docstring_at(node: ast.AST) -> int:
    """Return the line of a definition's docstring; 0 for what has none."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            return first.lineno
    return 0
