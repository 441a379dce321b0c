"""Changes as somebody writes them down, and the patch that is made of them."""

from __future__ import annotations

from etude.mage.patch.diffs import files_of
from etude.mage.values import Tagged, Value


class Symbol(Tagged, frozen=True):
    """A function, method or class gets another source.

    Attributes:
        file: The file.
        name: Its qualified name, such as ``Net.forward``.
        text: All of its new source: exactly one definition of that name.
        nth: Which of several definitions of that name, from 1; 0 where there is one.
    """

    file: str
    name: str
    text: str
    nth: int = 0


class Search(Tagged, frozen=True):
    """A text that occurs exactly once, byte for byte, gives way to another."""

    file: str
    search: str
    text: str


class Whole(Tagged, frozen=True):
    """A file gets another content."""

    file: str
    text: str


Block = Symbol | Search | Whole
"""One change."""


class Author(Value, frozen=True):
    """Who wrote a patch.

    Attributes:
        name: A rule, a model, or a person.
        request: The backend's number of the request, if there was one.
    """

    name: str
    request: str = ""


class Patch(Value, frozen=True):
    """A change of a tree that was applied to it once, and so can be again.

    Attributes:
        base: The digest of the tree.
        result: The digest of what it becomes.
        diff: The canonical unified diff.
        digest: The digest of that, and of the arguments: what an approval binds to.
        author: Who wrote it.
        arguments: What its program is called with besides; empty but where several variants share one change.
        blocks: What it was made of.
        mended: What was tolerated: trailing white space, line ends.
    """

    base: str
    result: str
    diff: str
    digest: str
    author: Author
    arguments: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()
    mended: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it changes."""
        return tuple(sorted({*(block.file for block in self.blocks), *files_of(self.diff)}))
