"""Writes variants that need no language model: a rule that is sure of what it does, or nothing.

Columns leave lists or join those that are dropped; settings get another value; modules that change no shape become
identities; statements that are a call and nothing else go. Each result is a block with a text that occurs exactly
once, and goes up the same ladder as what a model or a person writes.
"""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import Final

from etude.mage.facts import Facts
from etude.mage.patch.blocks import Block, Search
from etude.mage.patch.editing import Edit, edited, occurrences
from etude.mage.rules.calls import without_call_at, without_calls
from etude.mage.rules.columns import without_columns
from etude.mage.rules.modules import without_modules
from etude.mage.rules.settings import with_settings
from etude.mage.sources.source import is_python
from etude.mage.tree import Tree
from etude.mage.variants import Variant
from etude.mage.witnesses import CallChanged, CallGone, ColumnsGone, ModuleGone, SettingValue

KNOWN: Final = (ColumnsGone, SettingValue, ModuleGone, CallGone)
"""Claims that a rule may be sure of wherever they are made."""


def write(variant: Variant, tree: Tree, facts: Facts | None = None) -> tuple[Block, ...] | None:
    """Return the changes that make a variant of a project; None if no rule is sure of them.

    Args:
        variant: The variant. One that is unclear is not written.
        tree: The project's files.
        facts: What was seen of it untouched; None if it was not run.
    """
    claims = variant.witnesses
    if variant.unclear or not claims:
        return None
    columns = [name for one in claims if isinstance(one, ColumnsGone) for name in one.columns]
    settings = [one for one in claims if isinstance(one, SettingValue)]
    modules = [one for one in claims if isinstance(one, ModuleGone)]
    calls = [one.name for one in claims if isinstance(one, CallGone)]
    fewer = [one.name for one in claims if isinstance(one, CallChanged) and one.times is None]
    if len(fewer) + sum(isinstance(one, KNOWN) for one in claims) < len(claims):
        return None
    if fewer and len(claims) + len(variant.things) > 2:  # noqa: PLR2004 - one claim of one thing
        return None
    if settings and len(settings) != len(variant.settings):
        return None
    parts: list[tuple[Search, ...] | None] = []
    if columns:
        parts.append(without_columns(columns, tree))
    if settings:
        parts.append(with_settings(variant.settings, tree))
    if modules:
        parts.append(without_modules(variant, modules, tree, facts))
    if calls:
        parts.append(without_calls(calls, tree))
    if fewer:
        parts.append(without_call_at(fewer[0], variant.things[0].declared, tree) if variant.things else None)
    blocks = [block for part in parts if part is not None for block in part]
    return tuple(blocks) if None not in parts and _apply(blocks, tree) else None


def _apply(blocks: list[Search], tree: Tree) -> bool:
    """Say whether blocks apply: each text is found once, none touches another, and what comes of it parses."""
    edits: dict[str, list[Edit]] = {}
    for block in blocks:
        text = tree.text(block.file)
        if occurrences(text, block.search) != 1:
            return False
        start = text.find(block.search)
        edits.setdefault(block.file, []).append(Edit(start, start + len(block.search), block.text))
    for file, places in edits.items():
        if any(one.end > other.start for one, other in pairwise(sorted(places))):
            return False
        if is_python(file):
            try:
                ast.parse(edited(tree.text(file), places).removeprefix("\ufeff"))
            except SyntaxError:
                return False
    return bool(blocks)
