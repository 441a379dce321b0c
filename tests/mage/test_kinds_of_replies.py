"""Each kind of bad reply that was named is shown by a case that is there."""

from __future__ import annotations

import bad_replies
import pytest
import test_sharing
import variants_by_hand
from kinds_of_replies import BAD, KINDS, SHARED, WRONG

THERE = {
    BAD: {one.name for one in bad_replies.BAD},
    WRONG: {one.name for one in variants_by_hand.WRONG},
    SHARED: {name for name in vars(test_sharing) if name.startswith("test_")},
}


def test_all_nineteen_kinds_are_listed() -> None:
    assert len(KINDS) == 19


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_cases_and_they_are_there(kind: str) -> None:
    assert KINDS[kind]
    for module, name in KINDS[kind]:
        assert name in THERE[module], f"{kind}: {module} has no {name!r}"
