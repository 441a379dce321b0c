"""Engines by name, as they come from outside: a call, an environment, a command line, a parameter of a notebook."""

from __future__ import annotations

import ast
import importlib
import os
from collections.abc import Mapping
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.near import did_you_mean
from etude.core.text import brief

ENGINES: Final[Mapping[str, str]] = {
    "cluster": "etude.engines.cluster:Cluster",
    "local": "etude.engines.local:LocalEngine",
    "ray": "etude.engines.ray:Ray",
    "spark": "etude.engines.spark:Spark",
}
"""Name -> where the class is; only the one that is wanted is imported."""

STARTS_NO_JOBS: Final = (
    "is no engine: Étude starts no jobs there. Pass engine='cluster', which waits for workers, and have each job run "
    "`etude worker --credentials FILE`."
)
MEANT: Final[Mapping[str, str]] = {
    "simulated": "does not say what trials would report. Pass engine=etude.Simulated(curves=...).",
    **dict.fromkeys(("kubernetes", "lsf", "pbs", "sge", "slurm", "ssh"), STARTS_NO_JOBS),
    "ray:": "is an address. Pass engine=\"ray(address='HOST:6379')\", with what `ray start --head` has told.",
    "spark:": "is an address. Pass engine=\"spark(master='spark://HOST:7077')\".",
}
"""Names, and schemes of addresses, that are understood and are no engines -> why not, and what to pass instead."""

VARIABLE: Final = "ETUDE_ENGINE"
METHODS: Final = ("start", "end", "stop")


def read_engine(given: object) -> tuple[Any, str]:
    """Return the engine that a call was given, and how it is called; that of the environment if it was given none.

    Args:
        given: A name such as ``"ray"``, a name with options such as ``"ray(cpus=2)"``, an engine, or None.

    Raises:
        ConfigError: There is no such engine, or it has no such options.

    Example:
        >>> read_engine("cluster(port=8443)")[1]
        'cluster(port=8443)'
    """
    if given is None:
        given = os.environ.get(VARIABLE) or "local"
    if isinstance(given, str):
        return _made(given.strip()), given.strip()
    lives = all(callable(getattr(given, method, None)) for method in METHODS)
    simulates = callable(getattr(given, "schedule", None)) and callable(getattr(given, "slowness", None))
    if isinstance(given, type) or not (lives or simulates):
        raise ConfigError(
            f"engine={brief(given)} is no engine. Pass a name ({_names()}), etude.Simulated(curves=...), or an object "
            "with start, end and stop."
        )
    return given, type(given).__name__


def _made(text: str) -> Any:
    name = text.partition("(")[0].strip()
    if name not in ENGINES:
        meant = did_you_mean(name, [*ENGINES, "simulated"])
        unknown = f"is not known. {meant}There are: {_names()}, and etude.Simulated(curves=...)."
        raise ConfigError(f"engine={text!r} {MEANT.get(name.partition('//')[0], unknown)}")
    options = _options(text, name)
    module, _, kind = ENGINES[name].partition(":")
    try:
        return getattr(importlib.import_module(module), kind)(**options)
    except TypeError as error:
        raise ConfigError(f"engine={text!r} cannot be made so: {error}.") from None


def _options(text: str, name: str) -> dict[str, Any]:
    try:
        call = ast.parse(text, mode="eval").body
        if isinstance(call, ast.Name):
            return {}
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError
        return {str(option.arg): ast.literal_eval(option.value) for option in call.keywords}
    except (SyntaxError, ValueError, TypeError):
        raise ConfigError(
            f"engine={text!r} is no name with options that are Python literals. Write it as in {name}(option=1)."
        ) from None


def _names() -> str:
    return ", ".join(map(repr, ENGINES))
