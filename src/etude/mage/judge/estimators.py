"""Estimators that hold others: what is left of a call when one of them goes.

``CalibratedClassifierCV(make_pipeline(RobustScaler(), LogisticRegression()))`` without its calibration is the pipeline,
and without the scaler it holds the regression alone: a chain of one step does what that step does. So what is left is
known before anybody has written it, with all its settings, and can be demanded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from etude.mage.facts import FitFacts

CHAIN: Final = "Pipeline"
HELD: Final = "()"
"""How the value of a setting ends that is an estimator."""
CALLED: Final = "fit."
"""How the names of values begin that ``fit`` was called with."""
ASKS: Final = (".predict", ".predict_proba", ".predict_log_proba", ".decision_function", ".score")


def is_asked(fit: FitFacts) -> bool:
    """Say whether a call asked a fitted estimator for something."""
    return fit.type.endswith(ASKS)


@dataclass
class _Estimator:
    """An estimator: its class, its plain settings, and those that it holds, by name."""

    type: str
    own: dict[str, Any] = field(default_factory=dict)
    held: dict[str, _Estimator] = field(default_factory=dict)


def left_of(fit: FitFacts, gone: Collection[str]) -> FitFacts | None:
    """Return a call as it is to be when estimators of some classes go.

    Who was held by one that goes takes its place. A chain of one step is that step.

    Args:
        fit: The call.
        gone: Names of classes.

    Returns:
        The call; None where nobody can tell, since what goes held nothing, or several.
    """
    kind, dot, method = fit.type.partition(".")
    called = {name: value for name, value in fit.values.items() if name.startswith(CALLED)}
    left = _left(_read(kind, {name: value for name, value in fit.values.items() if name not in called}), gone)
    if left is None:
        return None
    return msgspec.structs.replace(fit, type=f"{left.type}{dot}{method}", values={**_written(left), **called})


def held_in(name: str, fits: Iterable[FitFacts]) -> int:
    """Return in how many calls of the program itself there is an estimator of a class, by its name."""
    kind = name.rpartition(".")[2]
    return sum(not fit.within and not is_asked(fit) and kind in {fit.type, *(_classes(fit.values))} for fit in fits)


def _classes(values: Mapping[str, Any]) -> Iterator[str]:
    return (str(value).removesuffix(HELD) for value in values.values() if str(value).endswith(HELD))


def _read(kind: str, values: Mapping[str, Any]) -> _Estimator:
    found = _Estimator(kind)
    inside: dict[str, dict[str, Any]] = {
        name: {} for name, value in values.items() if "__" not in name and str(value).endswith(HELD)
    }
    for name, value in values.items():
        holder, _, rest = name.partition("__")
        if holder not in inside:
            found.own[name] = value
        elif rest:
            inside[holder][rest] = value
    found.held = {name: _read(values[name].removesuffix(HELD), of) for name, of in inside.items()}
    return found


def _left(one: _Estimator, gone: Collection[str]) -> _Estimator | None:
    held = {name: left for name, inner in one.held.items() if (left := _left(inner, gone)) is not None}
    if one.type in gone or (one.type == CHAIN and len(held) == 1):
        return next(iter(held.values())) if len(held) == 1 else None
    return _Estimator(one.type, one.own, held)


def _written(one: _Estimator) -> dict[str, Any]:
    values = dict(one.own)
    for name, inner in one.held.items():
        values[name] = f"{inner.type}{HELD}"
        values |= {f"{name}__{setting}": value for setting, value in _written(inner).items()}
    return values
