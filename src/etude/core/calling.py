"""Calls of our own that Python would refuse in words that do not help: a name misspelt, or one left out.

Python says that there is an ``unexpected keyword argument 'n_trials'``, and not that it is called ``trials`` here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, Final, ParamSpec, TypeVar

from etude.core.errors import ConfigError
from etude.core.near import nearest

P = ParamSpec("P")
R = TypeVar("R")

ELSEWHERE: Final[Mapping[str, str]] = {
    "direction": "mode",
    "goal": "mode",
    "objective": "metric",
    "monitor": "metric",
    "scoring": "metric",
    "num_samples": "trials",
    "max_trials": "trials",
    "max_evals": "trials",
    "n_iter": "trials",
    "n_jobs": "workers",
    "max_concurrent_trials": "workers",
    "param_space": "space",
    "search_space": "space",
    "param_distributions": "space",
    "param_grid": "space",
    "search_alg": "sampler",
    "algorithm": "sampler",
    "scheduler": "stopper",
    "pruner": "stopper",
    "study_name": "name",
    "random_state": "seed",
    "timeout": "deadline_s",
    "model_fn": "model",
    "build_model": "model",
    "dataset": "data",
    "config": "at",
    "params": "at",
}
"""What other libraries call things, and what they are called here. A name counts only where the call has ours."""


def by_name(function: Callable[P, R]) -> Callable[P, R]:
    """Return the same function, which says of a misspelt or missing argument what it is called here.

    Anything else that Python has against a call, it says itself.
    """
    takes = inspect.signature(function).parameters
    called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        _check(called, takes, args, kwargs)
        return function(*args, **kwargs)

    return call


def _check(called: str, takes: Mapping[str, Parameter], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Refuse a call with an argument that there is not, or without one that has to be there."""
    by_place = [p for p in takes.values() if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    if len(args) > len(by_place):
        first = [p.name for p in by_place[1:]]  # without self
        rest = ", ".join(f"{p.name}=..." for p in list(takes.values())[len(by_place) :][:3])
        raise ConfigError(
            f"{called}() was given {len(args) - 1} arguments without a name, and takes {len(first)}: "
            f"{', '.join(first)}. Name the others: {called}({', '.join(first)}, {rest}, ...)."
        )
    known = [name for name in takes if name != "self"]
    for name in kwargs:
        if name not in takes:
            ours = ELSEWHERE.get(name)
            meant = f"It is called {ours}= here." if ours in takes else _near(name, known)
            raise ConfigError(f"{called}() takes no {name}=. {meant}")
    given = {p.name for p, _ in zip(by_place, args, strict=False)} | set(kwargs)
    for p in takes.values():
        if p.default is Parameter.empty and p.name not in given:
            raise ConfigError(f"{called}() needs {p.name}=, and was called without. {_MEND.get(p.name, '')}".rstrip())


def _near(name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    return f"Did you mean {near[0]}=?" if near else f"It takes: {', '.join(known)}."


_MEND: Final[Mapping[str, str]] = {
    "metric": "It names the number that judges a trial: metric='accuracy', mode='max'.",
    "space": "It says what is searched, by name: experiment.tune({'lr': etude.loguniform(1e-4, 1.0)}, trials=20).",
    "components": "It says what is taken away; experiment.components() lists what there is.",
    "train": "It is the function that trains: etude.Experiment(train, metric='accuracy', mode='max').",
}
"""Argument that has no default -> what it is for, and how it is given."""
