"""The curve source of a simulated study: in its space, and tried before anything starts.

A source that gives no trial a course would fail every trial, and records whose parameters are called otherwise than
those of the space would let all trials go alike. Both look like a study that went well; so both are found here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from etude.core.errors import ConfigError, Invalid
from etude.core.events import Params
from etude.core.streams import stream
from etude.core.text import brief, count
from etude.engines.curves import CurveSource, NeedsSpace, RecordedCurves
from etude.engines.steps import read_step
from etude.tune.question import Question
from etude.tune.spaces import Space
from etude.tune.unit import placed
from etude.worker.attempt import one_line

TRIED: Final = 16
"""Configurations on which a source is tried, until one of them has a first step."""


def curve_source(
    curves: CurveSource | NeedsSpace, question: Question, defaults: Params
) -> tuple[CurveSource, list[str]]:
    """Return what trials go by, and what is to be said of it.

    Args:
        curves: What the user gave.
        question: What the study is to find out.
        defaults: Values of parameters that a configuration leaves out.

    Raises:
        ConfigError: No trial would have a course, or all would have the same one without anybody's wanting it.
    """
    space = question.space
    within = getattr(curves, "within", None)
    if within is not None and space is None:
        raise ConfigError(f"curves={curves!r} needs a space to find its way, and this study has none.")
    notes = _compared(curves, space) if isinstance(curves, RecordedCurves) and space is not None else []
    source: CurveSource = (
        curves if within is None else within(lambda params: placed(space, params), question.metrics)  # type: ignore[assignment, arg-type]
    )
    if space is not None:
        _try(source, curves, question, space, defaults)
    return source, notes


def _compared(curves: RecordedCurves, space: Space) -> list[str]:
    """Refuse records that cannot be told apart in a space, and say which parameters tell nothing of some."""
    searched = [name for name, domain in space.domains() if domain.size != 1]
    places = [placed(space, record.params) for record in curves.records]
    if searched and not any(places):
        has = sorted({name for record in curves.records for name in record.params})
        raise ConfigError(
            f"None of the {count(len(places), 'record')} can be placed in the space: it searches "
            f"{', '.join(dict.fromkeys(searched))}, and they have {', '.join(has) or 'no parameters'}, so every trial "
            "would go like the first of them. Call parameters in the records as in the space, with values of its kind."
        )
    lacking = {name: sum(not _tells(place, name) for place in places) for name in searched if name in space.always}
    return [
        f"Of {count(len(places), 'record')}, {n} cannot be placed by {name!r}: there they are as far from every trial "
        "as can be."
        for name, n in lacking.items()
        if n
    ]


def _tells(place: Mapping[str, float], name: str) -> bool:
    return any(key == name or key.startswith(f"{name}=") for key in place)


def _try(source: CurveSource, curves: object, question: Question, space: Space, defaults: Params) -> None:
    """Refuse a source that gives none of some configurations a first step.

    They are drawn from a stream of their own: the search never moves by it, nor sees the same draws.
    """
    budgets = question.metrics.fidelity
    fixed: Params = {budgets.name: budgets.rungs[0]} if budgets is not None else {}
    first: tuple[Exception, Params] | None = None
    for k in range(TRIED):
        params = {**defaults, **question.base, **space.sample(stream(question.seed, "curve", k)), **fixed}
        try:
            for step in source(params, question.seed):
                read_step(step)
                break
        except Invalid:
            return  # it knows what it does
        except Exception as raised:
            first = first or (raised, params)
        else:
            return
    assert first is not None
    error, params = first
    raise ConfigError(
        f"curves={brief(curves)} gave none of {TRIED} configurations a course. Asked for {params}: {one_line(error)}. "
        "Pass a function curve(params, seed) that yields (seconds, {metric: value}) for each step."
    ) from error
