"""The user's constraint: how it is called, what its answers mean, and a try before anything is launched.

A constraint asks by name for the parameters that it compares, and says whether they go together. It is
called in the driver's process, for each configuration that was proposed and before anybody runs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from inspect import Parameter
from typing import Any, Final

from etude.core.errors import ConfigError, Invalid
from etude.core.events import Params
from etude.core.near import did_you_mean
from etude.core.signature import plain
from etude.core.streams import stream
from etude.core.text import brief
from etude.tune.spaces import Space

TRIED: Final = 16
"""Configurations on which a constraint is tried before a study starts."""


class Constraint:
    """A user's function that rules configurations out.

    Args:
        function: Asks by name for parameters, or with ``**`` for all there are. Returns a str (why the configuration
            cannot be), False, or True or None (it can be). Raising ``etude.Invalid`` is like returning a str.
        known: The names it may ask for.
        defaults: The experiment's defaults, for parameters that a configuration leaves out.
        budgeted: The parameter that is the fidelity: it has another value on each rung, so it is not for a constraint.

    Raises:
        ConfigError: It is no function, or asks for what there is not.

    Example:
        >>> heads = Constraint(lambda width, heads: width % heads == 0, known=["width", "heads"], defaults={"heads": 3})
        >>> heads.why_not({"width": 64})
        'ruled out by the constraint'
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        known: Collection[str],
        defaults: Mapping[str, Any] | None = None,
        budgeted: str | None = None,
    ) -> None:
        self._function = function
        self._defaults = {name: value for name, value in (defaults or {}).items() if name != budgeted}
        asked = _parameters(function)
        for parameter in asked:
            if parameter.name == budgeted and parameter.default is Parameter.empty:
                raise ConfigError(
                    f"constraint asks for {budgeted!r}, which is the fidelity: a configuration runs with one value of "
                    "it after the other, and a constraint says which configurations cannot be at all. Leave it out, or "
                    "raise etude.Invalid in the function."
                )
            _check_can_be_given(parameter, known)
        self._takes_all = any(p.kind is Parameter.VAR_KEYWORD for p in asked)
        self._asked = {p.name: p.default for p in asked if p.kind is not Parameter.VAR_KEYWORD}

    def why_not(self, params: Params) -> str | None:
        """Return why ``params`` is ruled out, or None if it is not.

        What is no part of the configuration comes as the constraint's own default, or else as None.

        Raises:
            ConfigError: The answer means nothing.
            Exception: Whatever the constraint raises.
        """
        values = {**self._defaults, **params}
        given = {name: values.get(name, None if own is Parameter.empty else own) for name, own in self._asked.items()}
        try:
            answer = plain(self._function(**(values | given if self._takes_all else given)))
        except Invalid as error:
            return str(error) or "ruled out by the constraint"
        if isinstance(answer, str):
            return answer or None
        if answer is None or answer is True:
            return None
        if answer is False:
            return "ruled out by the constraint"
        raise ConfigError(
            f"constraint answered {brief(answer)}, which says neither that the configuration can be nor that it "
            "cannot. Return True or False, or a str that says why not."
        )

    def try_on(self, space: Space, *, seed: int) -> None:
        """Refuse a constraint that does not answer on some configurations of a space.

        They are drawn from a stream of their own: the search never moves by it, nor sees the same draws.

        Raises:
            ConfigError: It raised, or its answer means nothing; the message shows the configuration.
        """
        for k in range(TRIED):
            params = space.sample(stream(seed, "constraint", k))
            try:
                self.why_not(params)
            except ConfigError as error:
                raise ConfigError(f"{error} It was asked about {params}.") from error
            except Exception as error:
                raise ConfigError(
                    f"constraint raised {type(error).__name__}: {error}, when it was asked about {params}. "
                    "What it raises for could never be run. Let it answer for every configuration of the space; "
                    "parameters that are not part of a configuration come as None."
                ) from error


def _parameters(function: object) -> list[Parameter]:
    if not callable(function):
        raise ConfigError(
            f"constraint={brief(function)} is no function. Pass one that asks by name for parameters and "
            "says whether they go together: constraint=lambda width, heads: width % heads == 0."
        )
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:  # some that are written in C keep it to themselves
        raise ConfigError(
            f"constraint={brief(function)} does not tell its parameters, so none can be given by name. "
            "Wrap it: constraint=lambda width, heads: ..."
        ) from error


def _check_can_be_given(parameter: Parameter, known: Collection[str]) -> None:
    """Refuse a parameter of a constraint that nothing can be given to by name."""
    name = parameter.name
    if parameter.kind is Parameter.VAR_POSITIONAL:
        raise ConfigError(
            f"constraint takes *{name}, and parameters are given by name alone. "
            f"Name those that it compares, or write **{name} for all of them."
        )
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        raise ConfigError(
            f"constraint takes {name!r} by position alone, and parameters are given by name. "
            "Leave the / out of its signature."
        )
    if parameter.kind is Parameter.VAR_KEYWORD or parameter.default is not Parameter.empty or name in known:
        return
    meant = did_you_mean(name, known).rstrip()
    raise ConfigError(
        f"constraint asks for {name!r}, which is no parameter of this experiment. "
        + (meant or f"There are: {', '.join(sorted(known))}.")
    )
