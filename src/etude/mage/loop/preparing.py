"""From a folder to a plan: what is read of a project, what is marked in it, and what is written down of both."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from etude.core.errors import ConfigError
from etude.core.text import count
from etude.mage.annotations import Annotation, Remark
from etude.mage.loop.book import Book, Did, Setup
from etude.mage.plan.marking import find_marks
from etude.mage.sources.choosing import MOST_BYTES, Chosen, choose
from etude.mage.sources.reading import Reading, read_paths, read_tree

LARGEST_DOC: Final = 1_000_000
"""Bytes of a document; a paper as text has about a tenth of that."""
TAG_BYTES: Final = 6


@dataclass(frozen=True)
class Project:
    """A project as it was read.

    Attributes:
        reading: Its files.
        annotations: What is marked.
        remarks: What its author should know.
        chosen: What would be sent.
        entry: How it is run.
    """

    reading: Reading
    annotations: tuple[Annotation, ...]
    remarks: tuple[Remark, ...]
    chosen: Chosen | None
    entry: str

    @property
    def left_out(self) -> dict[str, str]:
        """What is not sent, and why: what is no part of the project, and what is too far from what is marked."""
        further = self.chosen.left_out if self.chosen is not None else ()
        return {one.path: one.why for one in (*self.reading.left_out, *further)}


def look(root: Path, *, entry: str = "", metric: str = "", most_bytes: int = MOST_BYTES) -> Project:
    """Read a project; nothing is written or sent.

    Args:
        root: Its folder.
        entry: How it is run; without, it is not known what would be sent.
        metric: Where its metric is; a file that it is written into is no source.
        most_bytes: So much is sent at most.

    Raises:
        ConfigError: There is no such folder, or the entry's file is not in it, or what is marked is too large.
    """
    return _found(read_tree(root, entry=entry, metric=metric), entry, most_bytes)


def _found(reading: Reading, entry: str, most_bytes: int) -> Project:
    annotations, remarks = find_marks(reading.tree)
    chosen = choose(reading.tree, annotations, entry, most_bytes=most_bytes) if entry else None
    return Project(reading, annotations, remarks, chosen, entry)


def look_at_all(paths: Sequence[Path], *, entry: str = "", most_bytes: int = MOST_BYTES) -> Project:
    """Read some files and folders as one project; arguments and errors are those of ``look``."""
    if len(paths) == 1 and paths[0].is_dir():
        return look(paths[0], entry=entry, most_bytes=most_bytes)
    return _found(read_paths(paths, entry=entry), entry, most_bytes)


def read_docs(paths: Iterable[Path]) -> dict[str, str]:
    """Read documents that are sent along.

    Raises:
        ConfigError: One is not there, no text, or too long.
    """
    found: dict[str, str] = {}
    for path in paths:
        try:
            content = path.read_bytes()
            text = content.decode("utf-8")
        except OSError as error:
            raise ConfigError(f"--doc {path} cannot be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise ConfigError(
                f"--doc {path} is no text. Give its text: of a PDF, `pdftotext {path.name}` makes one."
            ) from None
        if len(content) > LARGEST_DOC:
            raise ConfigError(
                f"--doc {path} has {len(content):,} bytes, and {LARGEST_DOC:,} are the most. Give the part that "
                "matters."
            )
        if path.name in found:
            raise ConfigError(f"Two documents are called {path.name}. Rename one of them.")
        found[path.name] = text
    return found


def begin(book: Book, project: Project, setup: Setup) -> None:
    """Write down how a study is prepared and what its files are; of one that goes on, what is new.

    Raises:
        ConfigError: A file or a document holds a key.
    """
    tree = project.reading.tree
    book.refuse_secrets({**tree.files, **{name: text.encode() for name, text in setup.docs.items()}})
    before = book.record.setup
    tag = before.tag if before is not None else secrets.token_hex(TAG_BYTES)
    setup = msgspec.structs.replace(setup, tag=tag)
    if setup != before:
        book.write(Did.BEGUN, setup=setup)
    if tree.digest != book.record.tree.digest or project.left_out != book.record.left_out:
        book.write(Did.SCANNED, files=tree.files, left_out=project.left_out, annotations=list(project.annotations))


def told(project: Project) -> list[str]:
    """Return what was found in a project, as lines for a person."""
    lines = [f"{count(len(project.reading.tree.files), 'file')} of {project.reading.root}"]
    for one in project.annotations:
        what = ", ".join(one.names) or one.text.strip().splitlines()[0] if one.text.strip() or one.names else "(empty)"
        lines.append(f"  {one.file}:{one.lines[0]}  {one.mark.value}  {what}")
    if not project.annotations:
        lines.append("Nothing is marked. `etude mage suggest` proposes marks.")
    lines += [f"! {remark}" for remark in project.remarks]
    lines += _told_left_out(project)
    return lines


def _told_left_out(project: Project) -> Sequence[str]:
    if not project.left_out:
        return []
    return ["Left out:", *(f"  {path}: {why}" for path, why in project.left_out.items())]
