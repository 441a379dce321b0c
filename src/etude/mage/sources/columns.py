"""The columns of a project's tables: as they were seen, as its sources list them, or as a table's first line says."""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from etude.mage.facts import Facts
from etude.mage.sources.literals import UNKNOWN, argument, literal
from etude.mage.sources.source import Placed, Source, plain_name, sources
from etude.mage.tree import Tree

READS: Final = ("read_csv", "read_table")
LONGEST_LINE: Final = 1_000_000


@dataclass(frozen=True, eq=False)
class Texts:
    """A list of texts that stands in a source.

    Attributes:
        names: The texts.
        node: The list.
        source: The file.
        placed: The statement.
        use: What becomes of it: ``dropped`` by ``drop(columns=...)``, ``left out`` by ``not in``, or ``listed``.
    """

    names: tuple[str, ...]
    node: ast.List | ast.Tuple | ast.Set
    source: Source
    placed: Placed
    use: str


def columns_seen(facts: Facts | None) -> tuple[str, ...]:
    """Return the columns that reached ``fit``, by name; nothing where they have numbers only."""
    for fit in facts.fits if facts is not None else ():
        if any(not name.isdigit() for name in fit.columns):
            return fit.columns
    return ()


def columns_of_data(root: Path, tree: Tree) -> tuple[str, ...]:
    """Return the columns of the tables that the sources read by a path of the project; of each, only its first line.

    Args:
        root: The project's folder.
        tree: Its files.
    """
    root = root.resolve()
    found: list[str] = []
    for source in sources(tree):
        for node in source.nodes:
            if not isinstance(node, ast.Call) or plain_name(node.func).rpartition(".")[2] not in READS:
                continue
            path = literal(argument(node, "filepath_or_buffer", ("filepath_or_buffer", "sep")))
            separator = literal(argument(node, "sep", ("filepath_or_buffer", "sep")))
            names = literal(argument(node, "names", ()))
            if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
                found += names
            elif isinstance(path, str):
                found += _first_line(root, path, separator if isinstance(separator, str) else ",")
    return tuple(dict.fromkeys(found))


def _first_line(root: Path, path: str, separator: str) -> list[str]:
    try:
        file = (root / path).resolve()
        if not file.is_relative_to(root) or not file.is_file() or len(separator) != 1:
            return []
        with file.open(encoding="utf-8-sig", newline="") as lines:
            row = next(csv.reader([lines.readline(LONGEST_LINE)], delimiter=separator), [])
    except (OSError, UnicodeDecodeError, ValueError, csv.Error):
        return []
    return [name.strip() for name in row if name.strip()]


def texts_in(tree: Tree) -> Iterator[Texts]:
    """Yield the lists of texts in the sources of a tree, with what becomes of them."""
    for source in sources(tree):
        uses = _uses(source)
        for placed in source.statements:
            if not placed.is_simple:
                continue
            for node in ast.walk(placed.node):
                if isinstance(node, ast.List | ast.Tuple | ast.Set):
                    names = literal(node)
                    if names is UNKNOWN or not names or not all(isinstance(name, str) for name in names):
                        continue
                    use = uses.get(id(node)) or _use_by_name(placed, node, source, uses)
                    ordered = tuple(str(one.value) for one in node.elts if isinstance(one, ast.Constant))
                    yield Texts(ordered, node, source, placed, use or "listed")


def _uses(source: Source) -> dict[object, str]:
    """Return what becomes of lists, by the list itself or by the name that it has."""
    found: dict[object, str] = {}
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "drop":
            columns = argument(node, "columns", ())
            axis = literal(argument(node, "axis", ("labels", "axis")))
            if columns is None and axis in (1, "columns"):
                columns = argument(node, "labels", ("labels",))
            if columns is not None:
                found[_key(columns)] = "dropped"
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.NotIn):
            found[_key(node.comparators[0])] = "left out"
    return found


def _key(node: ast.expr) -> object:
    return plain_name(node) or id(node)


def _use_by_name(placed: Placed, node: ast.expr, source: Source, uses: dict[object, str]) -> str:
    statement = placed.node
    if isinstance(statement, ast.Assign) and statement.value is node and isinstance(statement.targets[0], ast.Name):
        return uses.get(statement.targets[0].id, "")
    return ""
