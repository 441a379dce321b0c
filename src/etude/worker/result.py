"""What a training function returned, read as a result."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from etude.core.errors import ResultError
from etude.core.text import brief

MAX_ELEMENTS: Final = 10_000
"""Arrays up to this size are kept with a trial; larger ones belong into ``run.folder``."""


def read_result(returned: Any, *, metric: str, reported: Mapping[str, float]) -> tuple[float, dict[str, Any]]:
    """Return the metric and whatever else was returned, in plain values.

    Args:
        returned: A number, a dict with the metric in it, or None: then the last report counts.
        metric: Name of the study's metric.
        reported: The newest value of each metric that was reported.

    Raises:
        ResultError: There is no metric in it, or something that cannot be kept.
    """
    if returned is None:
        if metric not in reported:
            raise ResultError(_no_metric(metric, "returned nothing", reported))
        return reported[metric], {}
    if isinstance(returned, Mapping):
        if metric not in returned:
            given = ", ".join(map(repr, returned)) or "nothing"
            raise ResultError(_no_metric(metric, f"returned a dict with {given}", reported))
        extra = {str(k): _plain(str(k), v) for k, v in returned.items() if k != metric}
        return _number(metric, returned[metric]), extra
    return _number(metric, returned), {}


def _no_metric(metric: str, what: str, reported: Mapping[str, float]) -> str:
    names = ", ".join(map(repr, reported)) or "none"
    return (
        f"The metric {metric!r} never came: the training function {what}, and reported {names}. "
        f"Return a number or {{{metric!r}: ...}}, or call run.report({metric}=...) at least once."
    )


def _number(metric: str, value: Any) -> float:
    try:
        if isinstance(value, str | bytes):
            raise TypeError("text is no number")
        return float(value)
    except (TypeError, ValueError) as error:
        raise ResultError(
            f"The training function returned {brief(value)} for the metric {metric!r}, "
            f"which is no single number ({error}). Return a number, a dict with {metric!r} in it, or "
            "nothing: then the last report counts."
        ) from None


def _plain(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(f"{name}.{k}", v) for k, v in value.items()}
    if isinstance(value, list | tuple) and len(value) <= MAX_ELEMENTS:
        return [_plain(name, v) for v in value]
    if hasattr(value, "tolist") and hasattr(value, "shape"):
        size = 1
        for n in value.shape:
            size *= int(n)
        if size <= MAX_ELEMENTS:
            return value.tolist()
    raise ResultError(
        f"The training function returned {name}={brief(value)}, which cannot be kept with the trial. "
        f"Kept are numbers, text, paths, arrays of up to {MAX_ELEMENTS:,} elements, and lists and dicts of "
        "these. Save anything else under run.folder and return its path."
    )
