"""Writes variants that need no language model: a rule that is sure of what it does, or nothing.

Columns leave lists or join those that are dropped; settings get another value; modules that change no shape become
identities; statements that are a call and nothing else go. Each result is a block with a text that occurs exactly
once, and goes up the same ladder as what a model or a person writes.
"""

from __future__ import annotations

from etude.mage.blocks import Block
from etude.mage.facts import Facts
from etude.mage.rule_calls import without_calls
from etude.mage.rule_columns import without_columns
from etude.mage.rule_modules import without_modules
from etude.mage.rule_settings import with_settings
from etude.mage.tree import Tree
from etude.mage.variants import Variant
from etude.mage.witnesses import CallGone, ColumnsGone, ModuleGone, SettingValue


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
    columns = [one for one in claims if isinstance(one, ColumnsGone)]
    settings = [one for one in claims if isinstance(one, SettingValue)]
    modules = [one for one in claims if isinstance(one, ModuleGone)]
    calls = [one for one in claims if isinstance(one, CallGone)]
    if len(columns) + len(settings) + len(modules) + len(calls) < len(claims):
        return None
    blocks: list[Block] = []
    if columns:
        found = without_columns([name for one in columns for name in one.columns], tree)
        if found is None:
            return None
        blocks += found
    if settings:
        changed = with_settings(variant.settings, tree) if len(variant.settings) == len(settings) else None
        if changed is None:
            return None
        blocks += changed
    if modules:
        replaced = without_modules(variant, modules, tree, facts)
        if replaced is None:
            return None
        blocks += replaced
    if calls:
        removed = without_calls([one.name for one in calls], tree)
        if removed is None:
            return None
        blocks += removed
    kinds = [bool(one) for one in (columns, settings, modules, calls)]
    if sum(kinds) > 1 and not _apart(blocks, tree):
        return None
    return tuple(blocks)


def _apart(blocks: list[Block], tree: Tree) -> bool:
    """Say whether blocks of several rules touch different places."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for block in blocks:
        search = getattr(block, "search", None)
        if search is None:
            return False
        start = tree.text(block.file).find(search)
        spans.setdefault(block.file, []).append((start, start + len(search)))
    for found in spans.values():
        found.sort()
        if any(one[1] > other[0] for one, other in zip(found, found[1:], strict=False)):
            return False
    return True
