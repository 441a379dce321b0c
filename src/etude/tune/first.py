"""What ``tune`` is given as ``start``: a list of configurations, looked through before each of them is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from etude.core.errors import ConfigError
from etude.core.text import brief, count
from etude.tune.spaces import Space


def listed(start: object) -> list[Any]:
    """Return what ``start`` holds, in order.

    Raises:
        ConfigError: It is no list.
    """
    if isinstance(start, Mapping):
        raise ConfigError(f"start={brief(start)} is one configuration. Pass a list of them: start=[{{...}}].")
    if not isinstance(start, Iterable) or isinstance(start, str | bytes):
        raise ConfigError(
            f"start={brief(start)} is no list of configurations. Pass start=[{{...}}], or leave it out if nothing is "
            "to be tried first."
        )
    return list(start)


def check_first(given: object, space: Space, *, defaults: Mapping[str, Any], fidelity: str | None) -> None:
    """Refuse a configuration for what is not in it, or is not its to say.

    Args:
        given: One of ``start``.
        space: What is searched.
        defaults: The functions' defaults, which stand for what it leaves out.
        fidelity: The parameter whose values are the budgets.

    Raises:
        ConfigError: It names the fidelity, or leaves out what has a default outside the space.
    """
    if not isinstance(given, Mapping):
        return  # whoever reads it says so
    if fidelity is not None and fidelity in given:
        raise ConfigError(
            f"start has {dict(given)}, and {fidelity!r} is the fidelity: its values are the budgets, which are given "
            f"by budget=. Leave {fidelity!r} out."
        )
    for name, domain in space.items():
        if name in given or name not in defaults or domain.size == 1:
            continue
        problem = domain.why_not(defaults[name])
        if problem is not None:
            raise ConfigError(
                f"start has {dict(given)} without {name!r}, and the function's default, {name}={defaults[name]!r}, "
                f"{problem}, so it is not in the space: {name} is {domain!r}. Give {name!r} a value there."
            )


def check_room(first: int, trials: int) -> None:
    """Refuse more configurations to try first than there will be trials.

    Raises:
        ConfigError: There are more.
    """
    if first > trials:
        raise ConfigError(
            f"start has {count(first, 'configuration')}, and trials={trials}, so not all of them would be tried. "
            f"Pass trials={first} or more, or a shorter start."
        )
