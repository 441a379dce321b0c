"""From a study back to a file that reproduces it: the same file again finds the study done, and elsewhere runs it anew.

It is read from the journal alone. What no text can hold, such as a stopper of one's own, is refused by name.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.events import USUAL
from etude.core.keeping import as_text
from etude.core.signature import MISSING
from etude.files.domains import read_domain
from etude.files.keys import arguments_of, keys
from etude.files.scalars import AmbiguousError, meaning
from etude.files.spaces import CALL
from etude.results.going_on import in_no_journal
from etude.tune.domains import Domain
from etude.tune.spaces import CALLS, Choice, Space

BARE: Final = re.compile(r"[A-Za-z_./~][\w./~+=*-]*(:[\w./~+=*-]+)*")
"""Texts that nobody could take for anything else."""

DOMAIN: Final = re.compile(r"[a-z]+\([^#]*\)")
FIRST: Final = (
    *("verb", "name", "parameters", "space", "components", "policy"),
    *("trials", "seeds", "seed", "retune", "sampler", "stopper"),
)


def as_file(call: Mapping[str, Any], question: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    """Return what a file says that puts a study's question again, key by key; what is the verb's default is left out.

    Where the experiment is it does not say: that hangs on where the file is.

    Args:
        call: How the study was called last, as its journal has it.
        question: What it is to find out, as its journal has it.
        name: The study's name.

    Raises:
        ConfigError: No text can hold it.
    """
    verb = question.get("verb", "tune")
    if verb not in ("tune", "ablate", "fit"):
        raise ConfigError(f"Study {name} compares partitions, which no file can hold. Run its script again instead.")
    own = in_no_journal({**call, "constraint": call.get("constraint", False)})
    if own:
        raise ConfigError(
            f"Study {name} was started with {' and '.join(own)}, which no file can hold. Run its script again instead."
        )
    said: dict[str, Any] = {"verb": verb, "name": name}
    asked = {"tune": _tune, "ablate": _ablate, "fit": _fit}[verb](name, call, question)
    options = {option: value for option, value in _options(call).items() if option not in asked and option != "name"}
    takes = arguments_of(verb)
    for option, value in {**asked, **options}.items():
        default = takes[option].default if option in takes else MISSING
        if option in said or (option not in takes and option != "parameters"):
            continue
        if value is not None and value != default:
            said[option] = value
    return {key: said[key] for key in sorted(said, key=_order)}


def as_yaml(said: Mapping[str, Any], *, comments: tuple[str, ...] = ()) -> str:
    """Return a file as text.

    Example:
        >>> print(as_yaml({"verb": "tune", "space": Space.of({"lr": [0.1, 1e-05], "mode": "no"})}), end="")
        verb: tune
        space:
          lr: [0.1, 1.0e-05]
          mode: "no"
    """
    return "\n".join([*comments, *_lines(said, 0)]) + "\n"


def _order(key: str) -> tuple[int, int]:
    return (FIRST.index(key), 0) if key in FIRST else (len(FIRST), [*keys()].index(key))


# --- what it says ---------------------------------------------------------------------------------


def _tune(name: str, call: Mapping[str, Any], question: Mapping[str, Any]) -> dict[str, Any]:
    constraint = call.get("constraint")
    return {
        "space": Space.from_dict(question["space"]),
        **{option: call.get(option) for option in ("trials", "seed", "fidelity", "budget", "eta")},
        "sampler": _called(call["sampler"]),
        "stopper": _called(call.get("stopper")),
        "start": call.get("start") or None,
        "constraint": constraint.rpartition(":")[2] if isinstance(constraint, str) else None,
    }


def _ablate(name: str, call: Mapping[str, Any], question: Mapping[str, Any]) -> dict[str, Any]:
    asked = question.get("asked") or {}
    if asked.get("components") is None:
        why = "was written by an earlier Étude" if "asked" not in question else "takes away code of its own"
        raise ConfigError(
            f"Study {name} {why}, so that its components are not on record. Run its script again instead."
        )
    return {
        "parameters": question["params"],
        **{option: value for option, value in asked.items() if option in keys()},
        "policy": _policy(name, question["policy"], asked["policy"]),
        "stopper": _called(question.get("stopper")),
        **_retuned(question.get("retuned")),
    }


def _retuned(retuned: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a file says of the searches of an ablation's arms."""
    if retuned is None:
        return {}
    space = Space.from_dict(retuned["space"])
    return {"retune": retuned["trials"], "space": space, "sampler": _called(retuned["sampler"])}


def _policy(name: str, short: str, called: str) -> str:
    """Return a policy as text: by its name if it has no options of its own."""
    return short if called.endswith("()") else _literal_call(name, "policy", called)


