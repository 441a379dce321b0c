"""Names and calls as text, ``tpe`` and ``tpe(startup=20)``: read as Python and never run."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from etude.core.errors import ConfigError
from etude.core.near import did_you_mean

if TYPE_CHECKING:
    from etude.files.scripts import Script
    from etude.tune.registry import Registry

T = TypeVar("T")


def made_of(text: str, registry: Registry[T], script: Script | None = None, *, lead: str) -> T:
    """Return what a name, or a call with options, stands for in a registry, or else in the script.

    Args:
        text: The name, or the call; its options are Python literals.
        registry: What goes by a name.
        script: Where else it is looked for; None for nowhere.
        lead: What stands before it where it was written, for messages: ``"--sampler "``.

    Raises:
        ConfigError: There is none of that name, or it has no such options.
    """
    known = {**{cls.__name__: cls for cls in registry.classes.values()}, **registry.classes}
    name, paren, _ = (part.strip() for part in text.partition("("))
    if name not in known and name not in registry.presets and script is not None:
        return _of_script(text, registry, script, lead)
    if name not in known:
        made = registry.make(name)  # which refuses it, and knows what was meant
        if paren:
            raise ConfigError(
                f"{lead}{text!r}: {name} is short for {registry.describe(made)}, and takes no options. "
                "Write that instead, with the options that you want."
            )
        return made
    if not paren:
        return known[name]()
    args, named = arguments_of(text, name, lead)
    options = [f.name for f in dataclasses.fields(known[name]) if f.init]  # type: ignore[arg-type]
    for option in named:
        if option not in options:
            meant = did_you_mean(option, options)
            has = f"It has: {', '.join(options)}." if options else "It has none."
            raise ConfigError(f"{lead}{text!r}: {name} has no option {option!r}. {meant}{has}")
    try:
        return known[name](*args, **named)
    except TypeError as error:
        raise ConfigError(f"{lead}{text!r} cannot be called so: {error}.") from None


def _of_script(text: str, registry: Registry[T], script: Script, lead: str) -> T:
    """Return what a script calls so: an object, or what a class or function of it makes of literals."""
    from etude.files.scripts import what_is_missing

    file, inner = _split(text)
    name, paren, _ = (part.strip() for part in inner.partition("("))
    if file and Path(file).absolute() != script.path.absolute():
        raise ConfigError(
            f"{lead}{text!r} is in {file}, and the experiment in {script.path}. "
            f"Import it there, and write {lead}{inner}."
        )
    if not hasattr(script.module, name):
        try:
            registry.make(name)
        except ConfigError as error:
            raise ConfigError(f"{error} {script.path} has no {name!r} either.{what_is_missing(script)}") from None
    found = getattr(script.module, name)
    if not paren:
        return found  # type: ignore[no-any-return]
    args, named = arguments_of(inner, name, lead)
    try:
        return found(*args, **named)  # type: ignore[no-any-return]
    except Exception as error:
        raise ConfigError(f"{lead}{text!r}: {name} of {script.path} raised {type(error).__name__}: {error}.") from error


def _split(text: str) -> tuple[str, str]:
    """Return the file that is named before the colon, if there is one, and what stands behind it."""
    before, colon, after = text.strip().partition(".py:")
    return (f"{before}.py", after) if colon and "(" not in before else ("", text.strip())


def arguments_of(text: str, name: str, lead: str) -> tuple[list[Any], Mapping[str, Any]]:
    """Return the arguments of a call, which are literals.

    Raises:
        ConfigError: It is no call, or one is none.
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call):
            raise ValueError
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        return [ast.literal_eval(arg) for arg in call.args], named
    except (SyntaxError, ValueError, TypeError):
        raise ConfigError(
            f"{lead}{text!r} is no call whose options are Python literals. Write {lead}{name}, or "
            f"{lead}'{name}(option=1)' with quotes around it."
        ) from None
