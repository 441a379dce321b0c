"""How many inputs features make, and what of a data set's description is left when some are gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from etude.core.data import DESCRIBING, Data
from etude.core.errors import ConfigError
from etude.data.spots import CHANNEL, Spot, find, walk

COUNTED: Final = {"n_features": "features", "n_channels": "channels"}
"""Derived values that are counted here, and what they count."""


def derive(data: Data, name: str) -> Any:
    """Return what the features of data say of a Derived parameter that the data function gave no value for.

    Args:
        data: As it is used, without what was taken out.
        name: The parameter: ``n_features``, ``n_channels``, or what ``Data`` calls a part of its description.

    Returns:
        Its value; None if nothing says it.
    """
    if name in DESCRIBING:
        return getattr(data, name) or None
    if name not in COUNTED or data.train is None:
        return None
    return len(_counted(find(data.train, data), data)[COUNTED[name]]) or None


def columns_in(spots: Sequence[Spot], data: Data) -> tuple[str, ...]:
    """Return for each input column, of arrays and tables, which feature it belongs to, in order."""
    others = {*data.target, *data.ids}
    there = (spot for spot in walk(tuple(spots)) if spot.kind != "fields")
    return tuple(name for spot in there for name in spot.names if name not in others and not _is_channel(name))


def counted_without(data: Data, spots: Sequence[Spot], gone: frozenset[str]) -> None:
    """Let the description and the derived values of data tell what is left.

    Args:
        data: It, which is changed where it is.
        spots: Where its features were.
        gone: The addresses of those that were taken out.

    Raises:
        ConfigError: A value that the data function derived counts something else, so that it cannot be known.
    """
    counted = _counted(spots, data)
    for name, what in COUNTED.items():
        said = data.derived.get(name)
        taken = gone & frozenset(counted["all features" if what == "features" else what])
        if said is None or not taken:
            continue
        known = [counted[what], counted[f"all {what}"], counted[f"fields of {what}"]]
        fitting = next((names for names in known if len(names) == said), None)
        if fitting is None:
            raise ConfigError(
                f"{name}={said!r}, as data() gave it, is not how many {what} are there ({len(counted[what])}), so "
                f"nobody knows what it is without {', '.join(sorted(taken))}. Leave {name} out of etude.Data, and it "
                "is counted; or let data() take without: frozenset[str] and leave features out itself."
            )
        data.derived[name] = sum(each not in gone for each in fitting)
    _describe(data, gone)


def _counted(spots: Sequence[Spot], data: Data) -> dict[str, tuple[str, ...]]:
    others = {*data.target, *data.ids}
    there = list(walk(tuple(spots)))
    columns = columns_in(spots, data)
    fields = tuple(name for spot in there if spot.kind == "fields" for name in spot.names if name not in others)
    channels = tuple(name for spot in there for name in spot.names if _is_channel(name))
    return {
        "features": columns or fields,
        "all features": columns + fields,
        "fields of features": fields,
        "channels": channels,
        "all channels": channels,
        "fields of channels": channels,
    }


def _describe(data: Data, gone: frozenset[str]) -> None:
    if isinstance(data.features, dict):
        data.features = {
            name: tuple(each for each in names if each not in gone)
            for name, names in data.features.items()
            if name not in gone
        }
    elif data.features is not None:
        data.features = tuple(name for name in data.features if name not in gone)
    if data.fields is not None:
        data.fields = tuple(name for name in data.fields if name not in gone)
    if isinstance(data.channels, tuple):
        data.channels = tuple(name for name in data.channels if CHANNEL + name not in gone)
    elif isinstance(data.channels, int):
        data.channels -= sum(_is_channel(name) for name in gone)
    data.modalities = {
        modality: tuple(name for name in names if name not in gone) for modality, names in data.modalities.items()
    }


def _is_channel(name: str) -> bool:
    return name.startswith(CHANNEL)
