"""One step of a course, as it has to be, wherever it comes from."""

from __future__ import annotations

from typing import Any, Final

from etude.core.errors import ResultError
from etude.core.text import brief
from etude.worker.result import as_number

LONGEST_S: Final = 1e12
"""The most seconds that a step or a latency may take, some 30,000 years: sums of them stay numbers."""


def read_step(step: Any) -> tuple[float, dict[str, float]]:
    """Return a step of a curve as it has to be.

    Raises:
        ResultError: It is none.
    """
    try:
        seconds, metrics = step
        read = {}
        for name, value in metrics.items():
            read[name] = value if type(value) is float else as_number(value)
            if type(name) is not str:
                raise TypeError("a metric's name is a str")
        seconds = seconds if type(seconds) is float else as_number(seconds)
        if not 0.0 <= seconds <= LONGEST_S:
            raise ValueError(f"seconds have to be a number from 0 to {LONGEST_S:g}")
    except (TypeError, ValueError, AttributeError) as error:
        raise ResultError(
            f"The curve yielded {brief(step)}, which is no step ({error}). Yield (seconds, {{metric: value}}): the "
            "seconds since the step before, and what it reports."
        ) from None
    return seconds, read
