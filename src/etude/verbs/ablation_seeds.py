"""The training seeds of an ablation: so many of a stream that no search draws from, or those that are listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from etude.ablate.plan import STREAM
from etude.ablate.until import UntilDecided, read_until
from etude.core.errors import ConfigError
from etude.core.numbers import seed_of, seeds_listed, whole
from etude.core.streams import stream_seed
from etude.core.text import brief

MOST_RACED: Final = 500
"""Nobody races with more seeds than that."""


class Seeds(NamedTuple):
    """The training seeds of an ablation.

    Attributes:
        listed: Which.
        stream: The seed of the stream that they are from; None if they were named.
    """

    listed: tuple[int, ...]
    stream: int | None = None


def stream_of(seed: int, n: int = MOST_RACED) -> tuple[int, ...]:
    """Return the first training seeds of the stream that ablations draw them from."""
    return tuple(stream_seed(seed, STREAM, nth, bits=31) for nth in range(n))


def read_seeds(seeds: int | str | UntilDecided | Sequence[int], seed: int, *, chose: int | None) -> Seeds:
    """Return the training seeds of an ablation: so many of a stream that no search draws from, or those listed.

    Args:
        seeds: How many, or which.
        seed: Of the ablation.
        chose: The training seed of the trial whose configuration it has; None if there is none.

    Raises:
        ConfigError: They are none, or one of them chose the configuration.
    """
    if read_until(seeds) is not None:
        stream = seed_of(seed)
        return Seeds(stream_of(stream), stream)
    if not isinstance(seeds, list | tuple | range):
        n = whole("seeds", seeds, 1, "nothing would be run")
        stream = seed_of(seed)
        return Seeds(stream_of(stream, n), stream)
    found = seeds_listed(seeds)
    if chose in found:
        raise ConfigError(
            f"seeds={brief(seeds)} has {chose}, with which the configuration at= was chosen: partly for being lucky "
            "with it, so the base would look better than it is. Leave it out, or pass how many seeds there are to be."
        )
    return Seeds(found)
