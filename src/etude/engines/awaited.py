"""How an engine says that it will never have the workers that a study waits for."""

from __future__ import annotations


def awaited(least: int, ranks: int) -> str:
    """Say what a study waits for before its first trial.

    Args:
        least: How many workers, counted by rank.
        ranks: How many of them train each trial together.

    Example:
        >>> awaited(4, 4)
        'The 4 ranks of a trial start together'
    """
    trials = least // ranks
    if ranks == 1:
        return f"The first trial waits for {least} workers"
    if trials == 1:
        return f"The {ranks} ranks of a trial start together"
    return f"The first trial waits until {trials} could run, of {ranks} ranks each"


def fewer(room: int, ranks: int) -> str:
    """Say what could be passed instead, given how many workers there is room for: at least one.

    Example:
        >>> fewer(3, 4)
        'ranks=3'
    """
    return f"workers=({room // ranks}, None)" if room >= ranks else f"ranks={room}"
