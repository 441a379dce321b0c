"""YAML as nodes that know where they stand: includes and variables are in, anchors and merges resolved.

PyYAML gives events; what they build is ours, since a reader that is strict has to see what a loader throws away: the
place of every key, two keys of one name, and whether a word was in quotes. All that could grow without end has a limit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from etude.core.errors import FileError
from etude.files.mends import in_words
from etude.files.nodes import Entry, Fields, Items, Node, Scalar, told
from etude.files.scalars import AmbiguousError, meaning
from etude.files.source import Place, Problems, Source, nearest

LARGEST_BYTES: Final = 1_000_000
DEEPEST: Final = 50
MOST_NODES: Final = 50_000
"""Counted as if each alias were written out, so that a few lines cannot stand for billions."""

MOST_INCLUDES: Final = 20
"""How many files may include each other in a row."""

MOST_FILES: Final = 200
"""How many includes there may be in all."""

INCLUDE: Final = "!include"
TAGS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "tag:yaml.org,2002:str": str,
    "tag:yaml.org,2002:int": int,
    "tag:yaml.org,2002:float": (int, float),
    "tag:yaml.org,2002:bool": bool,
    "tag:yaml.org,2002:null": type(None),
}
CONTAINERS: Final = ("tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")

VARIABLE: Final = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^{}]*)?\}|\$\{")


def read_file(path: Path, problems: Problems, environment: Mapping[str, str] | None = None) -> Node:
    """Return what stands in a file.

    Args:
        path: The file, as people call it.
        problems: What is wrong with it is told here.
        environment: What variables have; those of this process if left out.

    Raises:
        FileError: It cannot be read.
    """
    return _Reader(problems, os.environ if environment is None else environment).file(path, None)


def read_text(source: Source, problems: Problems, environment: Mapping[str, str] | None = None) -> Node:
    """Return what stands in a text; see ``read_file``.

    Example:
        >>> from etude.files.nodes import plain
        >>> plain(read_text(Source("it", "{lr: [0.1, 1e-4]}", Path()), Problems()))
        {'lr': [0.1, 0.0001]}
    """
    return _Reader(problems, os.environ if environment is None else environment).text(source)


class _Reader:
    """From events to nodes."""

    def __init__(self, problems: Problems, environment: Mapping[str, str]) -> None:
        self._problems = problems
        self._environment = environment
        self._files = 0

    # --- files ------------------------------------------------------------------------------------

    def file(self, path: Path, within: Place | None) -> Node:
        if not path.is_file():
            why = "is a folder" if path.is_dir() else "is not there"
            others = [other.name for kind in ("*.yaml", "*.yml") for other in path.parent.glob(kind)]
            raise self._no_file(path, within, f"The file {path} {why}.{nearest(path.name, others)}")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise self._no_file(path, within, f"The file {path} cannot be read: {error.strerror}.") from None
        if len(content) > LARGEST_BYTES:
            most = f"{LARGEST_BYTES:,} are the most. It is no study."
            raise self._no_file(path, within, f"The file {path} has {len(content):,} bytes, and {most}")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            before = content[: error.start].decode("utf-8-sig")
            source = Source(str(path), content.decode("utf-8-sig", "replace"), path.parent, within=within)
            place = Place(source, before.count("\n") + 1, len(before) - before.rfind("\n"))
            raise self._problems.fatal(place, f"{path.name} is no UTF-8 here. Save it with that encoding.") from None
        return self.text(Source(str(path), text, path.parent, within=within))

    def _no_file(self, path: Path, within: Place | None, message: str) -> FileError:
        """Return the error for a file that cannot be had: at the place that includes it, if one does."""
        return FileError(message, file=str(path)) if within is None else self._problems.fatal(within, message)

    def _included(self, name: str, place: Place) -> Node:
        if not name:
            raise self._problems.fatal(place, f"{INCLUDE} names no file. Write {INCLUDE} other.yaml.")
        path = place.source.folder / name
        chain = [place.source]
        while (outer := chain[-1].within) is not None:
            chain.append(outer.source)
        files = [Path(source.name).resolve() for source in chain]
        if path.resolve() in files:
            circle = [source.name for source in reversed(chain[: files.index(path.resolve()) + 1])]
            shown = " -> ".join([*circle, circle[0]])
            raise self._problems.fatal(place, f"{name} includes itself, round a circle: {shown}. Take one of them out.")
        if len(chain) >= MOST_INCLUDES:
            raise self._problems.fatal(place, f"More than {MOST_INCLUDES} files include each other in a row.")
        self._files += 1
        if self._files > MOST_FILES:
            raise self._problems.fatal(place, f"More than {MOST_FILES} files are included, which no study needs.")
        return self.file(path, place)

    # --- one text ---------------------------------------------------------------------------------

    def text(self, source: Source) -> Node:
        import yaml

        try:
            events = yaml.parse(source.text, Loader=yaml.SafeLoader)
            return _Composer(self, source, events).document()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = Place(source, mark.line + 1, mark.column + 1) if mark is not None else Place(source, 1, 1)
            raise self._problems.fatal(place, in_words(error, source, place)) from None
        except yaml.reader.ReaderError as error:
            before = source.text[: error.position]
            place = Place(source, before.count("\n") + 1, len(before) - before.rfind("\n"))
            character = f"U+{error.character:04X}" if isinstance(error.character, int) else repr(error.character)
            raise self._problems.fatal(place, f"The character {character} may not stand in YAML. Remove it.") from None

    # --- single values ----------------------------------------------------------------------------

    def scalar(self, event: Any, place: Place) -> Node:
        text = self._with_variables(event.value, place)
        tag = event.tag
        if tag == INCLUDE:
            return self._included(text, place)
        quoted = event.style in ("'", '"', "|", ">") or (not text and event.value)  # an empty variable is a text
        if tag is not None and tag != "!" and tag not in TAGS:
            self._problems.add(place, _no_such_tag(tag))
            return Scalar(place, text, text)
        if tag in ("tag:yaml.org,2002:str", "!") or (tag is None and quoted):
            return Scalar(place, text, text, quoted=True)
        try:
            value = meaning(text.strip())
        except AmbiguousError as error:
            self._problems.add(place, str(error))
            return Scalar(place, text, text)
        if tag is not None and not isinstance(value, TAGS[tag]):
            self._problems.add(place, f"{text!r} is not what its tag !!{tag.rpartition(':')[2]} says. Drop the tag.")
        return Scalar(place, value, text)

    def key(self, event: Any, place: Place) -> Scalar:
        """Return a key: a name as it stands there, also where it would mean something as a value."""
        try:
            value = event.value if event.style in ("'", '"') else meaning(event.value)
        except AmbiguousError:
            value = event.value
        return Scalar(place, value, event.value)

    def _with_variables(self, text: str, place: Place) -> str:
        def put_in(found: re.Match[str]) -> str:
            if found[0] == "$${":
                return "${"
            name, default = found["name"], found["default"]
            if name is None:
                self._problems.add(
                    place,
                    f"{text!r} has a ${{ that is no variable. Write ${{NAME}}, ${{NAME:-default}}, or $${{ for ${{.",
                )
                return found[0]
            value = self._environment.get(name)
            if value is None and default is None:
                meant = nearest(name, self._environment)
                self._problems.add(
                    place,
                    f"The environment variable {name} is not set.{meant} Set it, or give a default: ${{{name}:-...}}.",
                )
                return ""
            return value if value or default is None else default[2:]  # type: ignore[return-value] # one is there

        return VARIABLE.sub(put_in, text) if "${" in text else text

    def problem(self, place: Place, message: str) -> None:
        self._problems.add(place, message)

    def fatal(self, place: Place, message: str) -> Exception:
        return self._problems.fatal(place, message)


@dataclass
class _Composer:
    """One document of one text."""

    reader: _Reader
    source: Source
    events: Iterator[Any]
    anchors: dict[str, Node] = field(default_factory=dict)
    nodes: int = 0

    def document(self) -> Node:
        import yaml

        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                break
        else:
            raise self.reader.fatal(
                Place(self.source, 1, 1),
                f"{self.source.name} is empty. Write as in:\n    experiment: script.py:experiment\n    verb: run",
            )
        node = self._node(next(self.events), depth=0)
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                raise self.reader.fatal(
                    self._place(event), "A second document begins here, and a study is one. Put each in its own file."
                )
        return node

    def _node(self, event: Any, *, depth: int) -> Node:
        import yaml

        place = self._place(event)
        if depth > DEEPEST:
            raise self.reader.fatal(place, f"This is more than {DEEPEST} levels deep, which no study is.")
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                meant = nearest(event.anchor, self.anchors)
                raise self.reader.fatal(
                    place, f"*{event.anchor} stands for nothing: no &{event.anchor} ends before it.{meant}"
                )
            node = self.anchors[event.anchor]
            self._count(node.size, place)
            return node
        self._count(1, place)
        if isinstance(event, yaml.ScalarEvent):
            node = self.reader.scalar(event, place)
            if node.size > 1:
                self._count(node.size, place)
        elif event.tag is not None and event.tag not in CONTAINERS:
            raise self.reader.fatal(place, _no_such_tag(event.tag))
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._items(place, depth)
        else:
            node = self._fields(place, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _items(self, place: Place, depth: int) -> Items:
        import yaml

        items = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self._node(event, depth=depth + 1))
        return Items(place, tuple(items), 1 + sum(item.size for item in items))

    def _fields(self, place: Place, depth: int) -> Fields:
        import yaml

        entries: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            where = self._place(event)
            if not isinstance(event, yaml.ScalarEvent):
                hint = " Put a text with { or [ in it in quotes." if not isinstance(event, yaml.AliasEvent) else ""
                raise self.reader.fatal(where, f"A key has to be a name, and here it is none.{hint}")
            key = self.reader.key(event, where)
            node = self._node(next(self.events), depth=depth + 1)
            if key.text == "<<" and event.style is None:
                for name, entry in self._merged(node, where).items():
                    merged.setdefault(name, entry)
            elif key.text in entries:
                first = entries[key.text].key.place
                self.reader.problem(
                    where, f"{key.text!r} stands here a second time; the first is at {first}. Leave one."
                )
            else:
                entries[key.text] = Entry(key, node)
        together = {**{name: entry for name, entry in merged.items() if name not in entries}, **entries}
        return Fields(place, together, 1 + sum(1 + entry.node.size for entry in together.values()))

    def _merged(self, node: Node, place: Place) -> Mapping[str, Entry]:
        """Return the keys that ``<<`` brings; of several mappings, the first that has one counts."""
        several = node.items if isinstance(node, Items) else (node,)
        found: dict[str, Entry] = {}
        for one in several:
            if not isinstance(one, Fields):
                raise self.reader.fatal(
                    place, f"<< takes in the keys of mappings, and here is {told(one)}. Write <<: *name of a mapping."
                )
            for name, entry in one.entries.items():
                found.setdefault(name, entry)
        return found

    def _count(self, nodes: int, place: Place) -> None:
        self.nodes += nodes
        if self.nodes > MOST_NODES:
            raise self.reader.fatal(
                place, f"With each alias written out, this has more than {MOST_NODES:,} values, which no study has."
            )

    def _place(self, event: Any) -> Place:
        start, end = event.start_mark, event.end_mark
        on_one_line = end.line == start.line and end.column > start.column
        width = end.column - start.column if on_one_line else 1
        return Place(self.source, start.line + 1, start.column + 1, width)


def _no_such_tag(tag: str) -> str:
    shown = tag.replace("tag:yaml.org,2002:", "!!")
    return f"The tag {shown} is not known here: nothing is made by a tag but {INCLUDE} other.yaml. Drop it."
