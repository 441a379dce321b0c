"""What ablations of a study are called: the same patches go on, others are another one, and none is somebody else's."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from etude.mage.handover.ablations import Patches, name_of

ONE: Patches = {"a": "p"}
BOTH: Patches = {"a": "p", "b": "q"}
OTHER: Patches = {"a": "r", "b": "q"}


@pytest.mark.parametrize(
    ("patches", "earlier", "there", "failed", "wanted", "name"),
    [
        (BOTH, {}, (), (), "", "s"),
        (BOTH, {}, ("s",), (), "", "s"),  # it is there: its variants were written in it
        (BOTH, {"s": BOTH}, ("s",), (), "", "s"),
        (OTHER, {"s": BOTH}, ("s",), (), "", "s-2"),
        (OTHER, {"s": BOTH}, ("s", "s-2", "s-3"), (), "", "s-4"),
        (OTHER, {"s": BOTH, "s-2": ONE}, ("s",), (), "", "s-3"),  # it was written down, and nothing has run yet
        (ONE, {"s": BOTH}, ("s",), (), "s-kept", "s-kept"),
        (ONE, {"s": BOTH}, ("s", "s-kept"), (), "s-kept", "s-2"),
        (ONE, {"s": BOTH, "s-kept": ONE}, ("s", "s-kept"), (), "s-kept", "s-kept"),
        (BOTH, {"s": BOTH}, ("s",), ("s",), "", "s-2"),
        (BOTH, {"s": BOTH, "s-2": BOTH}, ("s", "s-2"), ("s",), "", "s-2"),
        (BOTH, {"s": BOTH, "s-2": BOTH}, ("s", "s-2"), ("s", "s-2"), "", "s-3"),
        (BOTH, {"s": BOTH, "s-2": OTHER}, ("s", "s-2"), ("s-2",), "", "s"),
    ],
)
def test_the_name_of_an_ablation(
    patches: Patches,
    earlier: Mapping[str, Patches],
    there: Collection[str],
    failed: Collection[str],
    wanted: str,
    name: str,
) -> None:
    found = name_of(
        patches,
        study="s",
        earlier=earlier,
        is_taken=there.__contains__,
        has_failed=failed.__contains__,
        wanted=wanted,
    )
    assert found == name
