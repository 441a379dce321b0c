"""Control arms: the whole model, narrowed evenly to as many parameters as an arm has: is it the part, or the size?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from etude.ablate.arms import control_of
from etude.ablate.listing import Layer, Listing
from etude.core.errors import ConfigError
from etude.core.removal import Arm, Layers, Part
from etude.verbs.repairing import PlannedArm, Repairs

CLOSE: Final = 0.02
"""A control has as many parameters as its arm, give or take this share."""

STEPS: Final = 12
"""So many times the share that goes is halved."""

MOST: Final = 24
"""No more layers than this are narrowed: of many equal ones each would have to be tried."""


class Wide(NamedTuple):
    """A layer that can be narrowed: its path, what is counted of it, and how many there are."""

    path: str
    of: str
    n: int


def controls_for(
    planned: Sequence[PlannedArm], repairs: Repairs, listing: Listing, *, asked: bool | None
) -> tuple[list[PlannedArm], dict[str, str]]:
    """Return the control arms that go with arms, and why others have none.

    Args:
        planned: The arms.
        repairs: Plans them.
        listing: What there is in the model.
        asked: Whether arms get controls; None for those whose repair is ``learned``.

    Returns:
        The controls, and for the name of each arm that gets none and should, why.
    """
    found: list[PlannedArm] = []
    said: dict[str, str] = {}
    for one in planned:
        learned = one.arm.layers is not None and one.arm.layers.repair == "learned"
        wanted = asked if asked is not None else learned
        if not wanted or one.refused or one.arm.layers is None or one.parameters is None:
            continue
        assert repairs.parameters is not None
        if abs(repairs.parameters - one.parameters) <= CLOSE * one.parameters:
            continue  # the base is its control
        try:
            found.append(control(one, repairs, listing))
        except ConfigError as error:
            said[one.arm.name] = f"no control of its size: {error}"
    return found, said


def control(of: PlannedArm, repairs: Repairs, listing: Listing) -> PlannedArm:
    """Return the whole model with so many units and filters less that it has as many parameters as an arm.

    Raises:
        ConfigError: It cannot be narrowed so.
    """
    target = of.parameters
    assert target is not None
    if repairs.parameters is not None and repairs.parameters < target:
        raise ConfigError("it has more parameters than the base, which can only be narrowed.")
    layers = [one for one in _wide(listing.layers) if not repairs.of(_without("", [one], 1 / one.n)).refused][:MOST]
    if not layers:
        raise ConfigError("no layer of the base can be narrowed by itself.")
    low, high, best = 0.0, 1.0, None
    for _ in range(STEPS):
        share = (low + high) / 2
        tried = repairs.of(_without(control_of(of.arm.name), layers, share))
        if tried.refused or tried.parameters is None or tried.parameters < target:
            high = share
        else:
            low = share
        if tried.parameters is not None and not tried.refused:
            if best is None or abs(tried.parameters - target) < abs((best.parameters or 0) - target):
                best = tried
            if abs(tried.parameters - target) <= CLOSE * target:
                return tried
    nearest = f"the nearest has {best.parameters:,}" if best is not None else "none of the widths tried runs"
    raise ConfigError(f"the base cannot be narrowed to {target:,} parameters within {CLOSE:.0%}; {nearest}.")


def _wide(layers: Sequence[Layer]) -> Iterator[Wide]:
    for layer in layers:
        of, n = ("units", layer.units) if layer.units is not None else ("filters", layer.filters)
        if n is not None and n > 1 and layer.called and not layer.role:
            yield Wide(layer.path, of, n)


def _without(name: str, layers: Sequence[Wide], share: float) -> Arm:
    """Return the arm without a share of the units or filters of each layer, the last of them, one of each left."""
    parts = []
    for nth, one in enumerate(layers):
        gone = min(one.n - 1, int(share * one.n + (nth + 0.5) / len(layers)))  # rounded here and there up
        if gone:
            parts.append(Part(one.path, one.of, tuple(range(one.n - gone, one.n))))  # type: ignore[arg-type]
    return Arm(name, layers=Layers(tuple(parts)) if parts else None)
