"""What both removers say of a repair."""

from __future__ import annotations

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Layers, Part


def parameters_in_words(before: int, after: int) -> str:
    """Say how many parameters fewer there are.

    Example:
        >>> parameters_in_words(100_000, 44_640)
        '55,360 fewer parameters'
    """
    if after == before:
        return "as many parameters"
    return f"{abs(before - after):,} {'fewer' if after < before else 'more'} parameters"


def part_of(refused: RemovalRefused, layers: Layers) -> str:
    """Return which parts of what is refused were asked for; nothing if it was asked for as a whole."""
    return next((one.of for one in layers.targets if isinstance(one, Part) and one.path == refused.what), "")


def with_mend(refused: RemovalRefused, layers: Layers) -> str:
    """Return why a component cannot be taken out, with what draws less anew if that is what is wrong."""
    if refused.code is not RefusalCode.TOO_MUCH:
        return refused.why
    learned = "" if layers.repair == "learned" else ', or allow a small dense layer in its place, repair="learned"'
    return (
        f"{refused.why} Take along what reads it (with_=, or between: up to a layer that gives as much as went in)"
        f"{learned}."
    )
