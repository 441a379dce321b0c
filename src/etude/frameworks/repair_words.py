"""What both removers say of a repair."""

from __future__ import annotations


def parameters_in_words(before: int, after: int) -> str:
    """Say how many parameters fewer there are.

    Example:
        >>> parameters_in_words(100_000, 44_640)
        '55,360 fewer parameters'
    """
    if after == before:
        return "as many parameters"
    return f"{abs(before - after):,} {'fewer' if after < before else 'more'} parameters"
