"""Variants that share one change: when each of them takes it.

The change is written and judged as a variant of its own. Then the first of those that share it shows whether its
argument does anything, and the others follow: so a change that does not costs one run more, and not one for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from etude.mage.loop.standing import Standing
from etude.mage.loop.states import Stage
from etude.mage.variants import Route

WAITS: Final = "waits for {shares}, the change that it shares with others"
SERVES: Final = frozenset({Stage.SHARED, Stage.ACCEPTED})
"""Where a change can be taken by those that share it."""
_AT_WORK: Final = frozenset({Stage.APPLIED, Stage.CHECKED, Stage.PROBED, Stage.JUDGED})


def is_shared(standings: Mapping[str, Standing], change: Standing) -> bool:
    """Say whether others share the change of a variant."""
    return any(one.shares == change.variant for one in standings.values())


def due(standings: Mapping[str, Standing], change: str) -> list[Standing]:
    """Return those that are to take a change now: the first one alone, until it is known what came of it.

    Args:
        standings: How far all variants are.
        change: The name of the variant that they share.
    """
    own = _sharing(standings, change)
    waiting = [one for one in own if one.stage is Stage.DRAFTING]
    if standings[change].stage not in SERVES or not waiting:
        return []
    if any(one.verdict or one.stage is Stage.GAVE_UP for one in own):
        return waiting
    return [] if at_work(standings, change) else waiting[:1]


def at_work(standings: Mapping[str, Standing], change: str) -> list[Standing]:
    """Return those that have taken a change, and of which it is not known what came of it."""
    return [one for one in _sharing(standings, change) if one.stage in _AT_WORK]


def _sharing(standings: Mapping[str, Standing], change: str) -> list[Standing]:
    return [one for one in standings.values() if one.shares == change and one.route is Route.SHARED]