def _literal_call(name: str, what: str, called: str) -> str:
    """Return a call whose options are all literals, as it is; refuse others."""
    try:
        call = ast.parse(called, mode="eval").body
        if not isinstance(call, ast.Call):
            raise ValueError
        for part in (*call.args, *(option.value for option in call.keywords)):
            ast.literal_eval(part)
    except (ValueError, SyntaxError):
        raise ConfigError(
            f"Study {name} has the {what} {called}, which no file can hold. Run its script again instead."
        ) from None
    return called


def _fit(name: str, call: Mapping[str, Any], question: Mapping[str, Any]) -> dict[str, Any]:
    if question.get("auto") or any(one != "random" for one in question["weights"]):
        raise ConfigError(
            f"Study {name} began with weights of other trials, which a file can only name: write `weights: {{study: "
            "NAME, trial: 7}` into the file of another one, or run its script again."
        )
    asked = {"parameters": question["params"], "seeds": question["seeds"], "on": question.get("on")}
    return {**asked, "weights": None}  # random ones, as by default


def _options(call: Mapping[str, Any]) -> dict[str, Any]:
    parallel = call.get("parallel")
    found = {option: value for option, value in call.items() if option in keys()}
    found["parallel"] = _parallel(parallel) if isinstance(parallel, Mapping) else parallel
    keep = found.get("keep")
    if keep is not None:
        found["keep"] = None if keep == as_text(USUAL) else keep
    if "stopper" in found:
        found["stopper"] = _called(found["stopper"])
    if found.get("system") == {}:
        found["system"] = True
    if found.get("engine") == "local":
        found["engine"] = None
    return found


def _parallel(data: Mapping[str, Any]) -> str:
    options = {option: value for option, value in data.items() if option != "type"}
    kind = str(data.get("type", "ddp"))
    return f"{kind.upper()}({', '.join(f'{o}={v!r}' for o, v in options.items())})" if options else kind


def _called(data: Any) -> Any:
    """Return a sampler or a stopper as text: its name, with the options that are not its defaults."""
    if data is None or isinstance(data, list):
        return None if data is None else [_called(one) for one in data]
    from etude.tune.samplers import SAMPLERS
    from etude.tune.stop import STOPPERS

    name = data["name"]
    cls = SAMPLERS.classes.get(name) or STOPPERS.classes[name]
    usual = {f.name: f.default for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    options = {o: v for o, v in data.items() if o != "name" and v != usual.get(o)}
    return f"{name}({', '.join(f'{o}={v!r}' for o, v in options.items())})" if options else str(name)


# --- as text --------------------------------------------------------------------------------------


def _lines(value: Mapping[str, Any], depth: int) -> Iterator[str]:
    for name, inner in value.items():
        yield from _entry(f"{'  ' * depth}{_key(name)}:", inner, depth)


def _entry(head: str, value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, Domain):
        value = _domain(value)
    if isinstance(value, Mapping) and value:
        yield head
        yield from _lines(value, depth + 1)
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        yield head
        for item in value:
            yield f"{'  ' * (depth + 1)}- {_flow(item)}"
    else:
        yield f"{head} {value if isinstance(value, _Raw) else _flow(value)}"


class _Raw(str):
    """A text that stands in a file as it is."""


def _domain(domain: Domain) -> Any:
    """Return a domain as a file has it."""
    if isinstance(domain, Choice) and domain.branches:
        names = {_key(value).strip('"') for value in domain.values}
        if len(names) < len(domain.values) or any(isinstance(value, tuple) for value in domain.values):
            return repr(domain)  # no keys that a mapping could have
        return {"choice": {value: dict(branch) for value, branch in domain.sub_spaces.items()}}
    if isinstance(domain, Choice):
        (value, *others) = domain.values
        looks_so = isinstance(value, str) and (CALL.match(value) or value.strip() in CALLS)
        return [value, *others] if others or isinstance(value, tuple) or looks_so else value
    text = repr(domain)
    if DOMAIN.fullmatch(text) and repr(read_domain("it", text)) == text:
        return _Raw(text)
    return text  # in quotes


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)}: {_flow(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _key(name: Any) -> str:
    return _text(name) if isinstance(name, str) else _scalar(name)


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text  # YAML 1.1 wants a point
    if isinstance(value, int):
        return str(value)
    return _text(str(value).replace("${", "$${"))


def _text(text: str) -> str:
    """Return a text as it stands in a file: in quotes, unless nobody could take it for anything else."""
    try:
        bare = BARE.fullmatch(text) and meaning(text) == text
    except AmbiguousError:
        bare = False
    return text if bare else '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08X}"
