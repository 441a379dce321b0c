"""What a training function returned, read as a result."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Final

from etude.core.errors import ResultError
from etude.core.text import brief

MAX_ELEMENTS: Final = 10_000
"""Arrays up to this size are kept with a trial; larger ones belong into ``run.folder``."""


def read_result(
    returned: Any, *, metrics: Sequence[str], reported: Mapping[str, float], logged: Collection[str] = ()
) -> tuple[float, dict[str, Any]]:
    """Return the main metric and whatever else was returned, in plain values, the other metrics as floats.

    Args:
        returned: A number, a dict with the metrics in it, or None: then the last report of each counts.
        metrics: Names of the study's metrics, the main one first.
        reported: The newest value of each metric that was reported.
        logged: Names under which a trainer of somebody else's has logged numbers, for the message.

    Raises:
        ResultError: A metric is missing, or there is something that cannot be kept.
    """
    main, *others = metrics
    if type(returned) is float and not others:
        return returned, {}
    if returned is None:
        for metric in metrics:
            if metric not in reported:
                mend = _told(metric, logged, _mend(metric, metrics))
                raise ResultError(_no_metric(metric, "returned nothing", reported, mend))
        return reported[main], {metric: reported[metric] for metric in others}
    if isinstance(returned, Mapping):
        for metric in metrics:
            if metric not in returned:
                raise ResultError(_not_in_it(metric, returned, reported, metrics, logged))
        extra = {_text(k): _plain(_text(k), v) for k, v in returned.items() if k not in metrics}
        return _number(main, returned[main]), {metric: _number(metric, returned[metric]) for metric in others} | extra
    if others:
        raise ResultError(
            f"The training function returned {brief(returned)}, and the study has {len(metrics)} metrics: "
            f"{', '.join(map(repr, metrics))}. Return a dict with all of them in it, or nothing: then the last report "
            "of each counts."
        )
    return _number(main, returned), {}


def as_number(value: Any) -> float:
    """Return the one number that ``value`` is or holds: a number, or an array or tensor of one element.

    Raises:
        TypeError, ValueError: It is none, or holds several.
    """
    if isinstance(value, str | bytes | bytearray):
        raise TypeError("text is no number")
    try:
        # item() takes what float() refuses or warns of: arrays of one element, tensors that carry a gradient
        return float(value.item() if hasattr(value, "item") and hasattr(value, "shape") else value)
    except (TypeError, ValueError):
        raise
    except Exception as error:  # torch has errors of its own for this, and so may others
        raise ValueError(str(error)) from error


def _no_metric(metric: str, what: str, reported: Mapping[str, float], mend: str) -> str:
    names = ", ".join(map(repr, reported)) or "none"
    return f"The metric {metric!r} never came: the training function {what}, and reported {names}. {mend}"


def _mend(metric: str, metrics: Sequence[str]) -> str:
    """Say how a metric comes: of several metrics a number alone could be any."""
    whole = f"{{{', '.join(f'{name!r}: ...' for name in metrics)}}}"
    return (
        f"Return {'a number or ' if len(metrics) == 1 else ''}{whole}, or call run.report({metric}=...) at least once."
    )


def _told(metric: str, logged: Collection[str], mend: str) -> str:
    """Say how a metric comes, and first what a trainer logs, if there is one, to whoever has named something else."""
    if not logged:
        return mend
    names = ", ".join(map(repr, sorted(logged)))
    given = metric.removeprefix("val_")
    more = f" It logs {metric!r} once it is given validation data." if given != metric and given in logged else ""
    return (
        f"Its trainer logs {names}: name one of them as the metric, or have it log {metric!r}.{more} Else "
        f"{mend[:1].lower()}{mend[1:]}"
    )


def _not_in_it(
    metric: str,
    returned: Mapping[Any, Any],
    reported: Mapping[str, float],
    metrics: Sequence[str],
    logged: Collection[str],
) -> str:
    what = f"returned a dict with {', '.join(map(repr, returned)) or 'nothing'}"
    if metric not in reported:
        several = f"Put {metric!r} into the dict: with several metrics, all of them belong there."
        mend = _mend(metric, metrics) if len(metrics) == 1 else several
        return _no_metric(metric, what, reported, _told(metric, logged, mend))
    return (
        f"The training function {what}, and not the metric {metric!r}, which it reported. "
        f"Put {metric!r} into the dict, or return nothing: then the last report counts."
    )


def _number(metric: str, value: Any) -> float:
    try:
        return as_number(value)
    except (TypeError, ValueError) as error:
        raise ResultError(
            f"The training function returned {brief(value)} for the metric {metric!r}, "
            f"which is no single number ({error}). Return a number, a dict with {metric!r} in it, or "
            "nothing: then the last report counts."
        ) from None


def _plain(name: str, value: Any) -> Any:
    room = [MAX_ELEMENTS]  # for all that is nested in it together

    def plain(name: str, value: Any) -> Any:
        if (scalar := _scalar(value)) is not None or value is None:
            return scalar
        if isinstance(value, Mapping) and _fits(room, len(value)):
            return {_text(k): plain(f"{name}.{_text(k)}", v) for k, v in value.items()}
        if isinstance(value, list | tuple) and _fits(room, len(value)):
            return [plain(name, v) for v in value]
        if hasattr(value, "tolist") and hasattr(value, "shape"):
            size = math.prod(int(n) for n in value.shape)
            if size <= room[0]:
                return plain(name, value.tolist())
        raise ResultError(
            f"The training function returned {name}={brief(value)}, which cannot be kept with the trial. "
            f"Kept are numbers, text, paths, arrays of up to {MAX_ELEMENTS:,} elements, and lists and dicts of "
            "these. Save anything else under run.folder and return its path."
        )

    return plain(name, value)


def _scalar(value: Any) -> bool | int | float | str | None:
    """Return a number, text or path as plain Python has it; None for anything else."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        whole = int(value)
        return whole if -(2**63) <= whole < 2**64 else None  # MessagePack holds no others
    if isinstance(value, Real):
        return float(value)
    return _text(os.fspath(value)) if isinstance(value, str | os.PathLike) else None


def _fits(room: list[int], n: int) -> bool:
    """Say whether ``n`` more elements may be kept, and take the room that they need."""
    room[0] -= n
    return room[0] >= 0


def _text(value: Any) -> str:
    """Return text that can be written down: file names need not be Unicode."""
    text = os.fsdecode(value) if isinstance(value, bytes) else str(value)
    return text.encode(errors="backslashreplace").decode()
