"""What an ablation can take away: ``etude.components.layer("conv2", with_="relu2")``, and others.

For everyday use the same goes as text: ``"layer:conv2"``, ``"feature:age"``, ``"dropout"``.
"""

from __future__ import annotations

from etude.ablate.components import Component, read_component
from etude.ablate.listing import Feature, Layer, Listing, Setting
from etude.ablate.making import (
    between,
    channel,
    custom,
    differences,
    feature,
    filters,
    heads,
    layer,
    modality,
    of_type,
    setting,
    units,
)
from etude.ablate.matching import Matched, match

__all__ = [
    "Component",
    "Feature",
    "Layer",
    "Listing",
    "Matched",
    "Setting",
    "between",
    "channel",
    "custom",
    "differences",
    "feature",
    "filters",
    "heads",
    "layer",
    "match",
    "modality",
    "of_type",
    "read_component",
    "setting",
    "units",
]
