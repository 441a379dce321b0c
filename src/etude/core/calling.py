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
from etude.core.text import count

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
    by_place = [name for name, p in takes.items() if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    known = [name for name, p in takes.items() if name != "self" and p.kind is not Parameter.VAR_KEYWORD]
    if len(args) > len(by_place):
        first = by_place[1:]  # without self
        named = [f"{name}=..." for name in known if name not in first]
        raise ConfigError(
            f"{called}() was given {count(len(args) - 1, 'argument')} without a name, and takes "
            f"{f'only {first[0]}' if first else 'none'}. Name {'the others' if first else 'them'}: "
            f"{called}({', '.join([*first, *_HYPER.get(called, named[:3])])})."
        )
    for name in kwargs if len(known) + 1 == len(takes) else ():  # else there is a **, which takes what is not known
        if name not in takes:
            ours = ELSEWHERE.get(name)
            meant = f"It is called {ours}= here." if ours in takes else _near(name, known)
            raise ConfigError(f"{called}() takes no {name}=. {meant}")
    given = {*by_place[: len(args)], *kwargs}
    for name in known:
        if takes[name].default is Parameter.empty and name not in given:
            raise ConfigError(f"{called}() needs {name}=, and was called without. {_MEND.get(name, '')}".rstrip())


def _near(name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    return f"Did you mean {near[0]}=?" if near else f"It takes: {', '.join(known)}."


_HYPER: Final[Mapping[str, list[str]]] = {"run": ["**trial.params"], "check": ["**trial.params"]}
"""What is given to verbs that take hyperparameters by name, as people have it."""

_MEND: Final[Mapping[str, str]] = {
    "metric": "It names the number that judges a trial: metric='accuracy', mode='max'.",
    "space": "It says what is searched, by name: experiment.tune({'lr': etude.loguniform(1e-4, 1.0)}, trials=20).",
    "components": "It says what is taken away; experiment.components() lists what there is.",
    "train": "It is the function that trains: etude.Experiment(train, metric='accuracy', mode='max').",
}
"""Argument that has no default -> what it is for, and how it is given."""
