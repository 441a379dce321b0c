"""Seeds that are added until it is decided, as an ablation is told of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.text import brief

WORDS: Final = "until decided"
"""The same as text, with its defaults."""


@dataclass(frozen=True)
class UntilDecided:
    """Add a seed to whatever is open, look, and go on until nothing is.

    Args:
        most: With how many seeds it ends, whatever is open then; a few more than would be planned if left out.
        effect: The effect worth finding, in standard deviations of the difference of a pair: components are given up
            that hardly have one.

    Raises:
        ConfigError: A number cannot be.
    """

    most: int | None = None
    effect: float = 1.0

    def __post_init__(self) -> None:
        if self.most is not None and (isinstance(self.most, bool) or not isinstance(self.most, int) or self.most < 1):
            raise ConfigError(f"most={brief(self.most)} is no number of seeds. Pass a whole number, or leave it out.")
        fits = isinstance(self.effect, int | float) and not isinstance(self.effect, bool) and 0 < self.effect < 1e3  # noqa: PLR2004
        if not fits:
            raise ConfigError(f"effect={brief(self.effect)} cannot be. Pass a positive number of standard deviations.")


def until_decided(*, most: int | None = None, effect: float = 1.0) -> UntilDecided:
    """Return what ``ablate(seeds=...)`` takes for seeds that are added until each component is decided.

    Args:
        most: With how many seeds it ends, whatever is open then; a few more than would be planned if left out.
        effect: The effect worth finding, in standard deviations of the difference of a pair.

    Raises:
        ConfigError: A number cannot be.

    Example:
        >>> until_decided(most=40)
        UntilDecided(most=40, effect=1.0)
    """
    return UntilDecided(most, effect)


def read_until(seeds: Any) -> UntilDecided | None:
    """Return what was asked for if seeds are added until it is decided; None if they are said.

    Raises:
        ConfigError: It is another text.
    """
    if isinstance(seeds, UntilDecided):
        return seeds
    if isinstance(seeds, str):
        if seeds == WORDS:
            return UntilDecided()
        raise ConfigError(f"seeds={brief(seeds)} is not known. Pass a number, a list, or {WORDS!r}.")
    return None
