"""Which files of a tree import which others, by what their sources say."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from etude.mage.sources.source import Source, is_python, sources
from etude.mage.tree import Tree

SOURCE_FOLDERS = ("", "src/", "lib/")
"""Where packages of a project may lie, beside the folder of the importing file."""


def imports_of(tree: Tree) -> dict[str, tuple[str, ...]]:
    """Return for each Python file the files of the tree that it imports, in the order of its imports."""
    python = {path for path in tree if is_python(path)}
    return {source.file: tuple(dict.fromkeys(_imported(source, python))) for source in sources(tree)}


def _imported(source: Source, python: set[str]) -> Iterator[str]:
    folder = source.file.rpartition("/")[0]
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for one in node.names:
                yield from _absolute(one.name, folder, python)
        elif isinstance(node, ast.ImportFrom):
            names = [one.name for one in node.names]
            base = node.module or ""
            if node.level:
                parts = folder.split("/") if folder else []
                if node.level - 1 > len(parts):
                    continue
                around = parts[: len(parts) - node.level + 1]
                yield from _from("/".join([*around, *filter(None, base.split("."))]), names, python)
            else:
                yield from _absolute(base, folder, python)
                for prefix in _places(folder):
                    yield from _from(prefix + base.replace(".", "/"), names, python)
        elif isinstance(node, ast.Call) and _is_by_text(node):
            text = node.args[0]
            assert isinstance(text, ast.Constant)
            yield from _absolute(str(text.value), folder, python)


def _is_by_text(node: ast.Call) -> bool:
    """Say whether it is ``importlib.import_module("pkg.models")``."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    first = node.args[0] if node.args else None
    return name in ("import_module", "__import__") and isinstance(first, ast.Constant) and isinstance(first.value, str)


def _places(folder: str) -> list[str]:
    return list(dict.fromkeys([*SOURCE_FOLDERS, f"{folder}/" if folder else ""]))


def _absolute(module: str, folder: str, python: set[str]) -> Iterator[str]:
    """Yield the files that importing a module runs: the packages that it is in, and itself."""
    parts = module.split(".") if module else []
    for prefix in _places(folder):
        for n in range(1, len(parts) + 1):
            yield from _one(prefix + "/".join(parts[:n]), python)


def _from(start: str, names: Iterable[str], python: set[str]) -> Iterator[str]:
    yield from _one(start, python)
    for name in names:
        yield from _one(f"{start}/{name}" if start else name, python)


def _one(path: str, python: set[str]) -> Iterator[str]:
    for file in (f"{path}.py", f"{path}/__init__.py", f"{path}.pyi"):
        if file in python:
            yield file


def imported_names(source: Source, tree: Tree) -> dict[str, tuple[str, str]]:
    """Return the names that a source takes from other files of the tree: name -> file and what it is called there.

    A module that is imported as a whole is called nothing there.
    """
    python = {path for path in tree if is_python(path)}
    folder = source.file.rpartition("/")[0]
    found: dict[str, tuple[str, str]] = {}
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom):
            bases = [prefix + (node.module or "").replace(".", "/") for prefix in _places(folder)]
            if node.level:
                parts = folder.split("/") if folder else []
                around = parts[: len(parts) - node.level + 1]
                bases = ["/".join([*around, *filter(None, (node.module or "").split("."))])]
            for one in node.names:
                whole = next((file for base in bases for file in _one(f"{base}/{one.name}".lstrip("/"), python)), None)
                part = next((file for base in bases for file in _one(base, python)), None)
                if whole is not None:
                    found[one.asname or one.name] = (whole, "")
                elif part is not None:
                    found[one.asname or one.name] = (part, one.name)
        elif isinstance(node, ast.Import):
            for one in node.names:
                files = [
                    file for prefix in _places(folder) for file in _one(prefix + one.name.replace(".", "/"), python)
                ]
                if files and (one.asname or "." not in one.name):
                    found[one.asname or one.name] = (files[0], "")
    return found
