"""Takes columns out of what reaches a model: they leave the list that selects, or join the list that is dropped."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from etude.mage.patch.blocks import Search
from etude.mage.patch.editing import Edit, edited, searches
from etude.mage.sources.columns import Texts, texts_in
from etude.mage.sources.literals import literal
from etude.mage.sources.marks import with_marks
from etude.mage.sources.source import Source, plain_name, sources
from etude.mage.tree import Tree

SELECTS: Final = ("usecols", "columns", "feature_names", "include")
"""Arguments that pick columns."""
NAMES: Final = ("names",)
MAKES: Final = ("DataFrame", "DMatrix", "QuantileDMatrix", "Dataset", "from_records")
"""What gives columns of numbers their names: there the same arguments pick nothing."""


def without_columns(names: Sequence[str], tree: Tree) -> tuple[Search, ...] | None:
    """Return the changes after which columns do not reach the model; None if it is not clear where they come in.

    Args:
        names: The columns.
        tree: The project's files.
    """
    lists = list(texts_in(tree))
    selecting = [one for one in lists if set(names) & set(one.names)]
    mentions = sum(_mentions(source, name) for source in sources(tree) for name in names)
    if mentions:
        if len(selecting) != 1 or mentions != len(names) or not set(names) < set(selecting[0].names):
            return None
        chosen = selecting[0]
        if chosen.use != "listed" or not selects(chosen) or len(set(chosen.names)) < len(chosen.names):
            return None
        return _changed([chosen], names, joins=False)
    leaving = [one for one in lists if one.use in ("dropped", "left out")]
    if not leaving or len({(tuple(sorted(one.names)), one.use) for one in leaving}) > 1:
        return None
    return _changed(leaving, names, joins=True)


def _mentions(source: Source, name: str) -> int:
    """Return how often a source names a column."""
    found = 0
    for node in ast.walk(source.module) if source.module is not None else ():
        found += isinstance(node, ast.Constant) and node.value == name
        found += isinstance(node, ast.Attribute) and node.attr == name
        found += isinstance(node, ast.JoinedStr) and name in ast.unparse(node)
    return found


def selects(texts: Texts) -> bool:
    """Say whether a list picks columns of a table, and does nothing else with them."""
    source, node = texts.source, texts.node
    statement = texts.placed.node
    name = ""
    if isinstance(statement, ast.Assign) and statement.value is node and len(statement.targets) == 1:
        name = plain_name(statement.targets[0])
    picks = False
    for one in ast.walk(source.module) if source.module is not None else ():
        if isinstance(one, ast.Subscript):
            parts = one.slice.elts if isinstance(one.slice, ast.Tuple) else [one.slice]
            if any(_is(part, node, name) for part in parts):
                if not isinstance(one.ctx, ast.Load):
                    return False
                picks = True
        elif isinstance(one, ast.Call):
            for keyword in one.keywords:
                if keyword.arg in (*SELECTS, *NAMES) and _is(keyword.value, node, name):
                    if keyword.arg in NAMES or plain_name(one.func).rpartition(".")[2] in MAKES:
                        return False
                    picks = True
    return picks


def _is(part: ast.expr, node: ast.expr, name: str) -> bool:
    return part is node or (bool(name) and plain_name(part) == name)


def _changed(lists: Sequence[Texts], names: Sequence[str], *, joins: bool) -> tuple[Search, ...] | None:
    """Return lists without names, or with them, as blocks that were tried: what is parsed again says what was meant."""
    found: list[Search] = []
    by_file: dict[str, list[Texts]] = {}
    for one in lists:
        by_file.setdefault(one.source.file, []).append(one)
    for file, here in by_file.items():
        source = here[0].source
        edits: list[Edit] = []
        for one in here:
            edits += _joined(one, names) if joins else _left(one, names)
        wanted = [
            (*one.names, *names) if joins else tuple(name for name in one.names if name not in names) for one in here
        ]
        if not _came_out(source, here, edits, wanted):
            return None
        blocks = searches(file, source.text, edits)
        if blocks is None:
            return None
        found += blocks
    return tuple(found) or None


def _joined(texts: Texts, names: Sequence[str]) -> list[Edit]:
    last = texts.node.elts[-1]
    quote = "'" if texts.source.segment(last).lstrip("rRbBuU").startswith("'") else '"'
    told = "".join(f", {repr(name) if quote == chr(39) else _double(name)}" for name in names)
    at = texts.source.place(last.end_lineno or 0, last.end_col_offset or 0)
    return [Edit(at, at, told)]


def _double(name: str) -> str:
    return f'"{name}"' if "\\" not in name and '"' not in name and name.isprintable() else repr(name)


def _left(texts: Texts, names: Sequence[str]) -> list[Edit]:
    source = texts.source
    elements = texts.node.elts
    gone = [isinstance(one, ast.Constant) and one.value in names for one in elements]
    edits: list[Edit] = []
    for n, one in enumerate(elements):
        if not gone[n]:
            continue
        start = source.place(one.lineno, one.col_offset)
        end = source.place(one.end_lineno or 0, one.end_col_offset or 0)
        following = elements[n + 1] if n + 1 < len(elements) else None
        if following is not None and following.lineno == one.end_lineno:
            end = source.place(following.lineno, following.col_offset)
        elif following is None and (before := _kept_before(texts, gone, n)) is not None:
            # the comma before it goes, too; others of the end that go are inside this one
            edits = [edit for edit in edits if edit.start < before]
            start = before
        else:
            end = _behind_comma(source.text, end)
        if edits and edits[-1].end == start:
            start = edits.pop().start
        edits.append(Edit(start, end, ""))
    return [Edit(*_whole_line(source.text, one.start, one.end), "") for one in edits]


def _kept_before(texts: Texts, gone: Sequence[bool], last: int) -> int | None:
    """Return where the last element that stays ends, if it is on the last one's line, and a list may end there."""
    kept = [n for n, is_gone in enumerate(gone) if not is_gone]
    one = texts.node.elts[kept[-1]] if kept else None
    alone = isinstance(texts.node, ast.Tuple) and len(kept) == 1  # it needs its comma
    if one is None or alone or one.end_lineno != texts.node.elts[last].lineno:
        return None
    return texts.source.place(one.end_lineno or 0, one.end_col_offset or 0)


