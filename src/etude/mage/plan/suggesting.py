"""Proposes marks, as a diff that a person may apply: for a project without any, or those that a plan comes to.

Nothing is ever written unasked.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from typing import Final

from etude.mage.annotations import Mark
from etude.mage.networks.models import networks
from etude.mage.networks.roles import Role
from etude.mage.plan.binding import bind
from etude.mage.plan.marking import find_marks
from etude.mage.plan.pairs import name_of
from etude.mage.rules.columns import selects
from etude.mage.sources.columns import texts_in
from etude.mage.sources.marks import COMPONENT
from etude.mage.sources.naming import members_at
from etude.mage.sources.settings import ENTRY, settings_of
from etude.mage.sources.source import Comment, Placed, Source, read_source
from etude.mage.tree import Tree
from etude.mage.values import Value
from etude.mage.variants import Plan, Variant

ROLES: Final = (Role.LAYER, Role.NORM, Role.DROPOUT)
"""What is worth trying without; an activation or a pooling seldom is by itself."""
CONTEXT: Final = 3


class Suggestion(Value, frozen=True):
    """A mark that somebody may want.

    Attributes:
        file: The file.
        line: The line that it would stand behind.
        names: What it would be about.
        why: What that is.
    """

    file: str
    line: int
    names: tuple[str, ...]
    why: str


def suggested(tree: Tree) -> list[Suggestion]:
    """Return marks for modules of networks, columns that are selected, and switches.

    Args:
        tree: The project's files. Files that have marks already are left alone, and so is what does not parse.
    """
    annotations, _ = find_marks(tree)
    marked = {one.file for one in annotations if one.mark in (Mark.COMPONENT, Mark.HINT)}
    found = [*_modules(tree, ROLES), *_columns(tree), *_switches(tree)]
    return _in_place(tree, (one for one in found if one.file not in marked))


def suggested_by(plan: Plan, tree: Tree) -> list[Suggestion]:
    """Return the marks by which a plan's removals are planned without anybody who reads hints or documents.

    A removal that is marked already needs none, and there is none for several things that go together, for another size
    or another value.

    Args:
        plan: The plan.
        tree: The files that it is of.
    """
    wanted = {variant.things[0].name: variant.files for variant in plan.variants if _is_one_removal(variant)}
    found = [*_modules(tree, frozenset(Role)), *_columns(tree), *_switches(tree)]
    return _in_place(tree, (one for one in found if one.file in wanted.get(one.names[0], ())))


def as_diff(tree: Tree, found: Iterable[Suggestion]) -> str:
    """Return suggestions as a diff for ``git apply`` or ``patch -p1``; empty if there are none."""
    by_file: dict[str, list[Suggestion]] = {}
    for one in found:
        by_file.setdefault(one.file, []).append(one)
    return "".join(_diff(file, tree.text(file), [one.line for one in found]) for file, found in by_file.items())


def _is_one_removal(variant: Variant) -> bool:
    """Say whether one thing goes, and nothing else is wanted: then a mark beside it plans the same."""
    return len(variant.things) == 1 and variant.name == name_of([variant.things[0].name])


def _in_place(tree: Tree, found: Iterable[Suggestion]) -> list[Suggestion]:
    """Return those that a comment in their place would be about, one for each place, in order."""
    places: dict[tuple[str, int], Suggestion] = {}
    for one in found:
        if _fits(read_source(tree, one.file), one):
            places.setdefault((one.file, one.line), one)
    return [places[place] for place in sorted(places)]


def _modules(tree: Tree, roles: Collection[Role]) -> list[Suggestion]:
    return [
        Suggestion(
            file=made.file,
            line=made.call.end_lineno or made.line,
            names=(made.name,),
            why=f"a module of {network.name}: {made.type}",
        )
        for network in networks(tree)
        for made in network.made
        if made.role in roles
    ]


def _columns(tree: Tree) -> list[Suggestion]:
    return [
        Suggestion(file=texts.source.file, line=node.lineno, names=(name,), why="a column that is selected")
        for texts in texts_in(tree)
        if texts.use == "listed" and len(texts.names) > 1 and selects(texts)
        for name, node in zip(texts.names, texts.node.elts, strict=True)
    ]


def _switches(tree: Tree) -> list[Suggestion]:
    found = []
    for one in settings_of(tree):
        if one.kind != ENTRY and one.placed is not None and (one.value is True or one.is_switch):
            why = f"a {one.kind} that is on" + ("" if one.value is True else " where the command gives it")
            found.append(Suggestion(file=one.file, line=one.placed.last, names=(one.short,), why=why))
    return found


def _fits(source: Source, one: Suggestion) -> bool:
    """Say whether a comment behind a line would be about what was meant, and nothing else."""
    line = source.lines[one.line - 1]
    if any(comment.line == one.line for comment in source.comments) or line.rstrip().endswith("\\"):
        return False
    if not _is_code_at_end(source, one.line):
        return False
    inside = [placed for placed in source.statements if placed.first <= one.line <= placed.last]
    if not inside:
        return False
    placed = inside[-1]
    several = [other for other in inside if other.is_simple]
    if len(several) != 1:
        return False
    return _about(source, placed, one)


def _is_code_at_end(source: Source, line: int) -> bool:
    """Say whether a line's end is outside of every text."""
    ends = [token.end for token in source.tokens if token.end[0] == line and token.string.strip()]
    spans = [token for token in source.tokens if token.start[0] <= line < token.end[0]]
    return bool(ends) and not spans


def _about(source: Source, placed: Placed, one: Suggestion) -> bool:
    names = members_at(placed, one.line, alone=False)
    if names:
        return names == one.names
    comment = Comment(one.line, len(source.lines[one.line - 1]) + 2, f"# {COMPONENT}", alone=False)
    return bind(source, comment).names == one.names


def _diff(file: str, text: str, lines: list[int]) -> str:
    old = re.findall(r"[^\n]*\n|[^\n]+", text)  # as git counts lines
    new = list(old)
    for line in lines:
        body = old[line - 1].rstrip("\r\n")
        new[line - 1] = f"{body}  # {COMPONENT}{old[line - 1][len(body) :]}"
    shown = difflib.unified_diff(old, new, f"a/{file}", f"b/{file}", n=CONTEXT)
    return "".join(one if one.endswith("\n") else f"{one}\n\\ No newline at end of file\n" for one in shown)
