"""Finds the source of what the reference names, for ``sphinx.ext.viewcode``.

Names are documented where users find them, in ``etude`` and its windows, and written elsewhere; and viewcode by itself
knows neither attributes and constants, nor a name that has another one at home.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

Tag = tuple[str, int, int]
"""What viewcode wants to know of a name: its kind, and its first and last line."""

RENAMED: Final = {("etude.results.reading", "read"): "open"}
"""(Module, name there) -> its name in the window."""
BACK: Final = re.compile(r'(?P<there>class="viewcode-back" href="[^"#]*/(?P<window>\w+)\.html#)etude\.(?P<name>[\w.]+)')


def home(app: Any, window: str, name: str) -> str | None:
    """Return the module in which a documented name is written; None if it is none of ours."""
    module = importlib.import_module(window)
    first = name.split(".", maxsplit=1)[0]
    known: dict[str, str] = getattr(module, "_HOME", {})
    found: str = known[first] if first in known else getattr(getattr(module, first), "__module__", "")
    return found if found.startswith("etude.") else None


def source(app: Any, module: str) -> tuple[str, dict[str, Tag]]:
    """Return the text of a module, and where its names are."""
    text = Path(inspect.getfile(importlib.import_module(module))).read_text(encoding="utf-8")
    tags = dict(tags_of(ast.parse(text).body))
    return text, tags | {new: tags[old] for (place, old), new in RENAMED.items() if place == module}


def tags_of(body: list[ast.stmt], within: str = "") -> Iterator[tuple[str, Tag]]:
    """Yield each name that is written in a module or a class, with where it is."""
    for statement in body:
        end = statement.end_lineno or statement.lineno
        match statement:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                is_class = isinstance(statement, ast.ClassDef)
                first = min([statement.lineno, *(decorator.lineno for decorator in statement.decorator_list)])
                yield within + statement.name, ("class" if is_class else "def", first, end)
                if is_class:
                    yield from tags_of(statement.body, f"{within}{statement.name}.")
                elif statement.name == "__init__":
                    for inner in statement.body:
                        yield from ((within + name, ("other", *lines)) for name, lines in _set_on_self(inner))
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield within + name, ("other", statement.lineno, end)


def _set_on_self(statement: ast.stmt) -> Iterator[tuple[str, tuple[int, int]]]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    for target in targets:
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            yield target.attr, (statement.lineno, statement.end_lineno or statement.lineno)


def lead_back(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Have a source lead back to the page that shows its names: viewcode takes all of a file to be in one window."""
    known = {name for name, entry in app.env.get_domain("py").objects.items() if not entry.aliased}

    def led(found: re.Match[str]) -> str:
        own = f"etude.{found['window']}.{found['name']}"
        return f"{found['there']}{own}" if own in known else found[0]

    if page.startswith("_modules/etude/"):
        context["body"] = BACK.sub(led, context["body"])


def setup(app: Any) -> dict[str, Any]:
    """Take part in making the site."""
    app.setup_extension("sphinx.ext.viewcode")
    app.connect("viewcode-follow-imported", home)
    app.connect("viewcode-find-source", source)
    app.connect("html-page-context", lead_back)
    return {"parallel_read_safe": True}
