"""Chooses what a model would be shown of a project, up to a limit: what is marked, how it is run, and what is near."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from etude.core.errors import ConfigError
from etude.mage.annotations import Annotation
from etude.mage.sources.entry import entry_file, words_of
from etude.mage.sources.importing import imports_of
from etude.mage.sources.literals import literal
from etude.mage.sources.reading import LeftOut
from etude.mage.sources.sorting import CONFIGS
from etude.mage.sources.source import is_python, read_source
from etude.mage.tree import Tree

MOST_BYTES: Final = 200_000
"""About 57,000 tokens at 3.5 bytes each: a quarter of what widely used models take."""


@dataclass(frozen=True)
class Chosen:
    """What would be sent.

    Attributes:
        sent: The files, the most important first.
        left_out: All others, and why.
        bytes: How many bytes those that are sent have.
    """

    sent: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    bytes: int = 0


def choose(tree: Tree, annotations: Iterable[Annotation], entry: str, *, most_bytes: int = MOST_BYTES) -> Chosen:
    """Return which files would be sent.

    First the entry's file and those with marks, then those that they import and those that import marked ones, then
    configurations that any of these name, then what is imported further away.

    Args:
        tree: The project's files.
        annotations: Its marks.
        entry: How it is run.
        most_bytes: So many bytes at most; what does not fit any more is left out.

    Raises:
        ConfigError: The entry's file is not there, or what is marked does not fit by itself.
    """
    first = entry_file(entry, tree)
    marked = [file for file in dict.fromkeys(one.file for one in annotations) if file in tree]
    needed = list(dict.fromkeys([first, *marked]))
    size = sum(len(tree.files[file]) for file in needed)
    if size > most_bytes:
        raise ConfigError(
            f"What is marked and the entry have {size:,} bytes ({', '.join(needed)}), and most_bytes={most_bytes:,} "
            "may be sent. Nothing of them can be left out. Mark fewer files, split them, or raise the limit."
        )
    sent = dict.fromkeys(needed)
    left_out = []
    for file in _near(tree, needed, marked, entry):
        if file in sent:
            continue
        if size + len(tree.files[file]) > most_bytes:
            why = f"{len(tree.files[file]):,} bytes, which would pass the limit of {most_bytes:,}"
            left_out.append(LeftOut(path=file, why=why))
            continue
        sent[file] = None
        size += len(tree.files[file])
    told = {one.path for one in left_out}
    why = "neither marked nor the entry, and not connected with these by imports or as a configuration"
    left_out += [LeftOut(path=file, why=why) for file in tree if file not in sent and file not in told]
    return Chosen(tuple(sent), tuple(left_out), size)


def _near(tree: Tree, needed: list[str], marked: list[str], entry: str) -> Iterator[str]:
    """Yield what is connected with some files, the nearest first, each once."""
    imports = imports_of(tree)
    direct = [file for one in needed for file in imports.get(one, ())]
    importers = [file for file in imports if any(one in imports[file] for one in marked)]
    near = list(dict.fromkeys([*direct, *importers]))
    far = _reached(near, imports)
    configs = _configs(tree, [*needed, *near, *far], entry)
    yield from dict.fromkeys([*near, *configs, *far])


def _reached(start: Iterable[str], imports: Mapping[str, tuple[str, ...]]) -> list[str]:
    found = dict.fromkeys(start)
    waiting = list(found)
    for file in waiting:
        for other in imports.get(file, ()):
            if other not in found:
                found[other] = None
                waiting.append(other)
    return waiting


def _configs(tree: Tree, files: Iterable[str], entry: str) -> list[str]:
    """Return configurations that a command or the texts in some sources name."""
    configs = [path for path in tree if path.endswith(CONFIGS)]
    texts = {word.rpartition("=")[2] for word in words_of(entry)}
    for file in files if configs else ():
        if not is_python(file):
            continue
        for node in read_source(tree, file).nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
            elif isinstance(node, ast.keyword) and node.arg == "config_name":
                texts |= {f"{literal(node.value)}{suffix}" for suffix in CONFIGS}
    named = [text.removeprefix("./") for text in sorted(texts) if text.endswith(CONFIGS) and "\n" not in text]
    return [path for path in configs if any(path == name or path.endswith(f"/{name}") for name in named)]
