"""What an ablation was asked for, as its call had it: written down, so that a file can ask the same again.

The study itself goes by its arms, of which its components cannot be told any more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from etude.ablate.components import Component, CustomComponent
from etude.core.removal import ROWS
from etude.tune.question import Question


def as_asked(
    question: Question,
    components: str | Component | Iterable[str | Component],
    *,
    at: object = None,
    **options: Any,
) -> Question:
    """Return a question with what its call said, for the journal; it is no part of its identity.

    Components are written down as texts; None if one holds functions, as a custom one does, which no text can hold.
    A policy is written as the call that makes it.

    Args:
        question: What the study is to find out.
        components: What is taken away, as the call had it.
        at: The configuration, as the call had it.
        options: What else it said.
    """
    several = [components] if isinstance(components, str | Component) else list(components)
    holds_functions = any(isinstance(one, CustomComponent) for one in several)
    told = {name: _plain(value) for name, value in options.items()}
    chosen = {"chosen": who} if (who := chosen_by(at)) is not None else {}
    asked = {"components": None if holds_functions else list(map(str, several)), **told}
    return dataclasses.replace(question, meta={**question.meta, **chosen, "asked": asked})


def chosen_by(at: object) -> dict[str, Any] | None:
    """Return who chose a configuration, for the journal: a trial of a search; None of others.

    Args:
        at: What a call was given as its configuration.
    """
    search = getattr(at, "search", None)
    if search is None or search.verb != "tune":
        return None
    return {
        "study": search.name,
        "trial": at.number,  # type: ignore[attr-defined] # what has a search is a trial
        "trials": sum(search.counts().values()),
        "metric": search.metrics.main,
        "data": at.fingerprints.get(ROWS, {}),  # type: ignore[attr-defined]
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return list(value) if isinstance(value, Sequence) else repr(value)
