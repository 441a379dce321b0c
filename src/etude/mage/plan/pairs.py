"""All pairs of variants: six features are fifteen pairs, and no model has to write them down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final

import msgspec

from etude.mage.variants import Route, Variant
from etude.mage.witnesses import ColumnsGone, ModuleGone, Witness

MOST_LETTERS: Final = 100
"""File systems take 255 bytes, and names of folders are put together of several."""

Join = Callable[[Variant, Variant], Variant | None]
"""Makes one variant of two whose claims depend on each other; None if they can be put together as they are."""


def pairs(variants: Sequence[Variant], *, join: Join | None = None) -> list[Variant]:
    """Return a variant for each two of some, in which both are gone.

    Args:
        variants: Each with something that goes. One that is unclear, or whose things are those of another one, pairs
            with nothing.
        join: Asked first for each two; None to put claims together as they are.
    """
    whole = [one for one in variants if not one.unclear]
    found = []
    for one, other in combinations(whole, 2):
        if {thing.name for thing in one.things} & {thing.name for thing in other.things}:
            continue
        joined = join(one, other) if join is not None else None
        found.append(joined if joined is not None else together(one, other))
    return found


def together(one: Variant, other: Variant) -> Variant:
    """Return a variant in which what goes in either of two is gone."""
    names = [thing.name for thing in (*one.things, *other.things)]
    by_rule = one.route is other.route is Route.RULE
    return Variant(
        name=name_of(names),
        intent=f"{' and '.join(f'`{name}`' for name in names)} are removed together.",
        things=(*one.things, *other.things),
        meaning=" ".join(dict.fromkeys(filter(None, (one.meaning, other.meaning)))),
        files=tuple(dict.fromkeys((*one.files, *other.files))),
        witnesses=_both(one.witnesses, other.witnesses),
        route=Route.RULE if by_rule else Route.MODEL,
        quote=one.quote if one.quote == other.quote else "",
        settings={**one.settings, **other.settings},
    )


def _both(one: Iterable[Witness], other: Iterable[Witness]) -> tuple[Witness, ...]:
    claims = [*one, *other]
    columns = tuple(name for claim in claims if isinstance(claim, ColumnsGone) for name in claim.columns)
    modules = [claim for claim in claims if isinstance(claim, ModuleGone)]
    resized = _resized(modules)
    found: list[Witness] = [ColumnsGone(columns=tuple(dict.fromkeys(columns)))] if columns else []
    others_stay = all(claim.others_stay for claim in modules)
    found += [msgspec.structs.replace(claim, resized=resized, others_stay=others_stay) for claim in modules]
    found += [claim for claim in claims if not isinstance(claim, ColumnsGone | ModuleGone)]
    return tuple(claim for n, claim in enumerate(found) if claim not in found[:n])


def _resized(claims: Sequence[ModuleGone]) -> Mapping[str, tuple[int, ...] | None]:
    """Return what becomes of others; None where two removals touch the same, so that only the program can tell."""
    found: dict[str, tuple[int, ...] | None] = {}
    gone = [f"{claim.path}." for claim in claims]
    maps = {tuple(claim.resized.items()) for claim in claims}
    touched_gone = any(name.startswith(path) for claim in claims for name in claim.resized for path in gone)
    for claim in claims:
        for name, shape in claim.resized.items():
            if any(name.startswith(path) for path in gone):
                continue
            same = name not in found or found[name] == shape
            found[name] = shape if same and (not touched_gone or len(maps) == 1) else None
    return found


def name_of(names: Iterable[str], prefix: str = "without") -> str:
    """Return the name of a variant that lacks something: letters, digits, dots, hyphens and underscores alone.

    Example:
        >>> name_of(["encoder.conv2", "DER mass (GeV)"])
        'without-encoder.conv2-DER_mass_GeV'
    """
    return f"{prefix}-{'-'.join(filter(None, map(safe, names))) or 'it'}"[:MOST_LETTERS].rstrip("-._")


def safe(name: str) -> str:
    """Return a name with other characters than letters of ASCII, digits, dots, hyphens and underscores replaced."""
    kept = "".join(one if one.isascii() and (one.isalnum() or one in "._-") else "_" for one in name)
    while "__" in kept and "__" not in name:
        kept = kept.replace("__", "_")
    return kept.strip("._-")


def unique(variants: Iterable[Variant]) -> list[Variant]:
    """Return variants with a number behind each name that another one has, whatever its capitals."""
    taken: set[str] = set()
    found = []
    for one in variants:
        name, n = one.name, 1
        while name.lower() in taken:
            n += 1
            name = f"{one.name}-{n}"
        taken.add(name.lower())
        found.append(one if name == one.name else msgspec.structs.replace(one, name=name))
    return found
