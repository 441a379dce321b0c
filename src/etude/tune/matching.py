"""A space held against the functions that it is for: what they take, and of which type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from etude.core.errors import SignatureError, SpaceError
from etude.core.signature import Kind, Parameter, Signature, misfit
from etude.tune.domains import Domain
from etude.tune.spaces import Space
from etude.tune.values import is_pair, pair_for_range


def checked_space(given: Mapping[str, object], signature: Signature, *, besides: Sequence[str] = ()) -> Space:
    """Read a space, and refuse one that functions of this signature could not be called with.

    Args:
        given: The space, as a call has it.
        signature: What the functions take.
        besides: Parameters that something else gives, such as the fidelity.

    Raises:
        SpaceError: It is no space.
        SignatureError: A parameter is unknown, missing, of the wrong type, or cannot be searched.
    """
    space = given if isinstance(given, Space) else Space.of(given)
    sizes = {name: domain.size for name, domain in space.domains()}
    for name in space.names:
        parameter = signature.parameters.get(name)
        if parameter is not None and parameter.kind is Kind.STATELESS and sizes[name] != 1:
            raise SignatureError(
                f"{name!r} is in the space and Stateless in {parameter.taken_by}: it is said not to change the "
                "numbers, so it cannot be searched. Unlike in ABLATOR, searched parameters stay plain: write "
                f"{name}: T instead of {name}: etude.Stateless[T]; or give one fixed value."
            )
    signature.check_names(space.names)
    signature.check_complete({*space.always, *besides})
    for name, domain in space.domains():
        parameter = signature.parameters.get(name)
        if parameter is not None and is_pair(given.get(name)) and not _takes_tuples(parameter):
            raise SpaceError(pair_for_range(name, given[name]))
        _check_values(parameter, domain)
    return space


def _check_values(parameter: Parameter | None, domain: Domain) -> None:
    if parameter is not None:
        for value in domain.grid(2):
            parameter.check(value)


def _takes_tuples(parameter: Parameter) -> bool:
    """Say whether a pair may be meant as the value that it is."""
    if parameter.annotation is Any:
        return isinstance(parameter.default, tuple | list)
    return misfit((0, 1), parameter.annotation) is None or misfit((0.5, 1.5), parameter.annotation) is None
