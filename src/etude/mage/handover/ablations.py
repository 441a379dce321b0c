"""What the ablations of a study are called: no trial is lost, none is run twice, and no other study is met.

The first one is the study itself. Other patches are another ablation: ``STUDY-2``, ``STUDY-3``, the first of these that
no study has. So are the same ones once more, if a trial has failed of which somebody knows: within a study a failed
trial is final, and whoever runs it again believes that it will not fail now. What is left after a variant was pulled
is called ``-kept`` behind that, if no other study is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain, count

Patches = Mapping[str, str]
"""Variant -> the digest of its patch."""


def name_of(
    patches: Patches,
    *,
    study: str,
    earlier: Mapping[str, Patches],
    is_taken: Callable[[str], bool],
    has_failed: Callable[[str], bool],
    wanted: str = "",
) -> str:
    """Return what the ablation of some patches is called: the newest earlier one of just these, or a new name.

    Args:
        patches: What is ablated.
        study: The study's own name.
        earlier: Its ablations so far, by name, in their order.
        is_taken: Says whether there is a study of a name.
        has_failed: Says whether a trial of an earlier ablation has failed, and is to be run again.
        wanted: What a new one is called, if nothing else is.
    """
    same = [name for name, before in earlier.items() if before == patches]
    if same and not has_failed(same[-1]):
        return same[-1]
    if not earlier:
        return study
    names = chain([wanted] if wanted else [], (f"{study}-{n}" for n in count(2)))
    return next(one for one in names if one not in earlier and not is_taken(one))
