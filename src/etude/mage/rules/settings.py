"""Gives settings another value where they stand: defaults of flags, fields, constants, entries of configurations."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, Final

from etude.mage.patch.blocks import Search
from etude.mage.patch.editing import Edit, searches
from etude.mage.sources.literals import UNKNOWN
from etude.mage.sources.settings import CONSTANT, ENTRY, FIELD, FLAG, Setting, settings_of
from etude.mage.sources.source import Source, plain_name, read_source, sources
from etude.mage.tree import Tree

PAIRS: Final = {"true": "false", "True": "False", "yes": "no", "on": "off"}


def with_settings(values: Mapping[str, object], tree: Tree) -> tuple[Search, ...] | None:
    """Return the changes after which settings have other values; None if one of them stands at several places.

    Args:
        values: Setting -> value.
        tree: The project's files.
    """
    edits: dict[str, list[Edit]] = {}
    every = settings_of(tree)
    for name, value in values.items():
        known = [one for one in every if one.name == name]
        same = [one for one in every if one.short == name.rpartition(".")[2]]
        if len(known) != 1 or len(same) != 1 or known[0].value is UNKNOWN or _equal(known[0].value, value):
            return None
        edit = _edit(known[0], value, tree)
        if edit is None:
            return None
        edits.setdefault(known[0].file, []).append(edit)
    found: list[Search] = []
    for file, places in edits.items():
        blocks = searches(file, tree.text(file).removeprefix("\ufeff"), places)
        if blocks is None:
            return None
        found += blocks
    return tuple(found) or None


def _equal(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def _edit(setting: Setting, value: Any, tree: Tree) -> Edit | None:
    if setting.kind == ENTRY:
        return _entry(setting, value, tree)
    source = read_source(tree, setting.file)
    if not isinstance(value, bool | int | float | str) or _set_elsewhere(setting, tree):
        return None
    if setting.node is not None:
        node = setting.node
        start = source.place(node.lineno, node.col_offset)
        return Edit(start, source.place(node.end_lineno or 0, node.end_col_offset or 0), repr(value))
    return _default(setting, value, source) if setting.kind == FLAG else None


def _default(setting: Setting, value: Any, source: Source) -> Edit | None:
    """Return that a flag without a default gets one, behind its last argument."""
    assert setting.placed is not None
    call = getattr(setting.placed.node, "value", None)
    if not isinstance(call, ast.Call) or not isinstance(value, bool):
        return None
    last = max(
        (*call.args, *(one.value for one in call.keywords)), key=lambda one: (one.end_lineno, one.end_col_offset)
    )
    at = source.place(last.end_lineno or 0, last.end_col_offset or 0)
    return Edit(at, at, f", default={value!r}")


def _set_elsewhere(setting: Setting, tree: Tree) -> bool:
    """Say whether something else sets it, so that its value here may not count."""
    own = list(ast.walk(setting.placed.node)) if setting.placed is not None else []
    for source in sources(tree):
        for node in ast.walk(source.module) if source.module is not None else ():
            if isinstance(node, ast.Call) and _is_given(setting, node):
                return True
            if not isinstance(node, ast.Attribute | ast.Name) or isinstance(node.ctx, ast.Load) or node in own:
                continue
            # another file may have a constant of this name; what sets an attribute may set ours
            reaches = setting.kind != CONSTANT or isinstance(node, ast.Attribute) or source.file == setting.file
            if reaches and plain_name(node).rpartition(".")[2] == setting.short:
                return True
    return False


def _is_given(setting: Setting, call: ast.Call) -> bool:
    """Say whether a call gives it a value: its class's own, ``replace``, or ``set_defaults`` of a parser."""
    name = plain_name(call.func).rpartition(".")[2]
    named = any(one.arg in (setting.short, None) for one in call.keywords)
    if setting.kind == FIELD:
        return (name == setting.name.partition(".")[0] and (named or bool(call.args))) or (name == "replace" and named)
    return setting.kind == FLAG and name == "set_defaults" and named


def _entry(setting: Setting, value: Any, tree: Tree) -> Edit | None:
    text = tree.text(setting.file).removeprefix("\ufeff")
    lines = re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+", text)
    start = sum(len(line) for line in lines[: setting.line - 1])
    line = lines[setting.line - 1]
    code = line.partition("#")[0] if not setting.file.endswith(".json") else line
    at = start + code.rindex(setting.text)
    new = _spelt(setting, value)
    return Edit(at, at + len(setting.text), new) if new else None


def _spelt(setting: Setting, value: Any) -> str:
    """Return a value as the configuration spells it."""
    if value is False and setting.text in PAIRS:
        return PAIRS[setting.text]
    if isinstance(value, bool):
        opposite = {new: old for old, new in PAIRS.items()}
        return opposite.get(setting.text, "") if value else ""
    if isinstance(value, int | float):
        return repr(value)
    return value if isinstance(value, str) and value.isidentifier() and setting.file.endswith((".yaml", ".yml")) else ""
