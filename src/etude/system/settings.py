"""Which knobs are tuned, which of them together, and which settings that makes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from etude.core.errors import ConfigError
from etude.core.near import did_you_mean
from etude.system.knobs import Effect, Knob, Setting


def chosen(knobs: Mapping[str, Knob], named: Iterable[str] | None = None, *, rounding: bool = True) -> tuple[Knob, ...]:
    """Return the knobs that are to be tuned.

    Args:
        knobs: As ``catalogue`` returns them.
        named: Which; None for all that are there, and have no effect that somebody would have to want.
        rounding: Whether those are among all that change numbers by rounding; not where runs are compared.

    Raises:
        ConfigError: There is none of that name, or it lacks something here; or one is named twice.
    """
    if named is None:
        effects = (Effect.SAME, Effect.ROUNDING) if rounding else (Effect.SAME,)
        return tuple(k for k in knobs.values() if not k.needs and not k.if_named and k.effect in effects)
    names = [named] if isinstance(named, str) else list(named)
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"knobs={names} names {twice[0]!r} twice. Name it once.")
    found = [knob_of(knobs, name) for name in names]
    for knob in found:
        if knob.needs:
            raise ConfigError(f"knobs={names}: {knob.name!r} cannot be tuned here: {knob.needs}")
    return tuple(found)


def knob_of(knobs: Mapping[str, Knob], name: str) -> Knob:
    """Return the knob of that name.

    Raises:
        ConfigError: There is none.
    """
    if name in knobs:
        return knobs[name]
    meant = did_you_mean(str(name), knobs)
    raise ConfigError(f"There is no knob {name!r}. {meant}There are: {', '.join(knobs)}.")


def check_setting(knobs: Mapping[str, Knob], setting: Setting) -> None:
    """See to it that a setting can be applied.

    Raises:
        ConfigError: A knob is not known, lacks something here, or cannot have that value.
    """
    for name, value in setting.items():
        knob_of(knobs, name).check(value)


def together(knobs: Sequence[Knob]) -> tuple[tuple[Knob, ...], ...]:
    """Return knobs in groups: those of one are tried jointly, since the best value of one depends on another."""
    groups: list[list[Knob]] = []
    for knob in knobs:
        near = [g for g in groups if any(other.name in knob.beside or knob.name in other.beside for other in g)]
        groups = [g for g in groups if g not in near]
        groups.append([*itertools.chain.from_iterable(near), knob])
    order = {knob.name: place for place, knob in enumerate(knobs)}
    sorted_groups = [tuple(sorted(group, key=lambda k: order[k.name])) for group in groups]
    return tuple(sorted(sorted_groups, key=lambda group: order[group[0].name]))


def grid(knobs: Sequence[Knob]) -> tuple[Setting, ...]:
    """Return every combination of values of these knobs, the defaults first, without those that say nothing new.

    Example:
        >>> grid([Knob("loader_workers", Effect.SAME, (0, 1), 0), Knob("pin_memory", Effect.SAME, (False,), False)])
        ({'loader_workers': 0, 'pin_memory': False}, {'loader_workers': 1, 'pin_memory': False})
    """
    settings = (
        dict(zip([k.name for k in knobs], values, strict=True))
        for values in itertools.product(*(k.values for k in knobs))
    )
    return tuple(s for s in settings if not says_nothing_new(knobs, s))


def says_nothing_new(knobs: Sequence[Knob], setting: Setting) -> bool:
    """Say whether a setting has a knob that differs from its default where it has no effect."""
    return any(setting.get(knob.only_with, 1) == 0 and setting[knob.name] != knob.default for knob in knobs)
