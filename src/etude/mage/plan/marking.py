"""Finds what the user has marked, and says what looks like a mark and is none.

The spellings are the paper's: ``#ABLATABLE_COMPONENT`` behind or above a statement, and a block of comments between
``#ABLATION_HINT_START`` and ``#ABLATION_HINT_END``. A component may say more in brackets:
``# ABLATABLE_COMPONENT (name=conv2, with=pool)``. Nothing is guessed: what is misspelt, unclosed or empty is told and
left alone.

Source:
    Sheikholeslami et al. 2025, "Utilizing Large Language Models for Ablation Studies in Machine Learning and Deep
    Learning", section 2; the brackets are our addition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from etude.mage.annotations import Annotation, Mark, Remark
from etude.mage.near import distance
from etude.mage.plan.binding import Bound, bind
from etude.mage.sources.marks import COMPONENT
from etude.mage.sources.options import read_options
from etude.mage.sources.source import Comment, Source, is_python, read_source
from etude.mage.tree import Tree, digest_of

START: Final = "ABLATION_HINT_START"
END: Final = "ABLATION_HINT_END"
WORDS: Final = (COMPONENT, START, END)
MOST_WRONG: Final = 3
"""A word with so many wrong letters still looks like a mark: no English word is that near to one."""


def find_marks(tree: Tree) -> tuple[tuple[Annotation, ...], tuple[Remark, ...]]:
    """Return all marks of a tree, by file and line, and what their author should know.

    Args:
        tree: The files. Marks are read in Python alone.
    """
    annotations: list[Annotation] = []
    remarks: list[Remark] = []
    for file in tree:
        if not is_python(file):
            remarks += _elsewhere(file, tree.files[file])
            continue
        try:
            source = read_source(tree, file)
        except UnicodeDecodeError:
            text = "The file is no UTF-8, so its marks were not read. Save it as UTF-8."
            remarks.append(Remark(file=file, line=1, text=text))
            continue
        found = _Found(source, digest_of(tree.files[file]))
        found.read()
        annotations += found.annotations
        remarks += found.remarks
    return tuple(annotations), tuple(remarks)


@dataclass
class _Hint:
    """A hint that has begun."""

    line: int
    lines: list[tuple[int, str]] = field(default_factory=list)


class _Found:
    """What is found in one source."""

    def __init__(self, source: Source, digest: str) -> None:
        self.source = source
        self.digest = digest
        self.annotations: list[Annotation] = []
        self.remarks: list[Remark] = []
        self._hint: _Hint | None = None

    def read(self) -> None:
        """Read the comments in their order."""
        if self.source.error is not None:
            line, why = self.source.error
            self._say(line, f"The file does not parse ({why}); marks were read as far as its words can be told apart.")
        if _may_mark(self.source.lines):  # few files do, and telling comments from texts takes longest
            for comment in self.source.comments:
                self._comment(comment)
        if self._hint is not None:
            self._say(self._hint.line, f"`#{START}` is never closed. Not treated as an annotation: add `#{END}`.")
        self.annotations.sort(key=lambda one: one.lines)
        self.remarks += _doubled(self.annotations)
        self.remarks.sort(key=lambda one: one.line)

    def _say(self, line: int, text: str) -> None:
        self.remarks.append(Remark(file=self.source.file, line=line, text=text))

    def _comment(self, comment: Comment) -> None:
        pieces = [piece.strip() for piece in comment.text.split("#")[1:]]
        if not any(self._piece(comment, piece) for piece in pieces) and self._hint is not None:
            if comment.alone:
                self._hint.lines.append((comment.line, _without_sign(comment.text)))
            else:
                self._say(comment.line, "Behind a statement inside a hint: not part of it. Give it a line of its own.")

    def _piece(self, comment: Comment, piece: str) -> bool:
        """Take a piece of a comment if it is a mark or looks like one; say whether it was."""
        word = "".join(re.findall(r"^\w+", piece))
        rest = piece[len(word) :]
        if word == COMPONENT:
            self._component(comment, piece, rest.strip())
        elif word in (START, END) and rest.strip(" :"):
            text = f"`#{piece}` says more than {word}. Not treated as an annotation: put the text on the next line."
            self._say(comment.line, text)
        elif word == START:
            self._start(comment)
        elif word == END:
            self._end(comment)
        elif meant := _meant(piece):
            self._say(comment.line, f"`#{piece}` looks like {meant}. Not treated as an annotation.")
            return True
        else:
            return False
        return True

    def _component(self, comment: Comment, piece: str, rest: str) -> None:
        if self._hint is not None:
            self._say(
                comment.line, f"`#{COMPONENT}` inside a hint is not treated as an annotation: close the hint first."
            )
            return
        options = read_options(rest)
        if options.wrong:
            self._say(comment.line, f"`#{piece}`: {options.wrong} Not treated as an annotation.")
            return
        bound = bind(self.source, comment)
        if bound.remark:
            self._say(comment.line, f"`#{piece}` {bound.remark}")
        if bound.statement is None:
            return
        names = options.names or bound.names
        if not names:
            text = f"`#{piece}` stands at a statement that has no name. Not treated as an annotation: give it one, "
            self._say(comment.line, f"{text}as in `#{COMPONENT} (name=warmup)`.")
            return
        lines = (comment.line, comment.line)
        self._add(Mark.COMPONENT, lines, bound, names, options.along, f"#{piece}")

    def _start(self, comment: Comment) -> None:
        if self._hint is not None:
            text = f"`#{START}` is not closed before another one begins in line {comment.line}. Hints cannot be inside "
            self._say(self._hint.line, f"{text}each other. Not treated as an annotation: add `#{END}`.")
        self._hint = _Hint(comment.line)

    def _end(self, comment: Comment) -> None:
        hint, self._hint = self._hint, None
        if hint is None:
            self._say(comment.line, f"`#{END}` without `#{START}`. Not treated as an annotation.")
            return
        said = {line: text for line, text in hint.lines if text.strip()}
        if not said:
            self._say(hint.line, "The hint is empty. Not treated as an annotation: say in it what is to be removed.")
            return
        # one line of text for each line between the marks, so that a line of the hint can be found in the file
        text = "\n".join(said.get(line, "") for line in range(hint.line + 1, comment.line))
        bound = bind(self.source, comment, loosely=True)
        self._add(Mark.HINT, (hint.line, comment.line), bound, bound.names, (), text)

    def _add(
        self,
        mark: Mark,
        lines: tuple[int, int],
        bound: Bound,
        names: tuple[str, ...],
        along: tuple[str, ...],
        text: str,
    ) -> None:
        self.annotations.append(
            Annotation(
                mark=mark,
                file=self.source.file,
                lines=lines,
                statement=bound.statement,
                scope=bound.scope,
                names=names,
                marked=bound.names,
                along=along,
                text=text,
                digest=self.digest,
            )
        )


def _may_mark(lines: Iterable[str]) -> bool:
    """Say whether anything behind a number sign is a mark or looks like one, be it in a comment or in a text."""
    pieces = (piece.strip() for line in lines if "#" in line for piece in line.split("#")[1:])
    return any(piece.startswith(WORDS) or _meant(piece) for piece in pieces)


def _meant(piece: str) -> str:
    """Return the mark that a comment looks like; empty if it looks like none."""
    near = [
        (distance(told, word), word)
        for told in _beginnings(piece)
        for word in WORDS
        if abs(len(told) - len(word)) <= MOST_WRONG
    ]
    wrong, word = min(near, default=(0, ""))
    return word if wrong <= MOST_WRONG else ""


def _beginnings(piece: str) -> Iterator[str]:
    """Yield the first one to three words: marks have two or three, however they are put together."""
    words = list(re.finditer(r"[^\W_]+", piece))[:3]
    if words and words[0].start() > 1:  # something else comes first
        return
    for last in words:
        yield re.sub(r"[\W_]+", "_", piece[words[0].start() : last.end()]).upper()


def _doubled(annotations: Iterable[Annotation]) -> Iterator[Remark]:
    """Yield what is marked twice."""
    first: dict[tuple[str, str, str], Annotation] = {}
    for one in annotations:
        if one.mark is not Mark.COMPONENT:
            continue
        for name in one.names:
            other = first.setdefault((one.file, one.scope, name), one)
            if other is one:
                continue
            if other.along != one.along:
                text = contradiction(name, other, one)
            else:
                text = f"`{name}` is marked twice; line {other.lines[0]} has it already. It counts once."
            yield Remark(file=one.file, line=one.lines[0], text=text)


def contradiction(name: str, one: Annotation, other: Annotation) -> str:
    """Return what is said of a component that is marked twice, and differently."""
    told = [f"with={'+'.join(mark.along)}" if mark.along else "no `with=`" for mark in (one, other)]
    where = f"in line {one.lines[0]} ({told[0]}) and in line {other.lines[0]} ({told[1]})"
    return f"`{name}` is marked twice, {where}: these contradict each other. Leave one of them."


def _without_sign(text: str) -> str:
    text = text.lstrip("#")
    return text[1:].rstrip() if text.startswith(" ") else text.rstrip()


def _elsewhere(file: str, content: bytes) -> Iterator[Remark]:
    if file.endswith((".yaml", ".yml", ".toml", ".cfg", ".ini", ".sh")):
        for number, line in enumerate(content.split(b"\n"), start=1):
            if re.search(rb"#\s*(ABLATABLE_COMPONENT|ABLATION_HINT_START)\b", line):
                text = "Marks are read in Python files only. Mark the statement that reads this value instead."
                yield Remark(file=file, line=number, text=text)