def _behind_comma(text: str, end: int) -> int:
    after = end
    while after < len(text) and text[after] in " \t":
        after += 1
    return after + 1 if text[after : after + 1] == "," else end


def _whole_line(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the place with its line's indentation and end, and its marks, if nothing else is on the line."""
    marked = with_marks(text, start, end)
    first = marked[0]
    while first > 0 and text[first - 1] in " \t":
        first -= 1
    last = marked[1]
    while last < len(text) and text[last] in " \t":
        last += 1
    if (first > 0 and text[first - 1] not in "\r\n") or text[last : last + 1] not in ("\r", "\n"):
        return start, end
    return first, last + (2 if text[last : last + 2] == "\r\n" else 1)


def _came_out(source: Source, lists: Sequence[Texts], edits: Sequence[Edit], wanted: Sequence[Sequence[str]]) -> bool:
    """Say whether the changed source has exactly the lists that were meant, and is otherwise the same."""
    assert source.module is not None
    try:
        new = ast.parse(edited(source.text, edits))
    except SyntaxError:
        return False
    found = [one for one in ast.walk(new) if isinstance(one, ast.List | ast.Tuple | ast.Set)]
    old = [one for one in ast.walk(source.module) if isinstance(one, ast.List | ast.Tuple | ast.Set)]
    if len(found) != len(old):
        return False
    expected = {id(one.node): list(names) for one, names in zip(lists, wanted, strict=True)}
    for before, after in zip(old, found, strict=True):
        if id(before) in expected:
            if type(before) is not type(after) or [literal(one) for one in after.elts] != expected[id(before)]:
                return False
        elif not any(id(one) in expected for one in ast.walk(before)) and ast.dump(before) != ast.dump(after):
            return False
    return True
