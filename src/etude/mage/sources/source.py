"""A Python source as everybody here reads it: its lines, its comments, and its statements, each with what is around.

Comments are those of ``tokenize``, so text inside strings is none; statements are those of ``ast``. Both count lines in
one way, with LF, CRLF and CR, with and without a byte order mark.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from etude.mage.tree import Tree

PYTHON = (".py", ".pyi")
BODIES = ("body", "orelse", "finalbody", "handlers", "cases")

Scope = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Comment:
    """A comment.

    Attributes:
        line: Its line, from 1.
        column: Where it begins, from 0.
        text: It, with its sign.
        alone: Whether nothing else stands on its line.
    """

    line: int
    column: int
    text: str
    alone: bool


@dataclass(frozen=True, eq=False)
class Placed:
    """A statement and where it stands.

    Attributes:
        node: The statement.
        scopes: The definitions around it, from the outermost; a definition is not around itself.
        first: Its first line, from 1, with decorators.
        last: Its last line.
    """

    node: ast.stmt
    scopes: tuple[Scope, ...]
    first: int
    last: int

    @property
    def lines(self) -> tuple[int, int]:
        """First and last line."""
        return self.first, self.last

    @property
    def scope(self) -> str:
        """The qualified name of what is around it; empty at module level."""
        return ".".join(one.name for one in self.scopes)

    @property
    def owner(self) -> ast.ClassDef | None:
        """The innermost class around it."""
        return next((one for one in reversed(self.scopes) if isinstance(one, ast.ClassDef)), None)

    @property
    def is_simple(self) -> bool:
        """Whether no other statement is inside it."""
        return not any(getattr(self.node, name, None) for name in BODIES)


@dataclass(frozen=True, eq=False)
class Source:
    """A file of Python.

    Attributes:
        file: Its path in the tree.
        text: Its text without a byte order mark, with its own line ends.
        module: What it says; None if it does not parse.
        error: Line and message of why it does not.
    """

    file: str
    text: str
    module: ast.Module | None
    error: tuple[int, str] | None = None

    @cached_property
    def lines(self) -> list[str]:
        """Its lines, without their ends. A form feed ends none, as in Python."""
        return re.split(r"\r\n|\n|\r", self.text)

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        """Its tokens, as far as it can be read."""
        found = []
        try:
            for token in tokenize.generate_tokens(io.StringIO("\n".join(self.lines)).readline):
                found.append(token)
        except (tokenize.TokenError, SyntaxError):
            pass
        return found

    @cached_property
    def comments(self) -> list[Comment]:
        """Its comments, in their order."""
        return [
            Comment(token.start[0], token.start[1], token.string, not token.line[: token.start[1]].strip())
            for token in self.tokens
            if token.type == tokenize.COMMENT
        ]

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of its tree; none if it does not parse."""
        return list(ast.walk(self.module)) if self.module is not None else []

    @cached_property
    def statements(self) -> list[Placed]:
        """All its statements, those that are around others before these."""
        return list(_placed(self.module.body, ())) if self.module is not None else []

    @cached_property
    def imports(self) -> dict[str, str]:
        """What names of imported things mean: ``F`` -> ``torch.nn.functional``."""
        found = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for one in node.names:
                    found[one.asname or one.name.partition(".")[0]] = (
                        one.name if one.asname else one.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for one in node.names:
                    found[one.asname or one.name] = f"{node.module}.{one.name}"
        return found

    def segment(self, node: ast.AST) -> str:
        """Return the text of a node, byte for byte."""
        first, last = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        return self.between((first, node.col_offset), (last, node.end_col_offset))  # type: ignore[attr-defined]

    def between(self, start: tuple[int, int], end: tuple[int, int]) -> str:
        """Return the text between two places as ``ast`` gives them: lines from 1, columns in bytes of UTF-8."""
        return self._bytes[self._at(start) : self._at(end)].decode("utf-8")

    def place(self, line: int, column: int) -> int:
        """Return a place as ``ast`` gives it, in characters from the beginning of the text."""
        return len(self._bytes[: self._at((line, column))].decode("utf-8"))

    def column(self, line: int, column: int) -> int:
        """Return a column as ``ast`` gives it, in characters."""
        return len(self.lines[line - 1].encode("utf-8")[:column].decode("utf-8"))

    def _at(self, place: tuple[int, int]) -> int:
        return self._starts[place[0] - 1] + place[1]

    @cached_property
    def _bytes(self) -> bytes:
        return self.text.encode("utf-8")

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer(rb"\r\n|\n|\r", self._bytes))]

    def dotted(self, node: ast.expr) -> str:
        """Return what is called or named there, with imported names spelt out; empty if it is no plain name.

        Example: ``nn.Linear`` is ``torch.nn.Linear`` after ``from torch import nn``.
        """
        name = plain_name(node)
        first, dot, rest = name.partition(".")
        return f"{self.imports.get(first, first)}{dot}{rest}"


def is_python(path: str) -> bool:
    """Say whether a file is Python source, by its name."""
    return path.endswith(PYTHON)


def read_source(tree: Tree, file: str) -> Source:
    """Return a file of a tree as a source; one that does not parse has an error and no module.

    Raises:
        KeyError: There is no such file.
        UnicodeDecodeError: It is no UTF-8.
    """
    return _read(file, tree.files[file])


@lru_cache(maxsize=512)
def _read(file: str, content: bytes) -> Source:
    text = content.decode("utf-8-sig")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the user's code is warned of is not our matter
            return Source(file, text, ast.parse(text))
    except SyntaxError as error:
        return Source(file, text, None, (error.lineno or 1, error.msg))
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, brackets a thousand deep
        return Source(file, text, None, (1, str(error)))


def sources(tree: Tree) -> Iterator[Source]:
    """Yield all Python sources of a tree that are UTF-8, by path."""
    for file in tree:
        if is_python(file):
            try:
                yield read_source(tree, file)
            except UnicodeDecodeError:
                continue


def plain_name(node: ast.expr) -> str:
    """Return a name with its dots as it stands there; empty if it is something else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := plain_name(node.value)):
        return f"{before}.{node.attr}"
    return ""


def within(name: str) -> str:
    """Return a name without ``self``.

    Example:
        >>> within("self.encoder.conv2"), within("model.fc"), within("x")
        ('encoder.conv2', 'model.fc', 'x')
    """
    first, dot, rest = name.partition(".")
    return rest if dot and first in ("self", "cls") else name


def _placed(body: list[ast.stmt], scopes: tuple[Scope, ...]) -> Iterator[Placed]:
    for node in body:
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(one.lineno for one in decorators)])
        yield Placed(node, scopes, first, node.end_lineno or node.lineno)
        inner = (*scopes, node) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else scopes
        for name in BODIES:
            for one in getattr(node, name, []) or []:
                if isinstance(one, ast.stmt):
                    yield from _placed([one], inner)
                else:  # a handler or a case, which has a body of its own
                    yield from _placed(one.body, inner)
