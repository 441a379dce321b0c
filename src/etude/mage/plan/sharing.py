"""Variants that are alike share one change: the program takes their names, and nobody is asked again.

Leaving out six features and all their pairs is one idea and 21 trials. Where no rule writes them, one change gives the
program an argument, and each trial passes names to it. Such a program can behave differently even without its
argument, which changes of their own cannot: so that it does not is a claim of its own, and is held first.
"""

from __future__ import annotations

from typing import Final

import msgspec

from etude.core.text import count
from etude.mage.sources.entry import experiment_of
from etude.mage.tree import Tree
from etude.mage.variants import Plan, Route, Variant
from etude.mage.witnesses import ColumnsGone, Untouched

NAME: Final = "parametrised"
FLAGS: Final = ("--without", "--leave-out", "--without-columns")
"""What the argument is called: the first that the program does not know already."""
FEWEST: Final = 4
"""So many variants that are alike are worth an argument; fewer are better off as patches that cannot touch the base."""


def shared(plan: Plan, tree: Tree) -> Plan:
    """Return a plan in which variants that lack columns and nothing else share one change, where no rule writes them.

    An experiment of Étude takes no arguments, so its variants stay as they are; so does one that lacks a column with a
    comma in its name.

    Args:
        plan: The plan.
        tree: The project's files.
    """
    alike = [one for one in plan.variants if one.route is Route.MODEL and not one.unclear and _names(one)]
    flag = next((flag for flag in FLAGS if not _is_known(flag, tree)), "")
    if len(alike) < FEWEST or not flag or experiment_of(plan.entry) is not None:
        return plan
    files = tuple(dict.fromkeys(file for one in alike for file in one.files))
    sharing = {
        one.name: msgspec.structs.replace(
            one, route=Route.SHARED, shares=NAME, arguments=(flag, _names(one)), files=files
        )
        for one in alike
    }
    first = next(n for n, one in enumerate(plan.variants) if one.name in sharing)
    every = [sharing.get(one.name, one) for one in plan.variants]
    change = _change(flag, _names(max(alike, key=lambda one: len(columns_of(one)))), len(alike), files)
    return msgspec.structs.replace(plan, variants=(*every[:first], change, *every[first:]))


def columns_of(variant: Variant) -> tuple[str, ...]:
    """Return the columns that a variant lacks, if that is all that is claimed of it; else none."""
    claims = variant.witnesses
    if not claims or not all(isinstance(one, ColumnsGone) for one in claims):
        return ()
    return tuple(name for one in claims if isinstance(one, ColumnsGone) for name in one.columns)


def _names(variant: Variant) -> str:
    columns = columns_of(variant)
    return ",".join(columns) if not any("," in name for name in columns) else ""


def _is_known(flag: str, tree: Tree) -> bool:
    return any(flag in tree.text(path) for path in tree if path.endswith(".py"))


def _change(flag: str, example: str, variants: int, files: tuple[str, ...]) -> Variant:
    return Variant(
        name=NAME,
        intent=(
            f"The program takes one more argument, `{flag} NAMES`, with names of columns that are separated by commas, "
            f"as in `{flag} {example}`. Those columns are left out of the features. Without the argument, or if it is "
            "empty, the program does exactly what it does now."
        ),
        meaning=f"{count(variants, 'variant')} share it. All rows and all other columns stay.",
        files=files,
        witnesses=(Untouched(),),
    )
