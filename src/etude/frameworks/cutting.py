"""Inputs that are cut off a model, for features that are dropped: what the frameworks have in common."""

from __future__ import annotations

from typing import NamedTuple

from etude.core.errors import ConfigError


class CannotCutError(ConfigError):
    """Nobody can tell which weights belong to a feature; the text says why, as part of a sentence."""


class Kept(NamedTuple):
    """Columns, fields or channels that are left, by number, and how many there were."""

    of: int
    places: tuple[int, ...]
