"""What may stand in an experiment file: the arguments of the verbs, as their signatures have them.

Nothing is listed twice: what a verb takes tomorrow may stand in files tomorrow. What is written down here is only what
no signature says: which arguments are none of a file's, and which hold what a type alone does not tell.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from etude.core.errors import SignatureError
from etude.core.signature import MISSING
from etude.experiment import Experiment

VERBS: Final = ("run", "check", "tune", "ablate", "fit")
"""What an experiment can be asked to do by a file."""

OWN: Final[Mapping[str, str]] = {
    "experiment": "Where the experiment is: script.py:name, relative to this file.",
    "verb": f"What is done with it: {', '.join(VERBS)}.",
    "parameters": "Hyperparameters by name: what run, check, ablate and fit are called with, and what a search holds "
    "fixed. What stands under space as well is searched by tune.",
}
"""Keys that are no argument of a verb."""

SAYS: Final[Mapping[str, str]] = {
    "at": "The trial whose configuration it is: {study: NAME} for the best of a study, or {study: NAME, trial: 7}. In "
    "place of parameters.",
    "weights": "What the model begins with: random, auto, the path of a safetensors file relative to this file, or "
    "{study: NAME, trial: 7, epoch: last}.",
    "space": "What each parameter may be: a call such as loguniform(1e-4, 1), or that as a mapping, a list (a choice), "
    "or one value (fixed).",
    "constraint": "Name of a function of the script that says whether parameters go together.",
    "partition": "Which rank trains which examples: Stripes(warmup=10, interval=15), another, or one of the script.",
    "parallel": 'How ranks work together: ddp, fsdp, or with options, as in FSDP(block="DecoderLayer").',
    "engine": "What starts the workers: local, ray, spark or cluster, with options as in ray(cpus=2); or the name of "
    "one in the script.",
    "components": "What is taken away, as texts: [layer:conv2, dropout]; or names of components in the script.",
    "policy": "Which combinations: leave_one_out, pairs, add_one_in, full_factorial, path, shapley, or a call such as "
    "Adaptive(...).",
    "system": "Whether the machine is tuned while models train: true, or the options of etude.System as a mapping, as "
    "in {objective: energy, knobs: [threads, loader_workers]}.",
    "workers": "How many trials run at a time; or the least and the most, as in [2, 16].",
}
"""What arguments mean in a file, where that is not what they mean in Python."""

ONLY_WITH: Final[Mapping[str, Mapping[str, str]]] = {"ablate": {"space": "retune", "sampler": "retune"}}
"""Verb -> keys that mean nothing to it without another one: they are there for another verb."""

NOT_IN_FILES: Final = frozenset({"self", "params", "wait", "progress"})
"""Arguments that are none of a file's: they are about the one who calls."""

FREE: Final = "x-"
"""Top-level keys that begin so are for anchors, and mean nothing."""


@dataclass(frozen=True)
class Key:
    """A key of an experiment file.

    Attributes:
        name: Its name.
        verbs: The verbs that take it.
        type: Its type; Any where only its reader knows.
        default: What a verb takes without it; ``MISSING`` if it cannot do without.
        says: What it means, in a sentence or more.
    """

    name: str
    verbs: tuple[str, ...]
    type: Any
    default: Any
    says: str


@functools.cache
def keys() -> Mapping[str, Key]:
    """Return all keys by name: our own first, then the arguments of the verbs."""
    found = {name: Key(name, VERBS, Any, MISSING, says) for name, says in OWN.items()}
    for verb in reversed(VERBS):  # what several take is told where it is told best: by tune before ablate, and so on
        for name, key in arguments_of(verb).items():
            verbs = (verb, *(found[name].verbs if name in found else ()))
            found[name] = Key(name, verbs, key.type, key.default, key.says)
    return found


@functools.cache
def arguments_of(verb: str) -> Mapping[str, Key]:
    """Return the arguments of a verb that may stand in a file."""
    function = getattr(Experiment, verb)
    told = _told(function)
    return {
        name: Key(
            name,
            (verb,),
            _type(function, name),
            MISSING if p.default is p.empty else p.default,
            SAYS.get(name, told.get(name, "")),
        )
        for name, p in inspect.signature(function).parameters.items()
        if name not in NOT_IN_FILES
    }


def parameters_of(experiment: Experiment) -> tuple[str, ...]:
    """Return the hyperparameters that may be given."""
    return tuple(experiment.signature.parameters)


def groups_of(experiment: Experiment) -> frozenset[str]:
    """Return the names of groups of hyperparameters: dataclasses, whose fields have dotted names."""
    names = experiment.signature.parameters
    return frozenset(name[: dot.start()] for name in names for dot in re.finditer(r"\.", name))


def check_name(experiment: Experiment, name: str) -> str | None:
    """Say why a hyperparameter cannot be given; None if it can."""
    try:
        experiment.signature.check_names([name])
    except SignatureError as error:
        return str(error)
    return None


def _type(function: Any, name: str) -> Any:
    """Return the type of an argument; Any where it names what only type checkers import."""
    holder = types.SimpleNamespace(__annotations__={name: function.__annotations__.get(name, Any)})
    with contextlib.suppress(NameError):
        return typing.get_type_hints(holder, globalns=inspect.unwrap(function).__globals__)[name]
    return Any


def _told(function: Any) -> dict[str, str]:
    """Return what the docstring of a function says of its arguments."""
    doc = inspect.getdoc(function) or ""
    section = re.search(r"^Args:\n((?:(?: {4}.*)?\n)+)", doc, re.MULTILINE)
    if section is None:
        return {}
    found = re.findall(r"^ {4}(\w+): ((?:.*\n?)(?:(?: {8}.*)?\n?)*)", section[1], re.MULTILINE)
    return {name: " ".join(text.split()).replace("``", "`") for name, text in found}
