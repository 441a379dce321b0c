"""What stands behind the keys of a file, as the verbs take it.

Most keys go by the type of their argument. The others hold what a file can only name: a sampler, a study, a function of
the script.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from etude.core.errors import ConfigError, EtudeError
from etude.core.near import did_you_mean
from etude.core.signature import misfit
from etude.files.calls import arguments_of, made_of
from etude.files.nodes import Fields, Items, Node, Scalar, plain, told
from etude.files.spaces import WrongError, value_of
from etude.files.wording import in_keys

if TYPE_CHECKING:
    from etude.files.scripts import Script
    from etude.results.search import TrialResult

WORDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    type(None): "nothing",
}


@dataclass(frozen=True)
class Around:
    """What a value may refer to.

    Attributes:
        script: The script of the experiment.
        at_work: Whether what the file names is needed: studies are opened, scripts are asked.
    """

    script: Script
    at_work: bool = True


def check_type(name: str, node: Node, annotation: Any) -> None:
    """Refuse what an argument of this type cannot be.

    Raises:
        WrongError: It cannot.
    """
    if annotation is Any or annotation is object:
        return
    if misfit(plain(node), annotation) is not None:
        raise WrongError(node.place, f"{name} is {told(node)}, and has to be {_in_words(annotation)}.")


def is_by_type(name: str) -> bool:
    """Say whether the type of an argument tells all about it."""
    return name not in READERS


def read(name: str, node: Node, annotation: Any, around: Around) -> Any:
    """Return the value of an argument.

    Raises:
        WrongError: It cannot be.
    """
    if name in READERS:
        try:
            return READERS[name](name, node, around)
        except WrongError:
            raise
        except EtudeError as error:
            raise WrongError(node.place, in_keys(str(error))) from None
    check_type(name, node, annotation)
    return plain(node)


# --- by type --------------------------------------------------------------------------------------


def _in_words(annotation: Any) -> str:
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " or ".join(map(str, inner))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_in_words(one) for one in inner if one is not type(None)))
    if annotation in WORDS:
        return WORDS[annotation]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a mapping"
    return "a list" if origin is not None else str(getattr(annotation, "__name__", annotation))


# --- one by one -----------------------------------------------------------------------------------


def _text(name: str, node: Node, example: str) -> str:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value
    raise WrongError(node.place, f"{name} is {told(node)}, and has to be a text. Write {name}: {example}.")


def _workers(name: str, node: Node, around: Around) -> Any:
    value = plain(node)
    if type(value) is int:
        return value
    pair = value if isinstance(value, list) and len(value) == len(("least", "most")) else [""]
    if type(pair[0]) is int and (pair[-1] is None or type(pair[-1]) is int):
        return tuple(pair)
    raise WrongError(
        node.place,
        f"{name} is {told(node)}, and has to be a whole number, or a list of the least and the most: [2, 8].",
    )


def _seeds(name: str, node: Node, around: Around) -> Any:
    from etude.ablate.until import UntilDecided, read_until

    value = plain(node)
    several = isinstance(value, list) and all(type(one) is int for one in value)
    if value is None or type(value) is int or several:
        return value
    text = _text(name, node, "10, [3, 4], or until decided")
    inner, paren, _ = (part.strip() for part in text.partition("("))
    if not paren or inner not in ("until_decided", UntilDecided.__name__):
        return read_until(text)
    args, named = arguments_of(text, inner, f"{name}: ")
    try:
        return UntilDecided(*args, **named)
    except TypeError as error:
        raise WrongError(node.place, f"{name}: {text} cannot be: {error}") from None


def _resources(name: str, node: Node, around: Around) -> str:
    from etude.core.resources import Resources

    if isinstance(node, Fields):
        text = ",".join(f"{option}={plain(entry.node)}" for option, entry in node.entries.items())
    else:
        text = _text(name, node, "cpus=2,gpus=0.5")
    Resources.read(text)
    return text


def _sampler(name: str, node: Node, around: Around) -> Any:
    from etude.tune.samplers import SAMPLERS

    return made_of(_text(name, node, "tpe"), SAMPLERS, around.script, lead=f"{name}: ")


def _stopper(name: str, node: Node, around: Around) -> Any:
    from etude.tune.stop import STOPPERS

    if isinstance(node, Items):
        return [read(name, item, Any, around) for item in node.items]
    text = _text(name, node, "median")
    if text.count("(") != text.count(")"):
        raise WrongError(
            node.place, f"{name}: {text!r} lacks a bracket. In [...] a comma ends a value: put it in quotes."
        )
    return made_of(text, STOPPERS, around.script, lead=f"{name}: ")


def _start(name: str, node: Node, around: Around) -> list[dict[str, Any]]:
    if not isinstance(node, Items):
        raise WrongError(node.place, f"{name} is {told(node)}, and has to be a list of configurations: - {{lr: 0.1}}.")
    found = []
    for item in node.items:
        if not isinstance(item, Fields):
            raise WrongError(item.place, f"Here is {told(item)}, where a configuration stands. Write - {{lr: 0.1}}.")
        found.append({inner: value_of(entry.node) for inner, entry in item.entries.items()})
    return found


def _constraint(name: str, node: Node, around: Around) -> Any:
    from etude.files.scripts import attribute

    function = attribute(around.script, _text(name, node, "name_of_a_function"))
    if not callable(function):
        raise WrongError(node.place, f"{name} names what is no function in {around.script.path}. Name a function.")
    return function


def _engine(name: str, node: Node, around: Around) -> Any:
    from etude.engines.named import ENGINES

    text = _text(name, node, "local")
    known = text.partition("(")[0].strip() in ENGINES
    return text if known else getattr(around.script.module, text, text)  # of the script, else refused by the verb


def _keep(name: str, node: Node, around: Around) -> Any:
    from etude.core.keeping import read_keep

    value = plain(node)
    if type(value) not in (int, str):
        raise WrongError(
            node.place, f"{name} is {told(node)}, and has to be a whole number, or as in '3,last,best,25'."
        )
    read_keep(value)
    return value


def _folder(name: str, node: Node, around: Around) -> str:
    """Return a place: a URL as it is, a path as it is meant in the file."""
    text = _text(name, node, "s3://bucket/folder")
    return text if "://" in text else str(node.place.source.folder / text)


def _reuse(name: str, node: Node, around: Around) -> list[str]:
    from etude.results.reading import read as read_study

    found = []
    for item in node.items if isinstance(node, Items) else (node,):
        found.append(_text(name, item, "name_of_a_study"))
        try:
            if around.at_work:
                read_study(found[-1])
        except EtudeError as error:
            raise WrongError(item.place, str(error)) from None
    return found


def _system(name: str, node: Node, around: Around) -> Any:
    """Return how machines are tuned. Each option is tried by itself first, so that an error has its place."""
    from etude.files.source import nearest
    from etude.system.asked import System, read_system

    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return read_system(node.value)
    if not isinstance(node, Fields):
        raise WrongError(
            node.place,
            f"{name} is {told(node)}, and has to be true, or options of etude.System: {name}: {{objective: energy}}.",
        )
    known = [one.name for one in dataclasses.fields(System)]
    given: dict[str, Any] = {}
    for option, entry in node.entries.items():
        if option not in known:
            raise WrongError(
                entry.key.place, f"{option!r} is no key here.{nearest(option, known)} There are: {', '.join(known)}."
            )
        given[option] = _option_of_system(option, entry.node, around)
        try:
            System(**{option: given[option]})
        except (ConfigError, TypeError) as error:
            raise WrongError(entry.node.place, in_keys(str(error))) from None
    return System(**given)


def _option_of_system(option: str, node: Node, around: Around) -> Any:
    """Return an option of ``etude.System``: a path is meant from the file, a similarity may be one of the script."""
    from etude.results.going_on import SIMILARITIES

    value = plain(node)
    if option in ("history", "ledger") and isinstance(value, str):
        return _folder(option, node, around)
    if option == "similarity" and isinstance(value, str) and value not in SIMILARITIES:
        return getattr(around.script.module, value, value)
    return value


def _made_of_module(kind: str, module: str) -> Callable[[str, Node, Around], Any]:
    """Return what reads a call of something in a module of ours, or else of the script: ``Stripes(warmup=10)``."""

    def read_one(name: str, node: Node, around: Around) -> Any:
        import importlib

        text = _text(name, node, kind)
        ours = importlib.import_module(module)
        inner, paren, _ = (part.strip() for part in text.partition("("))
        found = getattr(ours, inner, None) or getattr(around.script.module, inner, None)
        if found is None:
            meant = did_you_mean(inner, [*ours.__all__, *vars(around.script.module)])
            told = f"{name}: there is no {inner!r}, neither in {module} nor in {around.script.path}. {meant}"
            raise WrongError(node.place, told.rstrip())
        if not paren:
            return found
        args, named = arguments_of(text, inner, f"{name}: ")
        try:
            return found(*args, **named)
        except (TypeError, ConfigError) as error:
            raise WrongError(node.place, f"{name}: {text} cannot be: {error}") from None

    return read_one


def _policy(name: str, node: Node, around: Around) -> Any:
    text = _text(name, node, "leave_one_out")
    of_module = _made_of_module("leave_one_out", "etude.policies")
    return text if text.replace("-", "_").islower() and "(" not in text else of_module(name, node, around)


def _parallel(name: str, node: Node, around: Around) -> Any:
    text = _text(name, node, "ddp")
    return text if "(" not in text else _made_of_module("ddp", "etude.core.ranks")(name, node, around)


def _components(name: str, node: Node, around: Around) -> Any:
    from etude.ablate.components import Component, read_component

    found = []
    for item in node.items if isinstance(node, Items) else (node,):
        text = _text(name, item, "[layer:conv2, dropout]")
        own = getattr(around.script.module, text, None) if text.isidentifier() else None
        try:
            found.append(own if isinstance(own, Component) else read_component(text))
        except EtudeError as error:
            raise WrongError(item.place, str(error)) from None
    return found


def _at(name: str, node: Node, around: Around) -> TrialResult | None:
    """Return a trial of another study."""
    if isinstance(node, Fields) and "study" not in node.entries:
        raise WrongError(
            node.place,
            f"{name} names no study. Write {name}: {{study: NAME}} for its best trial, or with trial: 7; "
            "hyperparameters stand under parameters.",
        )
    return _trial(name, node, around)


def _weights(name: str, node: Node, around: Around) -> Any:
    if isinstance(node, Scalar):
        text = _text(name, node, "random")
        if text in ("random", "auto"):
            return text
        path = Path(node.place.source.folder / text)
        if around.at_work and not path.is_file():
            raise WrongError(
                node.place,
                f"{name}: there is no file {path}. Write random, auto, the path of a safetensors file, or "
                f"{{study: NAME, trial: 7}}.",
            )
        return str(path)
    trial = _trial(name, node, around, also=("epoch",))
    if trial is None:
        return None
    assert isinstance(node, Fields)
    epoch = node.entries.get("epoch")
    return trial.weights.at(plain(epoch.node)) if epoch is not None else trial.weights


def _trial(name: str, node: Node, around: Around, *, also: tuple[str, ...] = ()) -> TrialResult | None:
    from etude.files.source import nearest
    from etude.results.reading import read as read_study

    known = {"study": str, "trial": int, **dict.fromkeys(also, str | int)}
    if isinstance(node, Scalar):
        entries: dict[str, Node] = {"study": node}
    elif isinstance(node, Fields):
        entries = {one: entry.node for one, entry in node.entries.items()}
        for one, entry in node.entries.items():
            if one not in known:
                raise WrongError(
                    entry.key.place, f"{one!r} is no key here.{nearest(one, known)} There are: {', '.join(known)}."
                )
    else:
        raise WrongError(node.place, f"{name} is {told(node)}. Write {name}: {{study: NAME, trial: 7}}.")
    for one, inner in entries.items():
        check_type(one, inner, known[one])
    if not around.at_work:
        return None
    study = read_study(plain(entries["study"]))
    if "trial" not in entries:
        best: TrialResult = study.best
        return best
    number, trials = plain(entries["trial"]), study.trials
    if not 0 <= number < len(trials):
        raise WrongError(
            entries["trial"].place, f"Study {study.name} has no trial {number}: it has {len(trials)}, from 0."
        )
    found: TrialResult = trials[number]
    return found


READERS: Final[Mapping[str, Callable[[str, Node, Around], Any]]] = {
    "workers": _workers,
    "seeds": _seeds,
    "resources": _resources,
    "sampler": _sampler,
    "stopper": _stopper,
    "start": _start,
    "constraint": _constraint,
    "engine": _engine,
    "keep": _keep,
    "mirror": _folder,
    "states": _folder,
    "reuse": _reuse,
    "system": _system,
    "partition": _made_of_module("Stripes(warmup=10)", "etude.partitions"),
    "parallel": _parallel,
    "policy": _policy,
    "components": _components,
    "at": _at,
    "weights": _weights,
}
"""Arguments that a type does not tell all about."""
