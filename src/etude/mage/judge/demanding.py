"""What is demanded to be equal, and what a shorter list is to a longer one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from etude.mage.judge.comparing import same, shown
from etude.mage.judge.findings import Finding, fails


def equal(what: str, before: Any, after: Any, weigh: Any = fails) -> Iterator[Finding]:
    """Yield a finding if something is not as in the baseline."""
    if not same(before, after):
        verb = (
            "are"
            if what.startswith(("The shapes", "The numbers", "The schedulers", "The seeds", "The columns"))
            else "is"
        )
        yield weigh(
            f"{what} {verb} {shown(after)}, {shown(before)} in the baseline, and no claim says so.",
            claim=f"{what[0].lower()}{what[1:]} as in the baseline",
            expected=shown(before),
            found=shown(after),
        )


def is_part(few: Sequence[Any], many: Sequence[Any]) -> bool:
    """Say whether some values stand in others in the same order."""
    rest = iter(many)
    return all(any(same(one, other) for other in rest) for one in few)


def is_without(before: Any, after: Any, columns: Sequence[str]) -> bool:
    """Say whether a value has lost columns: a list their names, a number as many."""
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        return same([one for one in before if one not in columns], after) or (
            len(before) - len(after) == len(columns) and is_part(after, before)
        )
    if isinstance(before, bool) or isinstance(after, bool):
        return False
    return isinstance(before, int) and isinstance(after, int) and before - after == len(columns)
