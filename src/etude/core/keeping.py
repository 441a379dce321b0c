"""What a call says of the weights that a study keeps."""

from __future__ import annotations

from typing import Final

from etude.core.errors import ConfigError
from etude.core.events import BEST, LAST, USUAL, Keep
from etude.core.numbers import is_finite, whole
from etude.core.text import brief

OPTIMIZERS: Final = "optimizers"
"""In a text, that the states of optimizers are kept as well."""

MAX_GB: Final = "max_gb="
"""In a text, before what all of it may take."""


def read_keep(given: Keep | int | str | None) -> Keep:
    """Return what is to be kept: as an object or a text says, or of so many trials, or what is usual.

    Raises:
        ConfigError: It cannot be.

    Example:
        >>> read_keep(5)
        Keep(trials=5, epochs=('last', 'best'), optimizers=False, max_gb=None)
        >>> read_keep("1,last,25,optimizers,max_gb=2")
        Keep(trials=1, epochs=('last', 25), optimizers=True, max_gb=2.0)
    """
    if given is None:
        return USUAL
    if isinstance(given, str):
        trials, *words = (_word(word.strip()) for word in given.split(","))
        told = [word for word in words if isinstance(word, str)]
        room = next((word.removeprefix(MAX_GB) for word in told if word.startswith(MAX_GB)), None)
        epochs = tuple(word for word in words if word != OPTIMIZERS and not str(word).startswith(MAX_GB))
        given = Keep(trials, epochs or USUAL.epochs, OPTIMIZERS in words, _number(room))  # type: ignore[arg-type] # below
    if not isinstance(given, Keep):
        given = Keep(given)
    if not isinstance(given.epochs, list | tuple):
        raise ConfigError(f"keep=Keep(epochs={brief(given.epochs)}) names no epochs. Pass epochs=('last', 'best', 25).")
    for name in given.epochs:
        number = isinstance(name, int) and not isinstance(name, bool) and name > 0
        if name not in (LAST, BEST) and not number:
            raise ConfigError(
                f"keep has {brief(name)}, which is no epoch. Pass 'last', 'best', and numbers of epochs done, 1 or "
                "more: keep=etude.Keep(trials=3, epochs=('last', 25)), or as text '3,last,25'."
            )
    trials = whole("keep", given.trials, 0, "0 already keeps the weights of no trial")
    if given.max_gb is not None and not (is_finite(given.max_gb) and given.max_gb > 0):
        raise ConfigError(
            f"keep has max_gb={brief(given.max_gb)}, which is no room on a disk. Pass GB above 0: "
            "keep=etude.Keep(max_gb=2), or as text '3,last,best,max_gb=2'; or leave it out."
        )
    return Keep(trials, tuple(given.epochs), bool(given.optimizers), given.max_gb)


def as_text(keep: Keep) -> str:
    """Return it as the text that ``read_keep`` reads.

    Example:
        >>> as_text(Keep(1, ("last", 25)))
        '1,last,25'
    """
    optimizers = [OPTIMIZERS] if keep.optimizers else []
    room = [f"{MAX_GB}{keep.max_gb:g}"] if keep.max_gb is not None else []
    return ",".join(map(str, (keep.trials, *keep.epochs, *optimizers, *room)))


def _number(word: str | None) -> float | str | None:
    try:
        return float(word) if word is not None else None
    except ValueError:
        return word  # refused with all else


def _word(word: str) -> str | int:
    return int(word) if word.isdecimal() else word
