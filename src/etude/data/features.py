"""Which features data has: their names, where they belong, and which input columns are theirs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from etude.core.data import Data
from etude.core.text import count
from etude.data.counted import columns_in
from etude.data.spots import CHANNEL, find, walk
from etude.data.without import parts_of


@dataclass(frozen=True)
class Named:
    """A feature of the data, or a channel of its images.

    Attributes:
        name: Its name; of a channel, its number or name.
        kind: Which of the two it is.
        modality: The modality that it belongs to, if there are such.
        role: ``"label"`` for what is to be predicted, ``"id"`` for what only tells examples apart.
        columns: How many columns or places it has: a text that was encoded as categories has several.
    """

    name: str
    kind: Literal["feature", "channel"] = "feature"
    modality: str = ""
    role: Literal["", "label", "id"] = ""
    columns: int = 1


def features_of(found: Any) -> tuple[Named, ...]:
    """Return the features of what a data function returned, in their order, each once.

    Args:
        found: A ``Data``, whose training part is looked at; or parts of data, of which all are.

    Example:
        >>> data = Data({"age": [31, 45], "sex": ["f", "m"], "y": [0, 1]}, target="y")
        >>> [(feature.name, feature.role) for feature in features_of(data)]
        [('age', ''), ('sex', ''), ('y', 'label')]
    """
    told = found if isinstance(found, Data) else Data(None)
    parts = [found.train] if isinstance(found, Data) else list(parts_of(found).values())
    modality_of = {name: modality for modality, names in told.modalities.items() for name in names}
    known: dict[str, Named] = {}
    for part in parts:
        here: dict[str, Named] = {}
        for spot in walk(find(part, told)):
            for name in spot.names:
                plain = name.removeprefix(CHANNEL)
                role: Any = "label" if name in told.target else "id" if name in told.ids else ""
                kind: Any = "feature" if plain == name else "channel"
                there = here[name].columns if name in here else 0
                modality = modality_of.get(name, "" if kind == "channel" or role else _modality(spot.modality, name))
                here[name] = Named(plain, kind, modality, role, there + 1)
        known = {**here, **known}
    return tuple(known.values())


def why_nameless(found: Any) -> str:
    """Return why the names of columns that a data function gives are nobody's, as a sentence; nothing if they are.

    Example:
        >>> import numpy as np
        >>> why_nameless(Data(np.zeros((2, 3)), features=["age", "fare"])).partition(".")[0]
        'features= has 2 names, and no array of the training part has 2 columns'
    """
    told = found.features if isinstance(found, Data) else None
    if not isinstance(told, tuple) or not told or any(one.kind == "feature" for one in features_of(found)):
        return ""
    n = count(len(told), "name")
    return (
        f"features= has {n}, and no array of the training part has {count(len(told), 'column')}. Give one name for "
        "each column, that of a feature with several columns once for each."
    )


def columns_without(columns: Sequence[str], gone: Collection[str]) -> tuple[int, ...]:
    """Return which input columns are left when features are dropped, by number.

    Args:
        columns: For each column the name of its feature, in order.
        gone: The names of features.

    Example:
        >>> columns_without(["age", "sex", "sex", "fare"], {"sex"})
        (0, 3)
    """
    return tuple(place for place, name in enumerate(columns) if name not in gone)


def kept_without(found: Any, gone: Collection[str]) -> list[tuple[int, tuple[int, ...]]]:
    """Return what is left of columns, channels or fields when features are dropped, for each place that has them.

    Args:
        found: What a data function returned, whole; its training part, or the first, is looked at.
        gone: The addresses of the features.

    Returns:
        How many there were, and which of them are left, by number; first of all input columns together.

    Example:
        >>> kept_without(Data({"age": [31, 45], "sex": ["f", "m"], "y": [0, 1]}, target="y"), {"age"})
        [(2, (1,))]
    """
    told = found if isinstance(found, Data) else Data(None)
    part = found.train if isinstance(found, Data) else next(iter(parts_of(found).values()), None)
    spots = find(part, told)
    others = {*told.target, *told.ids}
    groups = [columns_in(spots, told), *([n for n in spot.names if n not in others] for spot in walk(spots))]
    kept = [(len(names), columns_without(names, gone)) for names in groups if not set(gone).isdisjoint(names)]
    return list(dict.fromkeys(kept))


def _modality(field: str, name: str) -> str:
    return field if field != name else ""
