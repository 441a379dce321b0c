"""Variants that are alike come of one patch: the program takes their names, and nobody is asked again.

Leaving out six features and all their pairs is one idea and 21 trials. Where no rule writes them, one patch gives the
program an argument, and each trial passes names to it. A patched program can behave differently even without its
argument, which independent patches cannot: so that it does not is demanded first, at the rung of the baseline.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from etude.core.errors import ConfigError
from etude.core.text import count
from etude.mage.facts import Facts
from etude.mage.handover.components import Accepted
from etude.mage.judge.baseline import Baseline
from etude.mage.judge.judging import judge, judge_baseline
from etude.mage.patch.blocks import Patch
from etude.mage.tree import Tree
from etude.mage.values import Value
from etude.mage.variants import Plan, Route, Variant
from etude.mage.verdicts import Verdict
from etude.mage.witnesses import ColumnsGone

NAME: Final = "parametrised"
FLAG: Final = "--without"
FEWEST: Final = 4
"""So many variants that are alike are worth an argument; fewer are better off as patches that cannot touch the base."""


class Group(Value, frozen=True):
    """Variants that differ in names alone.

    Attributes:
        variants: The variants; each lacks certain columns, and nothing else.
        files: What their patch may change.
    """

    variants: tuple[Variant, ...]
    files: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that any of them lacks."""
        return tuple(dict.fromkeys(name for one in self.variants for name in columns_of(one)))


def alike(plan: Plan, *, fewest: int = FEWEST) -> Group | None:
    """Return the variants of a plan that lack columns and nothing else, and no rule writes; None if they are too few.

    Args:
        plan: The plan.
        fewest: So many are worth it.
    """
    asked = [one for one in plan.variants if one.route is Route.MODEL and not one.unclear]
    found = [one for one in asked if columns_of(one)]
    if len(found) < fewest:
        return None
    return Group(variants=tuple(found), files=tuple(dict.fromkeys(file for one in found for file in one.files)))


def columns_of(variant: Variant) -> tuple[str, ...]:
    """Return the columns that a variant lacks, if that is all that is claimed of it; else none."""
    claims = variant.witnesses
    if not claims or not all(isinstance(one, ColumnsGone) for one in claims):
        return ()
    return tuple(name for one in claims if isinstance(one, ColumnsGone) for name in one.columns)


def asked_for(group: Group) -> Variant:
    """Return the one variant that is asked for in place of a group."""
    example = ",".join(group.columns[:2])
    return Variant(
        name=NAME,
        intent=(
            f"The program takes one more argument, `{FLAG} NAMES`, with names of columns that are separated by commas, "
            f"as in `{FLAG} {example}`. Those columns are left out of the features. Without the argument, or if it is "
            "empty, "
            "the program does exactly what it does now."
        ),
        meaning=f"It is used for {count(len(group.variants), 'trial')}. All rows and all other columns stay.",
        files=group.files,
        route=Route.MODEL,
    )


def spread(group: Group, patch: Patch, tree: Tree) -> list[Accepted]:
    """Return the variants of a group, all of one patch, each with its argument.

    Args:
        group: The group.
        patch: The patch that gives the program its argument.
        tree: What the project's tree becomes by it.

    Raises:
        ConfigError: A column has a comma in its name.
    """
    if odd := [name for name in group.columns if "," in name]:
        raise ConfigError(
            f"{odd[0]!r} has a comma in it, which separates names in {FLAG}. Have its variants written one by one."
        )
    return [Accepted(one.name, patch, tree, (FLAG, ",".join(columns_of(one)))) for one in group.variants]


def entry_with(entry: str, more: Sequence[str]) -> str:
    """Return the command of a variant: an entry with more arguments."""
    return f"{entry} {shlex.join(more)}" if more else entry


def judge_group(
    group: Group, patch: Patch, tree: Tree, *, base: Baseline, entry: str, probe: Callable[[Tree, str], Facts]
) -> Mapping[str, Verdict]:
    """Return a verdict on each variant of a group; the parametrised program without its argument is judged first.

    If that is not what the untouched program does, no variant is run: all would be compared with something else.

    Args:
        group: The group.
        patch: The patch.
        tree: What the project's tree becomes by it.
        base: What the untouched program does.
        entry: How it is run.
        probe: Runs a tree by an entry, and tells what it did.

    Returns:
        By name: ``parametrised`` for the program without its argument, then the variants.
    """
    found = {NAME: judge_baseline(base, probe(tree, entry), patch=patch)}
    if not found[NAME].passed:
        return found
    for variant, one in zip(group.variants, spread(group, patch, tree), strict=True):
        found[variant.name] = judge(variant, base, probe(tree, entry_with(entry, one.more)), patch=patch)
    return found
