"""What can be seen of a patch without running it: whether it can be read, and whether it keeps to the rules."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from etude.mage.patch.blocks import Patch
from etude.mage.patch.diffs import read_diff
from etude.mage.patch.lines import BOM
from etude.mage.patch.making import NOT_PLANNED, patched
from etude.mage.static.constants import changed_constants
from etude.mage.static.dangers import find_dangers, new_writes
from etude.mage.static.evaluation import find_edits
from etude.mage.static.lint import read_errors, undefined_names
from etude.mage.static.marked import find_lost_marks
from etude.mage.static.policy import GOES_TO, MOST_LINES, Broken, Change, Named, Rule, named_by
from etude.mage.static.reformatting import find_reformatting
from etude.mage.static.setting_only import find_more_than_a_setting
from etude.mage.static.standing_in import find_stand_ins
from etude.mage.static.training import changed_training
from etude.mage.static.unseen import find_invisible
from etude.mage.tree import Tree
from etude.mage.variants import Variant
from etude.mage.verdicts import Outcome, Reason, Rung, Verdict


def check(
    tree: Tree, patch: Patch, variant: Variant, *, plan_files: Collection[str] | None = None
) -> tuple[Verdict, ...]:
    """Return what the rungs PARSE and POLICY say of a patch.

    Args:
        tree: The untouched files.
        patch: The patch.
        variant: What is wanted. What it names may change.
        plan_files: The files that may change; None for those of the variant.

    Raises:
        PatchRefused: The patch was made for another tree.
    """
    changes = _changes(tree, patched(tree, patch), patch)
    unread = tuple(reason for change in changes for reason in _unread(change))
    parse = Verdict(
        rung=Rung.PARSE, outcome=Outcome.FAILED if unread else Outcome.PASSED, reasons=unread, patch=patch.digest
    )
    allowed = variant.files if plan_files is None else plan_files
    named = named_by(variant)
    found = [*_plan(patch, changes, allowed), *(one for change in changes for one in _looked_at(change, named))]
    broken = [one for one in found if isinstance(one, Broken)]
    alarms = tuple(one for one in found if isinstance(one, str))
    return parse, Verdict(
        rung=Rung.POLICY,
        outcome=_worst(broken),
        reasons=tuple(one.reason for one in broken),
        alarms=alarms,
        patch=patch.digest,
    )


def _worst(broken: list[Broken]) -> Outcome:
    outcomes = {GOES_TO[one.rule] for one in broken}
    return next((one for one in (Outcome.FAILED, Outcome.FOR_A_PERSON) if one in outcomes), Outcome.PASSED)


def _changes(base: Tree, new: Tree, patch: Patch) -> list[Change]:
    return [Change(one, _text(base, one.path), _text(new, one.path)) for one in read_diff(patch.diff)]


def _text(tree: Tree, path: str) -> str:
    return tree.text(path).removeprefix(BOM) if path in tree else ""


def _unread(change: Change) -> Iterator[Reason]:
    if not change.diff.stays:
        return
    errors = list(read_errors(change))
    yield from errors
    if change.python and not errors:
        yield from undefined_names(change)


def _plan(patch: Patch, changes: list[Change], allowed: Collection[str]) -> Iterator[Broken]:
    for file in patch.files:
        if file not in allowed:
            yield Broken(Rule.FILES, NOT_PLANNED.format(file=file), expected=", ".join(sorted(allowed)), found=file)
    lines = sum(len(change.diff.numbered(sign)) for change in changes for sign in "-+")
    if lines > MOST_LINES:
        text = f"The patch changes {lines} lines, more than the {MOST_LINES} of a small change."
        yield Broken(Rule.SIZE, text, expected=f"{MOST_LINES} lines at most", found=f"{lines} lines")


def _looked_at(change: Change, named: Named) -> list[Broken | str]:
    """Return what rules find; that they cannot look at it, where expressions are deeper than Python can go."""
    try:
        return list(_found(change, named))
    except RecursionError:
        text = f"{change.path} has an expression that is nested too deeply to be looked at."
        return [Broken(Rule.SIZE, text, expected="what can be looked at", found="too deep")]


def _found(change: Change, named: Named) -> Iterator[Broken | str]:
    yield from find_invisible(change)
    yield from find_lost_marks(change, named)
    yield from find_reformatting(change)
    yield from find_dangers(change)
    yield from find_edits(change, named)
    yield from changed_constants(change, named)
    yield from changed_training(change, named)
    yield from find_stand_ins(change, named)
    yield from find_more_than_a_setting(change, named)
    yield from new_writes(change)
